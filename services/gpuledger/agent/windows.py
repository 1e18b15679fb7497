"""The cutter: what the node did becomes windows, each a row of numbered parts.

A part is released when nothing earlier can still come: events settle `EVENT_GRACE_NS` after they returned,
a window ends when the sampler has measured to its end, or `SAMPLE_WAIT_NS` later without it. A keyframe that
would tell of a process whose pod has no name yet waits for the name, up to `NAME_WAIT_NS`, but no longer than
until something lines up behind it: a full part, or the window's end. What went out nameless is amended when
the name is known. The cutter knows no clock, no Kafka and no kernel: it is told the time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from gpuledger.agent.coarsen import NO_INTERVALS, OutstandingIntervals, joined, tally
from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.events import Events, calls, together
from gpuledger.agent.measured import Measured
from gpuledger.agent.parts import Part, PartMaker
from gpuledger.agent.rules import HOLLOW, TALLY, CutterRules, Lost
from gpuledger.agent.samplers.samples import Round
from gpuledger.agent.state import Change, NodeState
from gpuledger.agent.tallied import TalliedProcesses
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import EventBatch

__all__ = ["Part", "WindowCutter"]


class WindowCutter:
    """One epoch's windows, in order. Owned by the agent's loop; all times are agent time."""

    def __init__(self, node: NodeKey, time: AgentTime, state: NodeState, rules: CutterRules) -> None:
        self._state = state
        self._rules = rules
        self._grid = rules.grid
        started = time.unix_ns(time.epoch.started_boot_ns)
        self._window = self._grid.start(started)
        self._started = started
        self._parts = PartMaker(node, time, state, rules)
        self._parts.begin(self._window, 0, 0)
        self._begun = False
        self._opened = False
        self._nameless_since: dict[int, int] = {}  # process -> when a keyframe first waited for its name
        self._waiting: list[Events] = []  # not settled, or of a later window
        self._ready: list[Events] = []  # settled, ordered, of the open window, already in the state
        self._ready_count = 0
        self._measured = Measured(state, started)
        self._tallied = TalliedProcesses()
        self._changes: list[tuple[int, int, Change]] = []
        self._change_count = 0
        self._intervals = OutstandingIntervals(started, {})
        self.pressure = 0
        """How coarse the next window has to be: 0 raw calls, 1 tallies, 2 no events (they count as lost)."""
        self.late_events = 0

    @property
    def window_start_ns(self) -> int:
        """Start of the open window."""
        return self._window

    @property
    def lost(self) -> Lost:
        """What was lost since the epoch began, as the headers state it."""
        return self._parts.lost

    @lost.setter
    def lost(self, lost: Lost) -> None:
        self._parts.lost = lost

    def lose(self, calls_: int) -> None:
        """Count calls that had no room after the kernel had handed them over."""
        self._parts.lose(calls_)

    def add_events(self, events: Events) -> None:
        """Events in any order; what returned before the open window is restated as late."""
        if len(events):
            self._waiting.append(self._tallied.take(events))

    def add_round(self, taken: Round) -> None:
        """A round of measurements; processes that are gone already are left out of it."""
        self._measured.add(taken, self._window)

    def change(self, at_ns: int, change: Change) -> None:
        """From ``at_ns`` on, holders, devices or resident memory are as in ``change``."""
        heapq.heappush(self._changes, (at_ns, self._change_count, change))
        self._change_count += 1

    def advance(self, now_ns: int) -> Iterator[Part]:
        """All parts that are due. Call it after a drain that began at ``now_ns`` or later."""
        for part in self._advance(now_ns):
            yield self._parts.noted(part)
        yield from self._parts.amendments()

    def _advance(self, now_ns: int) -> Iterator[Part]:
        settled = now_ns - self._rules.event_grace_ns
        if not self._begun:
            if settled < self._started:
                return
            yield from self._open_first()
        elif not self._opened and self._may_open(now_ns):
            yield from self._open()
        while self._opened:
            end = self._grid.next(self._window)
            change_ns = max(self._changes[0][0], self._window) if self._changes else end
            if change_ns < end and change_ns <= settled:
                yield from self._release(change_ns)
                if self._state.change(heapq.heappop(self._changes)[2]):
                    yield from self._emit_events(all_=True)
                    yield self._parts.holdings(change_ns, keyframe=False)
            elif change_ns >= end and end <= settled and self._is_measured(end, now_ns):
                yield from self._release(end)
                yield from self._close()
                self._window = end
                self._opened = False
                if self._may_open(now_ns):
                    yield from self._open()
            else:
                yield from self._release(min(settled, end))
                return

    def finish(self, now_ns: int, goodbye: bool) -> Iterator[Part]:
        """All that is left, the open window cut short at ``now_ns``; nothing may follow.

        With ``goodbye`` the node ends here, and the last part says so. Without it the window is not flagged
        as ended: the next epoch may still speak of it.
        """
        rules, self._rules = self._rules, self._rules.impatient()
        yield from self.advance(now_ns)
        self._rules = rules
        for part in self._finish(now_ns, goodbye):
            yield self._parts.noted(part)

    def _finish(self, now_ns: int, goodbye: bool) -> Iterator[Part]:
        yield from self._release(now_ns + 1)
        yield from self._close_events(now_ns)
        if goodbye:
            yield from self._close_samples(goodbye=True)
        elif self._measured:
            yield from self._close_samples(last=False)

    def _may_open(self, now_ns: int) -> bool:
        """Whether the keyframe of the open window need not wait for a name (any more)."""
        wait_ns = self._rules.name_wait_ns
        nameless = self._state.nameless(self._window)
        self._nameless_since = {i: self._nameless_since.get(i, now_ns) for i in nameless}
        due = now_ns >= self._grid.next(self._window)
        full = sum(map(len, self._waiting)) >= self._rules.max_events
        patient = any(now_ns < since + wait_ns for since in self._nameless_since.values())
        return due or full or not wait_ns or not patient

    def _open_first(self) -> Iterator[Part]:
        self._begun = self._opened = True
        while self._changes and self._changes[0][0] <= self._started:
            self._state.change(heapq.heappop(self._changes)[2])
        if self._window == self._started:
            yield from self._open()
        else:
            self._begin_window(1, self._started)
            yield self._parts.holdings(self._started, keyframe=False)

    def _open(self) -> Iterator[Part]:
        self._opened = True
        while self._changes and self._changes[0][0] <= self._window:
            self._state.change(heapq.heappop(self._changes)[2])
        self._begin_window(0, self._window)
        yield self._parts.holdings(self._window, keyframe=True)

    def _begin_window(self, part: int, from_ns: int) -> None:
        """One coarseness a window, so that its intervals are whole."""
        self._parts.begin(self._window, part, self.pressure)
        outstanding = self._state.outstanding.items()
        if self._parts.coarsening == TALLY:
            self._intervals = OutstandingIntervals(from_ns, {key: p.since_ns for key, p in outstanding})
            outstanding = []
        self._tallied.begin(from_ns, outstanding)

    def _is_measured(self, end_ns: int, now_ns: int) -> bool:
        if not self._rules.samples_expected or self._measured.through_ns >= end_ns:
            return True
        return now_ns >= end_ns + self._rules.sample_wait_ns

    def _release(self, before_ns: int) -> Iterator[Part]:
        """Give the state, and the parts, the events that returned before ``before_ns``."""
        if self._waiting:
            events = _in_order(self._waiting)
            due = int(np.searchsorted(events["time_ns"], before_ns))
            self._waiting = [events[due:]] if due < len(events) else []
            chunk = self._in_window(events[:due])
            if len(chunk):
                self._state.apply(chunk)
                self._tallied.note(chunk)
                self._ready.append(chunk)
                self._ready_count += len(chunk)
        self._state.settle(before_ns)
        yield from self._emit_events(all_=False)

    def _in_window(self, chunk: Events) -> Events:
        """Restate events of windows that are gone: they returned at some time up to this window's start."""
        first = self._window
        late = chunk["time_ns"] < first
        if late.any():
            self.late_events += int(late.sum())
            chunk["span_ns"][late] += first - chunk["time_ns"][late] + 1
            chunk["time_ns"][late] = first
        return chunk

    def _emit_events(self, all_: bool) -> Iterator[Part]:
        size = self._rules.max_events
        if not self._ready_count or not (all_ or self._ready_count >= size):
            return
        events = _in_order(self._ready)
        whole = len(events) if all_ else len(events) - len(events) % size
        self._ready = [events[whole:]] if whole < len(events) else []
        self._ready_count = len(events) - whole
        for start in range(0, whole, size):
            yield self._batch(events[start : min(start + size, whole)])

    def _batch(self, events: Events) -> EventBatch:
        intervals = NO_INTERVALS
        if self._parts.coarsening == TALLY:
            intervals = self._intervals.apply(events)
            events = tally(events)
        elif self._parts.coarsening == HOLLOW:
            self._parts.lose(calls(events))
            events = events[:0]
        return self._parts.events(events, intervals, self._tallied)

    def _close_events(self, until_ns: int) -> Iterator[Part]:
        """The events that are left, and of tallied processes when they had work outstanding."""
        yield from self._emit_events(all_=True)
        yield from self._close_intervals(until_ns)
        untold = self._state.pending.untold(self._window)
        if any(self._state.names.pod(uid) for uid in untold):
            # whoever began inside the window, known to the cluster before or not, is named within it
            yield self._parts.holdings(max(self._window, until_ns - 1), keyframe=False, also=untold)

    def _close_intervals(self, until_ns: int) -> Iterator[Part]:
        start = max(self._window, self._started)
        whole = self._tallied.close(start, until_ns, self._state.ends_before(until_ns))
        if self._parts.coarsening == TALLY:
            ended = self._state.ended_between(self._window, until_ns)
            whole = joined(whole, self._intervals.end(until_ns, ended))
        if self._parts.coarsening != HOLLOW:
            yield from self._parts.intervals(whole, self._tallied)

    def _close(self) -> Iterator[Part]:
        end = self._grid.next(self._window)
        yield from self._close_events(end)
        through = max(self._measured.through_ns, self._window, self._started)
        if self._rules.samples_expected and through < end:
            self._measured.miss(through, end)
        yield from self._close_samples()
        self._measured.forget(end)

    def _close_samples(self, last: bool = True, goodbye: bool = False) -> Iterator[Part]:
        """The window's samples; the last of these parts ends the window."""
        end = self._grid.next(self._window)
        hollow = self._parts.coarsening == HOLLOW
        for part in self._measured.parts(self._window, end, self._rules.max_samples, hollow):
            yield self._parts.samples(part, end, last, goodbye)


def _in_order(chunks: list[Events]) -> Events:
    """The events of several chunks by time; those of one time in the order in which they came. They mostly
    are in order as they come, and then nothing is moved."""
    events = together(chunks)
    time = events["time_ns"]
    if (time[1:] < time[:-1]).any():
        events = events.take(np.argsort(time, kind="stable"))  # a tenth of the cost of events[order]
    return events
