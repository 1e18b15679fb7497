"""What must hold once everything is quiet, computed from the log alone, without the code under test."""

from __future__ import annotations

from collections import defaultdict

from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.processor.protocol import Decision, Label, LogRecord, Rules
from tests.support.protocol_world.scale import AHEAD, EARLIEST, HORIZON, NODES, UNSTATED_LIFE, WINDOW_NS, ns
from tests.support.protocol_world.world import World

Reached = dict[tuple[NodeKey, int], list[LogRecord]]


def violations(world: World) -> list[str]:
    """Every broken promise, in words; empty where all four properties hold."""
    reached = _reached(world)
    found = _second_contents(world)
    for node in NODES:
        for window in range(EARLIEST, HORIZON):
            found += _check_window(world, reached, node, window)
        found += _stated_life_is_paid(world, node)
    if world.committed != len(world.records):
        found.append(f"P3 acknowledged {world.committed} of {len(world.records)}")
    return found


def _reached(world: World) -> Reached:
    reached: Reached = defaultdict(list)
    for record in world.records:
        too_old = record.window_start_ns + WINDOW_NS + world.faults.rules.oldest_ns < record.append_ns
        if record.window_start_ns <= record.append_ns + ns(AHEAD) and not too_old:
            reached[record.identity.node_key, record.window_start_ns // WINDOW_NS].append(record)
    return {key: _bounded(records, world.faults.rules) for key, records in reached.items()}


def _bounded(records: list[LogRecord], rules: Rules) -> list[LogRecord]:
    """Without repeats, and up to the first that a window has no place for, which counts as refused."""
    found: dict[tuple[RecordId, int], LogRecord] = {}
    size_bytes = 0
    for record in records:
        if (record.identity, record.mend) in found:
            continue
        size_bytes += record.size_bytes
        beyond = len(found) >= rules.window_records or size_bytes > rules.window_bytes
        found[record.identity, record.mend] = record._replace(readable=False) if beyond else record
        if beyond:
            break
    return list(found.values())


def _second_contents(world: World) -> list[str]:
    return [
        f"P2 {node.node} w{window} revision {revision} has {len(contents)} contents: {contents}"
        for (node, window, revision), contents in world.contents.items()
        if len(contents) > 1
    ]


def _check_window(world: World, reached: Reached, node: NodeKey, window: int) -> list[str]:
    records = reached.get((node, window), [])
    head = world.heads.get((node, window))
    name = f"{node.node} w{window}"
    owed = _is_owed(world, reached, node, window)
    if head is None:
        told = _was_skipped(world, node, window * WINDOW_NS)
        return [f"P1 {name} was never charged"] if records or (owed and not told) else []
    found = []
    if not records:
        return _check_empty(world, reached, node, window, head, owed)
    wanted = {(r.identity, r.mend) for r in records}
    got = [(r.identity, r.mend) for r in head.inputs]
    if set(got) != wanted or len(got) != len(wanted):
        found.append(f"P1 {name} holds {len(got)} inputs of {len(wanted)}")
    if head.label is not _label(records):
        found.append(f"{name} is {head.label.name}, not {_label(records).name}")
    begun_within = any(
        (node, r.identity.epoch_ns, window) in world.mid_windows for r in records if not r.amendment
    )
    if head.label is Label.COMPLETE and begun_within:
        found.append(f"{name} counts as complete and its epoch began within it")
    layouts = [r.layout for r in records if r.readable and r.keyframe]
    layout = layouts[0] if layouts else _nearest(world, reached, node, window)[0]
    if head.layout != layout:
        found.append(f"{name} is charged for layout {head.layout}, not {layout}")
    return found + _check_generation(world, name, window, head)


def _was_skipped(world: World, node: NodeKey, start: int) -> bool:
    """Whether it was told that the window is too old to be charged."""
    return any(s.node == node and s.start_ns <= start < s.end_ns for s in world.skipped)


def _check_empty(
    world: World, reached: Reached, node: NodeKey, window: int, head: Decision, owed: bool
) -> list[str]:
    name = f"{node.node} w{window}"
    if not owed:
        return [] if head.label is Label.ENDED else [f"P4 {name} is charged after the end: {head.label.name}"]
    if head.label is Label.ENDED:
        return [f"P4 {name} counts as ended within the node's life"]
    found = _check_generation(world, name, window, head)
    layout = _nearest(world, reached, node, window)[0]
    if head.layout != layout:
        found.append(f"{name} speaks of layout {head.layout}, not {layout}")
    return found


def _check_generation(world: World, name: str, window: int, head: Decision) -> list[str]:
    start = window * WINDOW_NS
    wanted = max([g.number for g in world.generations if g.start_ns <= start < g.end_ns], default=0)
    if head.revision.generation != wanted:
        return [f"{name} has generation {head.revision.generation}, not {wanted}"]
    return []


def _is_owed(world: World, reached: Reached, node: NodeKey, window: int) -> bool:
    life = world.life_of(node)
    if life is not None:
        start, end = window * WINDOW_NS, (window + 1) * WINDOW_NS
        return max(start, life.launched_ns or 0) < min(
            end, life.ended_ns if life.ended_ns is not None else end
        )
    windows = [w for (n, w), records in reached.items() if n == node and records]
    if not windows or window < min(windows):
        return False
    if window <= max(windows):
        return not _nearest(world, reached, node, window)[1]
    latest = max(windows)
    said_goodbye = any(r.goodbye and r.readable for r in reached[node, latest])
    return (
        not said_goodbye
        and not _nearest(world, reached, node, window)[1]
        and window <= latest + UNSTATED_LIFE
    )


def _nearest(world: World, reached: Reached, node: NodeKey, window: int) -> tuple[object, bool]:
    """(layout, goodbye) of the nearest earlier window that states something."""
    for earlier in range(window - 1, EARLIEST - 1, -1):
        readable = [r for r in reached.get((node, earlier), []) if r.readable]
        layouts = [r.layout for r in readable if r.keyframe]
        goodbye = any(r.goodbye for r in readable) and world.life_of(node) is None
        if layouts or goodbye:
            return (layouts[0] if layouts else None), goodbye
    return None, False


def _label(records: list[LogRecord]) -> Label:
    good = {r.identity for r in records if r.readable}
    if any(r.identity not in good for r in records):
        return Label.REFUSED
    parts = {r.identity: r for r in records if r.readable and not r.amendment}
    epochs = {identity.epoch_ns for identity in parts}
    numbers = sorted(r.part for r in parts.values())
    last = [r.part for r in parts.values() if r.last]
    if len(epochs) == 1 and last and numbers == list(range(last[0] + 1)):
        return Label.COMPLETE
    return Label.INCOMPLETE


def _stated_life_is_paid(world: World, node: NodeKey) -> list[str]:
    life = world.life_of(node)
    if life is None or life.ended_ns is None or life.launched_ns is None:
        return []
    heads = {window: head for (key, window), head in world.heads.items() if key == node}
    paid = sum(
        end - start for head in heads.values() if head.label is not Label.ENDED for start, end in head.alive
    )
    owed = sum(
        max(0, min(life.ended_ns, start + WINDOW_NS) - max(life.launched_ns, start))
        for start in range(EARLIEST * WINDOW_NS, life.ended_ns, WINDOW_NS)
        if start // WINDOW_NS in heads or not _was_skipped(world, node, start)
    )
    return [] if paid == owed else [f"P4 {node.node} pays {paid} ns of a life of {owed} ns"]
