"""Deciding the windows of one node in one round: label, revision, and the row of gpu.progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuledger.contract.identity import NodeKey
from gpuledger.processor.protocol.generations import Generations
from gpuledger.processor.protocol.inputs import (
    distinct,
    is_out_of_time,
    label_of,
    refused,
    statement_of,
    within_bounds,
)
from gpuledger.processor.protocol.node import NodeState
from gpuledger.processor.protocol.ranks import cuts, rank_of_empty, rank_of_inputs
from gpuledger.processor.protocol.values import (
    Decision,
    Label,
    LogRecord,
    Rules,
    Statement,
    WindowRow,
    WindowTask,
)


@dataclass(slots=True)
class NodeBatch:
    """A Batch of one node, in the making."""

    decisions: list[Decision] = field(default_factory=list)
    rows: dict[tuple[NodeKey, int], WindowRow] = field(default_factory=dict)
    finished: list[int] = field(default_factory=list)
    refused: list[LogRecord] = field(default_factory=list)
    expired: list[LogRecord] = field(default_factory=list)
    beyond: list[LogRecord] = field(default_factory=list)


def settle_node(
    node: NodeState,
    tasks: Sequence[WindowTask],
    records: Mapping[tuple[NodeKey, int], Sequence[LogRecord]],
    generations: Generations,
    rules: Rules,
) -> NodeBatch:
    """Decide ``tasks``, in order, since an empty window speaks from what the ones before it state."""
    batch = NodeBatch()
    found: dict[int, Statement | None] = {}
    told: list[Statement] = []  # each of what these say, once
    for task in tasks:
        key, start = task.node, task.window_start_ns
        held = node.held.of(start)
        union = [
            record
            for record in records.get((key, start), ())
            if record.window_start_ns == start and is_out_of_time(record, node.length_ns, rules) is None
        ]
        inputs, beyond = within_bounds(distinct(union), rules)
        row = node.rows.get(start)
        if (
            row is not None
            and not held
            and not node.must_restate(start)
            and _tells_alike(node, start, found, told)
        ):
            continue
        batch.finished.extend(task.held)
        if row is not None and len(inputs) < row.inputs:
            # Retention took inputs that were charged: what stands must not be restated from less.
            batch.expired.extend(record for offset, record in held.items() if offset in task.held)
            batch.rows[key, start] = row
            continue
        generation = max(generations.of(key.cluster, start), row.generation if row is not None else 0)
        statement = statement_of(inputs)
        found[start] = statement
        if statement is not None and node.tells(statement) and not any(map(statement.says_same, told)):
            told.append(statement)
        batch.decisions.append(_decide(node, start, inputs, generation, found))
        batch.refused.extend(record for record in refused(inputs) if record.offset in held)
        batch.beyond.extend(record for record in beyond if record.offset in held)
        offsets = [record.offset for record in union]
        batch.rows[key, start] = WindowRow(
            generation=generation,
            inputs=len(inputs),
            lowest=min(offsets, default=-1),
            highest=max(offsets, default=-1),
            statement=statement,
            alive_ns=node.alive_ns(start),
            input_bytes=sum(record.size_bytes for record in inputs),
        )
    return batch


def _tells_alike(
    node: NodeState, start: int, found: Mapping[int, Statement | None], told: Sequence[Statement]
) -> bool:
    """Whether the nearest window that speaks of this one says what it was charged with.

    A spool of days is a late keyframe after the other: each restates the empty windows behind it only where
    it says something else. Windows are restated with the one that they speak from, so what the rows say is
    what they were charged with.

    All that the round found first, ``told``, must say the same, not the nearest alone: an owner that came no
    further than its charges may have read a part of it, and charged the window from one that said something
    else. That may be nearer than what the rows say, and stands until the window is charged from the nearest.

    A window that a launch or an end cuts is always restated: an owner that was fenced may have charged it
    from the nearer keyframe, whole, and of empty windows what is nearer outranks what is cut.
    """
    if 0 < node.alive_ns(start) < node.length_ns:
        return False
    before, now = node.speaks(start, {}), node.speaks(start, found)
    if before is None or now is None:
        return before is now
    return all(map(before[1].says_same, (*told, now[1])))


def _decide(
    node: NodeState,
    start: int,
    inputs: tuple[LogRecord, ...],
    generation: int,
    found: Mapping[int, Statement | None],
) -> Decision:
    end = start + node.length_ns
    stated = node.lifetimes.stated
    alive = node.lifetimes.alive(start, end)
    cut = cuts(start, end, alive)
    spoken = node.speaks(start, found)
    distance = None if spoken is None else (start - spoken[0]) // node.length_ns
    layout = spoken[1].layout if spoken is not None else None
    if inputs:
        own = found[start]
        if own is not None and own.has_keyframe:
            distance, layout = 0, own.layout
        revision = rank_of_inputs(generation, node.key, inputs, alive, cut, distance)
        return Decision(node.key, start, label_of(inputs), revision, alive, inputs, layout)
    goodbye = spoken is not None and spoken[1].goodbye and not stated
    revision = rank_of_empty(
        generation, distance, stated=stated, outside=not alive, flag=cut if stated else int(goodbye)
    )
    if goodbye or not alive:
        return Decision(node.key, start, Label.ENDED, revision, ())
    return Decision(node.key, start, Label.UNOBSERVED, revision, alive, layout=layout)
