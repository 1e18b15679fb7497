"""One node: its open and closed windows, and which of them are to be computed now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice

from gpuledger.contract.identity import NodeKey
from gpuledger.contract.windows import WindowGrid
from gpuledger.processor.protocol.closing import closing
from gpuledger.processor.protocol.generations import Generations
from gpuledger.processor.protocol.held import HeldRecords
from gpuledger.processor.protocol.history import NodeHistory
from gpuledger.processor.protocol.inputs import is_full
from gpuledger.processor.protocol.lifetimes import Lifetimes
from gpuledger.processor.protocol.outdated import gaps, outdated, outlived
from gpuledger.processor.protocol.rows import Rows, latest
from gpuledger.processor.protocol.values import (
    Lifetime,
    LogRecord,
    NodeProgress,
    Reading,
    Rules,
    Skipped,
    Statement,
    WindowRow,
)

NOTHING_KNOWN = 1 << 62  # later than any window


class NodeState:
    """What the owner of a partition holds of one of its nodes. Windows are named by their start."""

    def __init__(self, key: NodeKey, grid: WindowGrid, rules: Rules, known_from: int | None = None) -> None:
        self.key = key
        self.grid = grid
        self.length_ns = grid.length_ns
        self.rules = rules
        self.held = HeldRecords(rules)
        self.rows = Rows()
        self.lifetimes = Lifetimes()
        self.through: int | None = None  # the last window closed in order
        self.newest: int | None = None  # the highest window read, amendments and mended copies aside
        self.last_append_ns: int | None = None  # of the latest record read
        self.opened_from: int | None = None  # windows before it that have no record are opened no more
        self._first_read: int | None = None
        self._restate: set[int] = set()  # windows closed (or passed) that must be computed again
        self._gaps_due = False  # windows may have been passed without being charged
        self._known_from = known_from  # what is older waits for its rows; None: nothing does

    def load(self, progress: NodeProgress, generations: Generations) -> None:
        """Take over what an earlier owner wrote; before the first record, after the lifetimes."""
        self.through = progress.through_ns
        self.opened_from = progress.opened_from_ns
        self.rows.fill(progress.rows)
        for start, row in progress.rows.items():
            if row.inputs and row.statement is not None and row.statement.has_keyframe:
                self.newest = start if self.newest is None else max(self.newest, start)
        self._first_read = min(progress.rows, default=None)
        self.last_append_ns = progress.last_append_ns
        self._known_from = progress.since_ns
        self.review(generations)

    def complete(self, history: NodeHistory | None, generations: Generations) -> list[LogRecord]:
        """Take what was not there at first; None: there is nothing.

        The records that are returned were held of windows that had been given up: they are too old.
        """
        self._known_from = None
        hours = () if history is None else history.hours
        if history is not None:
            self.through = latest(self.through, history.through_ns)
            self.opened_from = latest(self.opened_from, history.opened_from_ns)
            self.last_append_ns = latest(self.last_append_ns, history.last_append_ns)
            self.newest = latest(self.newest, *(packed.newest_keyframe for packed in hours))
        given_up = [start for start in self.held.starts() if not self._is_opened(start)]
        too_old = [record for start in given_up for record in self.held.take_all(start)]
        firsts = chain(self.held.starts(), (packed.starts[0] for packed in hours))
        self._first_read = min(firsts, default=None)
        self.rows.add_older(hours)
        self.review(generations)
        return too_old

    def state_life(self, life: Lifetime) -> None:
        """gpu.nodes states a life; windows already charged in another belief are computed again."""
        before = self.lifetimes
        self.lifetimes = before.with_life(life)
        if self.lifetimes == before:
            return
        self._restate.update(filter(self._is_opened, outlived(self)))
        self._gaps_due = True

    def review(self, generations: Generations) -> None:
        """Find every closed window whose recorded generation or life is not the present one."""
        self._restate.update(filter(self._is_opened, outdated(self, generations)))
        self._gaps_due = True

    def read(self, record: LogRecord) -> Reading:
        """Hold a record; it is an input of its window from now on."""
        start = record.window_start_ns
        if not self._is_opened(start):
            return Reading.TOO_OLD  # read again: while it was held, nothing from its window on was given up
        row = self.rows.get(start)
        if row is not None and is_full(row.inputs, row.input_bytes, self.rules):
            return Reading.WINDOW_FULL
        reading = self.held.take(record)
        if reading is Reading.WINDOW_FULL:
            return reading
        if not record.mend:
            append_ns = record.append_ns
            self.last_append_ns = max(append_ns, self.last_append_ns or append_ns)
            if not record.amendment:
                self.newest = start if self.newest is None else max(self.newest, start)
        if self._first_read is None or start < self._first_read:
            self._first_read = start
            self._gaps_due = True
        return reading

    def open_from(self, start: int) -> Skipped | None:
        """Open no empty window before ``start`` any more, and forget the rows before it.

        What is known to be due is done first. What of the node's life is never charged for that is returned.
        """
        if not self.is_whole:
            return None  # which windows have rows is not known
        begin = self.first if self.opened_from is None else self.opened_from
        due = chain(self.held.starts(), self._restate)  # must be computed once more first, from rows of now
        start = min(start, self._step_of(min(due, default=start)))
        skipped = None
        if begin is not None and begin < start:
            skipped = self._never_charged(begin, start)
            self.opened_from = start
            self.rows.trim(start)
        return skipped

    def find_gaps(self) -> None:
        """Note the windows that were passed without being charged, where there may be some: they are due."""
        if self._gaps_due and self.is_whole:
            self._gaps_due = False
            self._restate.update(gaps(self))

    def plan(self, caught_up_ns: int | None, limit: int, size_bytes: int) -> list[int]:
        """The windows to compute now, in order; ``closing`` says what ``caught_up_ns`` is.

        ``limit`` bounds the windows closed by order or silence and those restated, ``size_bytes`` the
        records of all that is planned, though one window is always planned. The windows that speak from one
        with late records are restated with it.
        """
        if not self.is_whole and self.through is None:
            return []  # an earlier owner may have closed windows of it
        self.find_gaps()
        planned: set[int] = set()
        left_bytes = size_bytes
        late = sorted(filter(self._is_known, filter(self.is_passed, self.held.starts())))
        again = sorted(filter(self._is_known, self._restate.difference(late)))[:limit]
        for start in chain(islice(closing(self, caught_up_ns), limit), late, again):
            if planned and left_bytes <= 0:
                break
            left_bytes -= self._input_bytes(start)
            planned.add(start)
            if self.is_passed(start) and start in self.held:
                planned.update(self._borrowers_behind(start))
        return sorted(planned)

    def must_restate(self, start: int) -> bool:
        """Whether a closed window is due by itself, not only for the one that it speaks from."""
        return start in self._restate

    def speaks(self, start: int, overlay: Mapping[int, Statement | None]) -> tuple[int, Statement] | None:
        """The nearest earlier window that speaks of this one, with what the present round found first.

        A keyframe speaks always, a goodbye only where no life is stated.
        """
        nearest: tuple[int, Statement] | None = None
        for other, found in overlay.items():
            if other < start and self.tells(found) and (nearest is None or other > nearest[0]):
                assert found is not None
                nearest = other, found
        for other in self.rows.speaking_before(start):
            if nearest is not None and other <= nearest[0]:
                break
            stated = self.rows[other].statement
            if other not in overlay and stated is not None and self.tells(stated):
                return other, stated
        return nearest

    def is_news(self, start: int, statement: Statement | None) -> bool:
        """Whether a closed window, stating this now, says something else than was spoken there before."""
        if not self.is_passed(start) or statement is None or not self.tells(statement):
            return False
        row = self.rows.get(start)
        if row is not None and row.statement is not None and self.tells(row.statement):
            return not statement.says_same(row.statement)
        spoken = self.speaks(start, {})
        return spoken is None or not statement.says_same(spoken[1])

    def silent_behind(self, start: int) -> Iterator[int]:
        """The closed windows behind ``start`` that speak from others, whichever these are."""
        if self.through is None:
            return
        for behind in range(start + self.length_ns, self.through + self.length_ns, self.length_ns):
            if (
                behind in self.rows
                and behind not in self.held
                and not self.tells(self.rows[behind].statement)
            ):
                yield behind

    def commit(self, start: int, row: WindowRow, finished: Iterable[int]) -> None:
        """A window was computed and written: its row stands, its records are no longer held."""
        is_first = self.through is None
        self.rows.put(start, row)
        self._restate.discard(start)
        self.through = start if self.through is None else max(self.through, start)
        if is_first:
            self._restate.update(gaps(self))  # at once: by the next plan they may be too old
        self.held.drop(start, finished)

    @property
    def is_whole(self) -> bool:
        """Whether all that an earlier owner wrote is there."""
        return self._known_from is None

    @property
    def is_over(self) -> bool:
        """Whether nothing is due of the node, nor ever will be by the clock: its rows may all go.

        A node whose life nobody states and that did not say goodbye may speak again, and then owes what lies
        between: never over.
        """
        if self._restate or any(True for _ in self.held.starts()):
            return False
        behind = NOTHING_KNOWN if self.through is None else self.through + self.length_ns
        if self.lifetimes.stated:
            return not self.lifetimes.alive(behind, NOTHING_KNOWN)
        spoken = self.speaks(behind, {})
        return spoken is None or spoken[1].goodbye

    @property
    def first(self) -> int | None:
        """The first window of the node's life: that of the launch or of the first record."""
        launched = self.lifetimes.launched_ns
        starts = [] if self._first_read is None else [self._first_read]
        if launched is not None:
            starts.append(self.grid.start(launched))
        return min(starts, default=None)

    def alive_ns(self, start: int) -> int:
        """How much of a window lies in the node's stated life; -1 where none is stated."""
        return self.lifetimes.alive_ns(start, start + self.length_ns)

    def precedes_launch(self, start: int) -> bool:
        """Whether a window ends before the node's first launch, as far as one is stated."""
        launched = self.lifetimes.launched_ns
        return launched is not None and start + self.length_ns <= launched

    def is_passed(self, start: int) -> bool:
        """Whether a window was closed, or passed as none of the node's life."""
        return self.through is not None and start <= self.through

    def _is_known(self, start: int) -> bool:
        return self._known_from is None or start >= self._known_from

    def tells(self, statement: Statement | None) -> bool:
        """Whether windows without a keyframe speak from one that states this."""
        return statement is not None and (statement.has_keyframe or not self.lifetimes.stated)

    def _step_of(self, start: int) -> int:
        return start - start % self.rules.given_up_ns

    def _is_opened(self, start: int) -> bool:
        return self.opened_from is None or start >= self.opened_from

    def _input_bytes(self, start: int) -> int:
        row = self.rows.get(start)
        return self.held.size_bytes(start) + (0 if row is None else row.input_bytes)

    def _borrowers_behind(self, start: int) -> Iterator[int]:
        """The closed windows without a keyframe of their own that ``start`` speaks for, or will."""
        if self.through is None:
            return
        end = self.through + self.length_ns
        for other in self.rows.speaking_behind(start):
            if self.tells(self.rows[other].statement):
                end = min(end, other)
                break
        for behind in range(start + self.length_ns, end, self.length_ns):
            if behind in self.rows and behind not in self.held:
                yield behind

    def _owed_until(self, nothing: int) -> int:
        """Where what a node is owed ends whose life nobody states; ``nothing`` where it is owed nothing."""
        if self.through is None or self.newest_spoken is None:
            return nothing
        behind = self.through + self.length_ns
        spoken = self.speaks(behind, {})
        if spoken is not None and spoken[1].goodbye:
            return behind
        return max(behind, self.newest_spoken + self.rules.unstated_life_ns + self.length_ns)

    @property
    def newest_spoken(self) -> int | None:
        """The newest window that a record speaks of, as far as that is known."""
        known = (self.newest, self.rows.newest_inputs, max(self.held.starts(), default=None))
        return max((start for start in known if start is not None), default=None)

    def _never_charged(self, begin: int, end: int) -> Skipped | None:
        """Of the windows in [begin, end), those of the node's life that have neither row nor record."""
        alive_ns = self.lifetimes.untold_ns(begin, end, end)
        if not self.lifetimes.stated:
            alive_ns = max(0, min(end, self._owed_until(begin)) - begin)
        known = sum(begin <= start < end for start in chain(self.rows.starts(), self.held.starts()))
        windows = -(-alive_ns // self.length_ns) - known
        return Skipped(self.key, begin, end, windows) if windows > 0 else None
