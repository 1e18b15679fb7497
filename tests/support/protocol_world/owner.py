"""A worker that owns the partition: loads as a new owner must, then works round by round.

It carries out the very effects that the Kafka shell carries out, and may be stopped between any two.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import TYPE_CHECKING

from gpuledger.contract.errors import Fenced
from gpuledger.processor.protocol import (
    Acknowledge,
    Gather,
    History,
    LogRecord,
    NodeProgress,
    PackedRows,
    PartitionOwner,
    Progress,
    Publish,
    Reading,
    Written,
    work,
)
from tests.support.protocol_world.scale import GRID, HOUR_NS, NODES, ns

if TYPE_CHECKING:
    from tests.support.protocol_world.world import World


class Worker:
    """One life of a worker. ``steps`` runs to its next point of interruption at each ``next``."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.fenced = False  # another one called init_transactions
        self.expelled = False  # the consumer group has another generation
        self.steps = self._life()
        self._world = world
        self._lives_read = 0
        self._generations_read = 0
        self._history = History(HOUR_NS)
        self._older: list[Written] = []  # what was written before all that is known, the latest at the end
        self._pace = Random(f"{world.seed} {name}")  # its own: else all else would happen otherwise

    def _life(self) -> Generator[None, None, None]:
        world, switches, random = self._world, self._world.switches, self._world.random
        position = world.committed
        yield
        for other in world.workers:
            if other is not self:
                other.fenced = True
        world.log(f"{self.name} init_transactions")
        yield
        progress = list(world.progress) if switches.progress_loaded else []
        world.log(f"{self.name} loads progress")
        yield
        self._lives_read = len(world.lives)
        self._generations_read = len(world.generations)
        self._older = _written(progress)
        self._load(self._pace.randint(0, len(self._older)))
        owner = PartitionOwner(
            0,
            position,
            lambda cluster: GRID,
            world.faults.rules,
            progress=self._history.recent() if self._older else (),
            lifetimes=world.lives[: self._lives_read],
            announcements=world.generations[: self._generations_read],
            whole=False,
        )
        self._learn(owner)
        yield
        while True:
            if not owner.is_whole and self._pace.random() < 0.3:
                self._load(self._pace.randint(1, 4))
                self._learn(owner)
            if owner.position < len(world.records) and random.random() < 0.8:
                record = world.records[owner.position]
                outcome = owner.read(hidden(record))
                world.log(f"{self.name} reads @{record.offset}: {outcome.value}")
                if outcome not in (Reading.HELD, Reading.REPEATED):
                    world.dead_letters.add(record.offset)
                yield
                if random.random() < 0.6:
                    continue
            if not owner.has_mark:
                if not switches.ends_read_after_time:
                    self._read_lives(owner)
                    yield
                now = world.now
                yield
                end = len(world.records)
                yield
                if switches.ends_read_after_time:
                    self._read_lives(owner)
                owner.mark(ns(now), end)
            if random.random() < 0.1:
                self._read_lives(owner)
            if self._generations_read < len(world.generations) and random.random() < 0.3:
                owner.announce(world.generations[self._generations_read])
                self._generations_read += 1
                yield
            alive = yield from self._round(owner)
            if not alive:
                world.workers.remove(self)
                return

    def _load(self, count: int) -> None:
        for _ in range(min(count, len(self._older))):
            self._history.take(self._older.pop())

    def _learn(self, owner: PartitionOwner) -> None:
        if not self._older:
            too_old = owner.complete(self._history.nodes())
            self._world.dead_letters.update(record.offset for record in too_old)
            self._world.log(f"{self.name} knows all, {len(too_old)} records are too old")

    def _read_lives(self, owner: PartitionOwner) -> None:
        for key, life in self._world.lives[self._lives_read :]:
            owner.state_life(key, life)
            self._world.log(f"{self.name} sees {key.node} {life}")
        self._lives_read = len(self._world.lives)

    def _round(self, owner: PartitionOwner) -> Generator[None, None, bool]:
        world, random = self._world, self._world.random
        limit, least = random.choice((1, 3, 100)), world.faults.round_bytes
        if least is None:
            effects = work([owner], limit=limit)
        else:
            effects = work([owner], limit, self._pace.randint(least, 4 * least))
        answer: object = None
        while True:
            try:
                effect = effects.send(answer)
            except StopIteration:
                yield
                return True
            answer = None
            match effect:
                case Gather(tasks):
                    answer = {(t.node, t.window_start_ns): world.union(t) for _, t in tasks}
                case Publish(batches):
                    if world.switches.charges_first:
                        yield from self._publish(batches)
                    else:
                        late = batches
                case Progress(owner, batch):
                    world.skipped += owner.take_skipped()
                    if self.fenced and world.switches.fencing:
                        world.log(f"{self.name} progress refused")
                        return False
                    world.write_progress(self.name, owner, batch)
                    yield
                    if not world.switches.charges_first:
                        yield from self._publish(late)
                case Acknowledge(_, offset):
                    if not world.switches.ack_in_order:
                        offset = owner.position
                    yield
                    if self.expelled:
                        world.log(f"{self.name} acknowledgement refused")
                        return False
                    world.committed = offset
                    world.log(f"{self.name} acknowledges to @{offset}")
            if random.random() < 0.5:
                yield

    def _publish(self, batches: tuple) -> Generator[None, None, None]:  # type: ignore[type-arg]
        world = self._world
        decisions = [decision for _, batch in batches for decision in batch.decisions]
        world.dead_letters.update(r.offset for _, batch in batches for r in batch.refused)
        world.random.shuffle(decisions)
        for decision in decisions:
            world.charge(self.name, decision)
            yield


def hidden(record: LogRecord) -> LogRecord:
    """As the headers show it: the body is not decoded yet."""
    return record._replace(readable=True, layout=None)


def _written(progress: list[NodeProgress]) -> list[Written]:
    """As the topic has it, in its order: hours that were given up are gone."""
    kept = {node: _kept([entry for entry in progress if entry.node == node]) for node in NODES}
    found = []
    for entry in progress:
        hour = next(start - start % HOUR_NS for start in entry.rows)
        rows = {start: row for start, row in entry.rows.items() if start in kept[entry.node]}
        packed = PackedRows.of(rows) if rows else None
        said = entry.through_ns, entry.last_append_ns, entry.opened_from_ns
        found.append(Written(entry.node, hour, packed, *said))
    return found


def _kept(entries: list[NodeProgress]) -> set[int]:
    """The windows of which a row is still there."""
    rows = {start: row for entry in entries for start, row in entry.rows.items()}
    opened_from = max((e.opened_from_ns for e in entries if e.opened_from_ns is not None), default=None)
    if opened_from is None:
        return set(rows)
    old = [start for start in rows if start < opened_from]
    spoken = max((start for start in old if rows[start].statement is not None), default=None)
    return {
        start
        for start in rows
        if start >= opened_from or (spoken is not None and start // HOUR_NS == spoken // HOUR_NS)
    }


__all__ = ["Fenced", "Worker", "hidden"]
