"""One node: its open and closed windows, and which of them are to be computed now."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping

from gpuledger.contract.identity import NodeKey
from gpuledger.contract.windows import WindowGrid
from gpuledger.processor.protocol.generations import Generations
from gpuledger.processor.protocol.lifetimes import Lifetimes
from gpuledger.processor.protocol.values import (
    Lifetime,
    LogRecord,
    NodeProgress,
    Rules,
    Statement,
    WindowRow,
)


class NodeState:
    """What the owner of a partition holds of one of its nodes. Windows are named by their start."""

    def __init__(self, key: NodeKey, grid: WindowGrid, rules: Rules) -> None:
        self.key = key
        self.length_ns = grid.length_ns
        self.open: dict[int, dict[int, LogRecord]] = {}
        self.rows: dict[int, WindowRow] = {}
        self.lifetimes = Lifetimes()
        self._grid = grid
        self._rules = rules
        self._through: int | None = None  # the last window closed in order
        self._newest: int | None = None  # the highest window read, amendments and mended copies aside
        self._newest_inputs: int | None = None  # the highest closed window that has records
        self._last_append_ns: int | None = None
        self._first_read: int | None = None
        self._restate: set[int] = set()  # windows closed (or passed) that must be computed again
        self._speaking: list[int] = []  # sorted: closed windows that state something

    def load(self, progress: NodeProgress, generations: Generations) -> None:
        """Take over what an earlier owner wrote; before the first record, after the lifetimes."""
        self._through = progress.through_ns
        for start, row in sorted(progress.rows.items()):
            self._put(start, row)
            if row.inputs and row.statement is not None and row.statement.has_keyframe:
                self._newest = start if self._newest is None else max(self._newest, start)
        self._first_read = min(progress.rows, default=None)
        self._last_append_ns = progress.last_append_ns
        self.review(generations)

    def state_life(self, life: Lifetime) -> None:
        """gpu.nodes states a life; windows already charged in another belief are computed again."""
        before = self.lifetimes
        self.lifetimes = before.with_life(life)
        if self.lifetimes == before:
            return
        for start, row in self.rows.items():
            if self._outlived(start, row):
                self._restate.add(start)
        self._fill_gaps()

    def review(self, generations: Generations) -> None:
        """Find every closed window whose recorded generation or life is not the present one."""
        for start, row in self.rows.items():
            outdated = row.generation < generations.of(self.key.cluster, start)
            if outdated or self._outlived(start, row):
                self._restate.add(start)
        self._fill_gaps()

    def read(self, record: LogRecord) -> None:
        """Hold a record; it is an input of its window from now on."""
        start = record.window_start_ns
        self.open.setdefault(start, {})[record.offset] = record
        if not record.mend:
            append_ns = record.append_ns
            self._last_append_ns = max(append_ns, self._last_append_ns or append_ns)
            if not record.amendment:
                self._newest = start if self._newest is None else max(self._newest, start)
        if self._first_read is None or start < self._first_read:
            self._first_read = start
            self._fill_gaps()

    def plan(self, caught_up_ns: int | None, limit: int) -> list[int]:
        """The windows to compute now, in order.

        ``caught_up_ns``: all that lay in the partition at that broker time has been read. ``limit``
        bounds the windows closed by order or silence and those restated; late records and the windows
        that speak from theirs are never split.
        """
        closing = set(self._closing(caught_up_ns, limit))
        late = {start for start in self.open if self._is_passed(start)}
        for start in tuple(late):
            late.update(self._borrowers_behind(start))
        restate = sorted(self._restate - closing - late)[:limit]
        return sorted(closing | late | set(restate))

    def speaks(self, start: int, overlay: Mapping[int, Statement | None]) -> tuple[int, Statement] | None:
        """The nearest earlier window that speaks of this one, with what the present round found first.

        A keyframe speaks always, a goodbye only where no life is stated.
        """
        nearest: tuple[int, Statement] | None = None
        for other, found in overlay.items():
            if other < start and self._tells(found) and (nearest is None or other > nearest[0]):
                assert found is not None
                nearest = other, found
        for at in range(bisect_left(self._speaking, start) - 1, -1, -1):
            other = self._speaking[at]
            if nearest is not None and other <= nearest[0]:
                break
            stated = self.rows[other].statement
            if other not in overlay and stated is not None and self._tells(stated):
                return other, stated
        return nearest

    def _tells(self, statement: Statement | None) -> bool:
        return statement is not None and (statement.has_keyframe or not self.lifetimes.stated)

    def commit(self, start: int, row: WindowRow, finished: Iterable[int]) -> None:
        """A window was computed and written: its row stands, its records are no longer held."""
        self._put(start, row)
        self._restate.discard(start)
        self._through = start if self._through is None else max(self._through, start)
        self.drop(start, finished)

    def drop(self, start: int, offsets: Iterable[int]) -> None:
        """Stop holding these records."""
        held = self.open.get(start)
        if held is None:
            return
        for offset in offsets:
            held.pop(offset, None)
        if not held:
            del self.open[start]

    @property
    def through(self) -> int | None:
        """The last window closed in order."""
        return self._through

    @property
    def newest(self) -> int | None:
        """The highest window read."""
        return self._newest

    @property
    def last_append_ns(self) -> int | None:
        """Append time of the latest record read."""
        return self._last_append_ns

    @property
    def first(self) -> int | None:
        """The first window that may have been charged: that of the launch or of the first record."""
        launched = self.lifetimes.launched_ns
        starts = [] if self._first_read is None else [self._first_read]
        if launched is not None:
            starts.append(self._grid.start(launched))
        return min(starts, default=None)

    # closing in order

    def _closing(self, caught_up_ns: int | None, limit: int) -> Iterator[int]:
        silent = self._is_silent(caught_up_ns)
        start = self._next_start()
        while start is not None and limit > 0:
            held = self.open.get(start)
            passed_by = self._newest is not None and self._newest > start
            if held:
                if not (silent or passed_by or any(record.last for record in held.values())):
                    return
            elif not passed_by:
                late = caught_up_ns is not None and (
                    start + self.length_ns + self._rules.silence_ns <= caught_up_ns
                )
                if not (silent and late and (self._is_owed(start) or self._is_swept(start))):
                    start = self._skip_unlived(start, silent)
                    if start is None:
                        return
                    continue
            if held or self._in_order(start):
                yield start
                limit -= 1
            start += self.length_ns

    def _next_start(self) -> int | None:
        candidates = [start for start in self.open if not self._is_passed(start)]
        if self.first is not None:
            candidates.append(self.first)
        if not candidates:
            return None
        start = min(candidates)
        if self._through is None:
            return start
        following = self._through + self.length_ns
        return max(following, start)

    def _in_order(self, start: int) -> bool:
        """An empty window before the node's first one is no window of its life."""
        return self.first is not None and start >= self.first

    def _skip_unlived(self, start: int, silent: bool) -> int | None:
        """Past the time between two stated lives; None where nothing more is to be closed now.

        Of a silent node also to a window that only a mended copy or an amendment spoke of.
        """
        if self._is_swept(start):
            return None
        following = [other for other in self.open if other > start] if silent else []
        if self.lifetimes.stated and not self._alive_ns(start):
            launch = self.lifetimes.next_launch(start + self.length_ns)
            if launch is not None:
                following.append(self._grid.start(launch))
        elif self.lifetimes.stated or self._is_owed(start):
            return None
        return min(following, default=None)

    def _is_passed(self, start: int) -> bool:
        return self._through is not None and start <= self._through

    def _is_silent(self, caught_up_ns: int | None) -> bool:
        if caught_up_ns is None:
            return False
        return self._last_append_ns is None or caught_up_ns - self._last_append_ns >= self._rules.silence_ns

    def _is_owed(self, start: int) -> bool:
        first = self.first
        if first is None or start < first:
            return False
        if self.lifetimes.stated:
            return self._alive_ns(start) > 0
        spoken = self.speaks(start, {})
        if spoken is not None and spoken[1].goodbye:
            return False
        known = (self._newest, self._newest_inputs, max(self.open, default=None))
        newest = max((n for n in known if n is not None), default=None)
        return newest is not None and start <= newest + self._rules.unstated_life_ns

    def _is_swept(self, start: int) -> bool:
        """Outside the node's life, and it may have been charged in ignorance of that: written as ended.

        That is what lies between the end and the moment at which it was told, and between the first
        record and a launch that was stated later.
        """
        first = self.first
        if first is None or start < first:
            return False
        told_ns: int | None
        if self.lifetimes.stated:
            if self._precedes_launch(start):
                return True
            told_ns = self.lifetimes.told_ns(start + self.length_ns)
        else:
            spoken = self.speaks(start, {})
            told_ns = spoken[1].goodbye_append_ns if spoken is not None and spoken[1].goodbye else None
        return told_ns is not None and start + self.length_ns + self._rules.silence_ns <= told_ns

    def _precedes_launch(self, start: int) -> bool:
        launched = self.lifetimes.launched_ns
        return launched is not None and start + self.length_ns <= launched

    # computing again

    def _borrowers_behind(self, start: int) -> Iterator[int]:
        """The closed windows without a keyframe of their own that ``start`` speaks for, or will."""
        if self._through is None:
            return
        end = self._through + self.length_ns
        for at in range(bisect_right(self._speaking, start), len(self._speaking)):
            if self._tells(self.rows[self._speaking[at]].statement):
                end = min(end, self._speaking[at])
                break
        for behind in range(start + self.length_ns, end, self.length_ns):
            if behind in self.rows and behind not in self.open:
                yield behind

    def _outlived(self, start: int, row: WindowRow) -> bool:
        alive_ns = self._alive_ns(start)
        whole = (-1, self.length_ns)
        same_charge = row.inputs > 0 and alive_ns in whole and row.alive_ns in whole
        return alive_ns != row.alive_ns and not same_charge

    def _fill_gaps(self) -> None:
        """Windows that were passed without being charged, since the node's life began earlier than known."""
        first = self.first
        if first is None or self._through is None:
            return
        for start in range(first, self._through, self.length_ns):
            if start in self.rows:
                continue
            if not self.lifetimes.stated or self._alive_ns(start) or self._precedes_launch(start):
                self._restate.add(start)

    def _alive_ns(self, start: int) -> int:
        return self.lifetimes.alive_ns(start, start + self.length_ns)

    def _put(self, start: int, row: WindowRow) -> None:
        before = self.rows.get(start)
        self.rows[start] = row
        if row.inputs and (self._newest_inputs is None or start > self._newest_inputs):
            self._newest_inputs = start
        if row.statement is not None and (before is None or before.statement is None):
            insort(self._speaking, start)
