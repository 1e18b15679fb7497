"""The owner of one partition of gpu.telemetry: what it has read, what it decides, what it may acknowledge.

Pure: no I/O and no clock. The order in which its decisions are carried out is ``work.work``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gpuledger.contract.errors import GpuledgerError
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.windows import WindowGrid
from gpuledger.processor.protocol.generations import Generations
from gpuledger.processor.protocol.history import NodeHistory
from gpuledger.processor.protocol.inputs import is_out_of_time
from gpuledger.processor.protocol.node import NOTHING_KNOWN, NodeState
from gpuledger.processor.protocol.settle import settle_node
from gpuledger.processor.protocol.values import (
    Announcement,
    Batch,
    Lifetime,
    LogRecord,
    NodeProgress,
    Reading,
    Rules,
    Skipped,
    WindowTask,
)

MAX_WINDOWS_PER_ROUND = 1000  # of a partition: about a second of charging, then others have their turn
MIN_WINDOWS_PER_NODE = 4  # of a round, however many nodes there are
MAX_BYTES_PER_ROUND = 128 << 20  # of all partitions; decoded it is some times as much


class OffsetGap(GpuledgerError):
    """A record arrived before a lower one: going on would acknowledge what was never read."""


class PartitionOwner:
    """All nodes of one partition, from the position at which reading begins."""

    def __init__(
        self,
        partition: int,
        position: int,
        grid_of: Callable[[str], WindowGrid],
        rules: Rules | None = None,
        *,
        progress: Iterable[NodeProgress] = (),
        lifetimes: Iterable[tuple[NodeKey, Lifetime]] = (),
        announcements: Iterable[Announcement] = (),
        whole: bool = True,
    ) -> None:
        """``whole``: ``progress`` is all there is; else ``complete`` follows, and till then what needs more
        than it knows waits."""
        self.partition = partition
        self.nodes: dict[NodeKey, NodeState] = {}
        self._rules = rules or Rules()
        self._grid_of = grid_of
        self._generations = Generations()
        self._position = position  # the offset of the next record to read
        self._acknowledged = position
        self._offered = position  # the last offset that was handed out to be committed
        self._finished: set[int] = set()
        self._caught_up_ns: int | None = None
        self._mark: tuple[int, int] | None = None
        self._changed: set[NodeKey] = set()
        self._open_from = -1 << 62  # start of the oldest window that is opened without a record
        self._read_to_ns = -1 << 62  # broker time; while older rows are missing nothing is given up by it
        self._skipped: list[Skipped] = []
        self._whole = whole
        for announcement in announcements:
            self._generations = self._generations.with_announcement(announcement)
        for key, life in lifetimes:
            self._node(key).state_life(life)
        for loaded in progress:
            self._node(loaded.node).load(loaded, self._generations)
            self._give_up(loaded.last_append_ns or 0)
        self._changed.update(self.nodes)

    def complete(self, histories: Iterable[NodeHistory]) -> list[LogRecord]:
        """All else that gpu.progress holds: nothing waits any more.

        The records that are returned are finished: they are too old, which was not known when they were read.
        """
        self._whole = True
        found = {history.node: history for history in histories}
        too_old: list[LogRecord] = []
        for key in {*self.nodes, *found}:
            history = found.get(key)
            too_old += self._node(key).complete(history, self._generations)
            if history is not None:
                self._give_up(history.last_append_ns or 0)
        for node in self.nodes.values():
            self._open(node)
            node.find_gaps()  # due before any time passes
        self._finished.update(record.offset for record in too_old)
        self._changed.update(self.nodes)
        return too_old

    @property
    def is_whole(self) -> bool:
        """Whether all that gpu.progress holds is there."""
        return self._whole

    @property
    def position(self) -> int:
        """The offset of the next record to read."""
        return self._position

    @property
    def caught_up_ns(self) -> int | None:
        """The latest broker time at which everything that lay in the partition has been read."""
        return self._caught_up_ns

    @property
    def open_from_ns(self) -> int:
        """Windows that start before it are opened no more, and their rows are forgotten; a whole hour."""
        return self._open_from

    @property
    def has_mark(self) -> bool:
        """Whether a mark waits to be reached."""
        return self._mark is not None

    @property
    def held(self) -> int:
        """How many records are read and not finished."""
        return self._position - self._acknowledged - len(self._finished)

    def take_skipped(self) -> list[Skipped]:
        """The windows that were found to be too old to be opened, since this was last asked."""
        skipped, self._skipped = self._skipped, []
        return skipped

    def state_life(self, key: NodeKey, life: Lifetime) -> None:
        """gpu.nodes states a life of a node of this partition."""
        self._node(key).state_life(life)
        self._changed.add(key)

    def announce(self, announcement: Announcement) -> bool:
        """A generation was announced; whether it is news, and reaches further back than windows are kept."""
        before = self._generations
        self._generations = before.with_announcement(announcement)
        if self._generations == before:
            return False
        for node in self.nodes.values():
            node.review(self._generations)
        self._changed.update(self.nodes)
        return announcement.start_ns < self._open_from

    def read(self, record: LogRecord) -> Reading:
        """Take the next record; raises OffsetGap where an offset before it is missing."""
        if record.offset < self._position:
            return Reading.REPEATED
        self._step(record.offset)
        self._pass_time(record.append_ns)
        reading = self._hold(record)
        if reading is not Reading.HELD:
            self._finished.add(record.offset)
        return reading

    def pass_over(self, offset: int) -> None:
        """The record at ``offset`` belongs to no window (dead letters have it): finished."""
        if offset >= self._position:
            self._step(offset)
            self._finished.add(offset)

    def skip_to(self, offset: int) -> None:
        """Retention deleted all that lay below ``offset``: it can not be read any more."""
        self._finished.update(range(self._position, offset))
        self._position = max(self._position, offset)
        self._reach_mark()

    def mark(self, broker_ns: int, end_offset: int) -> None:
        """At broker time ``broker_ns`` the partition ended at ``end_offset`` or before.

        While an earlier mark waits to be reached, a new one is ignored: else a partition that is never
        quite read to its end would never count as caught up.
        """
        if self._mark is None:
            self._mark = (broker_ns, end_offset)
            self._reach_mark()

    def plan(
        self, limit: int = MAX_WINDOWS_PER_ROUND, size_bytes: int = MAX_BYTES_PER_ROUND
    ) -> list[WindowTask]:
        """The windows to compute now, by node and in order.

        About ``limit`` of those that can wait, and about ``size_bytes`` of records, evenly over the nodes, so
        that a node with much to work off does not hold up the others.
        """
        tasks: list[WindowTask] = []
        changed = max(1, len(self._changed))
        for key in sorted(self._changed):
            node = self.nodes[key]
            self._open(node)
            share = max(MIN_WINDOWS_PER_NODE, limit // changed)
            starts = node.plan(self._caught_up_ns, share, size_bytes // changed)
            if not starts:
                self._changed.discard(key)
            tasks += [_task(node, start) for start in starts]
        self._pass_time(self._read_to_ns)  # behind what was due when all became known
        return tasks

    def settle(
        self, tasks: Sequence[WindowTask], records: Mapping[tuple[NodeKey, int], Sequence[LogRecord]]
    ) -> Batch:
        """Decide the windows of a plan from all their records, decoded: held and fetched."""
        parts = []
        by_node: dict[NodeKey, list[WindowTask]] = {}
        for task in tasks:
            by_node.setdefault(task.node, []).append(task)
        for key, node_tasks in by_node.items():
            parts.append(settle_node(self.nodes[key], node_tasks, records, self._generations, self._rules))
        return Batch(
            decisions=tuple(d for part in parts for d in part.decisions),
            rows={key: row for part in parts for key, row in part.rows.items()},
            finished=tuple(offset for part in parts for offset in part.finished),
            refused=tuple(r for part in parts for r in part.refused),
            expired=tuple(r for part in parts for r in part.expired),
            beyond=tuple(r for part in parts for r in part.beyond),
        )

    def widened(self, tasks: Sequence[WindowTask], batch: Batch) -> list[WindowTask]:
        """The plan that became ``batch``, with all empty windows behind a late one that says something new.

        Others speak nearer to some of them. But an owner that came no further than its charges may have
        charged those from the late one alone, before it or this one had read the others.
        """
        changed: dict[NodeKey, int] = {}
        for (key, start), row in batch.rows.items():
            if self.nodes[key].is_news(start, row.statement):
                changed[key] = min(start, changed.get(key, start))
        if not changed:
            return list(tasks)
        planned = {(task.node, task.window_start_ns): task for task in tasks}
        for key, start in changed.items():
            node = self.nodes[key]
            for behind in node.silent_behind(start):
                planned.setdefault((key, behind), _task(node, behind))
        return sorted(planned.values(), key=lambda task: (task.node, task.window_start_ns))

    def commit(self, batch: Batch) -> None:
        """The charges and the progress of ``batch`` are written: its records are finished."""
        finished = set(batch.finished)
        for (key, start), row in batch.rows.items():
            node = self.nodes[key]
            node.commit(start, row, finished.intersection(node.held.of(start)))
            self._changed.add(key)
        self._finished.update(finished)

    def acknowledgeable(self) -> int | None:
        """The offset to commit: every lower one is finished. None where nothing is new."""
        while self._acknowledged in self._finished:
            self._finished.discard(self._acknowledged)
            self._acknowledged += 1
        if self._acknowledged <= self._offered:
            return None
        self._offered = self._acknowledged
        return self._acknowledged

    def goes_on_from(self, committed: int | None) -> bool:
        """Whether nobody else acknowledged anything meanwhile; what was not committed is offered again."""
        if committed is not None and committed > self._acknowledged:
            return False
        self._offered = -1 if committed is None else committed
        return True

    def _hold(self, record: LogRecord) -> Reading:
        key = record.identity.node_key
        grid = self._grid_of(key.cluster)
        if not grid.is_start(record.window_start_ns):
            return Reading.WRONG_GRID
        reason = is_out_of_time(record, grid.length_ns, self._rules)
        if reason is not None:
            return Reading(reason)
        self._changed.add(key)
        return self._node(key).read(record)

    def _pass_time(self, now_ns: int) -> None:
        """The log has been read up to that broker time, and no further: what is too old goes by it."""
        self._read_to_ns = max(self._read_to_ns, now_ns)
        if self._whole:
            self._give_up(self._read_to_ns)

    def _give_up(self, now_ns: int) -> None:
        open_from = self._rules.open_from(now_ns)
        if open_from > self._open_from:
            self._open_from = open_from
            self._changed.update(self.nodes)

    def _open(self, node: NodeState) -> None:
        skipped = node.open_from(self._open_from)
        if skipped is not None:
            self._skipped.append(skipped)

    def _step(self, offset: int) -> None:
        if offset != self._position:
            raise OffsetGap(
                f"partition {self.partition}: offset {offset} came where {self._position} was expected"
            )
        self._position += 1
        self._reach_mark()

    def _reach_mark(self) -> None:
        if self._mark is not None and self._position >= self._mark[1]:
            self._caught_up_ns = max(self._mark[0], self._caught_up_ns or 0)
            self._pass_time(self._mark[0])
            self._mark = None
            self._changed.update(self.nodes)

    def _node(self, key: NodeKey) -> NodeState:
        node = self.nodes.get(key)
        if node is None:
            known_from = None if self._whole else NOTHING_KNOWN
            node = self.nodes[key] = NodeState(key, self._grid_of(key.cluster), self._rules, known_from)
        return node


def _task(node: NodeState, start: int) -> WindowTask:
    row = node.rows.get(start)
    fetch = (row.lowest, row.highest) if row is not None and row.inputs else None
    return WindowTask(node.key, start, tuple(sorted(node.held.of(start))), fetch)
