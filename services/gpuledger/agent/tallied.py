"""What the kernel says of processes that it tallies: since when, and in which time they had work outstanding.

Their calls come as tallies, which say nothing of when work began and ended. That is in *runs*: of a process
and device, from when to when, and how much of it work was outstanding. A run is one burst of work, or several
short ones within a millisecond; it is one interval here, from its begin on and as long as the work in it. It
is told once or several times, the longest telling holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from gpuledger.agent.coarsen import NO_INTERVALS, Intervals
from gpuledger.agent.distinct import values_of
from gpuledger.agent.events import NO_THREAD, Events, work_of
from gpuledger.agent.outstanding import Pending
from gpuledger.contract.columns import Longs

NEW_STRETCH_NS: Final = 1_000_000_000  # a second without tallies: it was raw, or quiet, in between
_COLUMNS: Final = (
    "process",
    "device",
    "time_ns",
    "span_ns",
    "duration_ns",
    "bytes",
    "launched_threads",
    "function",
)
_DEVICES: Final = 1 << 16


class TalliedProcesses:
    """Runs and tallies of an epoch, window by window. All times are agent time."""

    def __init__(self) -> None:
        self._runs: list[Longs] = []  # rows of _COLUMNS
        self._stretch: dict[int, tuple[int, int]] = {}  # process -> first and last time of its tallies
        self._carried: dict[tuple[int, int], Pending] = {}
        self._seen = False

    def take(self, events: Events) -> Events:
        """Keeps what is said of tallied processes; returns the events without the runs."""
        tallied = events["tid"] == NO_THREAD
        if not tallied.any():
            return events
        self._note_stretches(events[tallied])
        runs = events["count"] == 0
        if runs.any():
            self._runs.append(np.stack([events[name][runs].astype(np.int64) for name in _COLUMNS]))
        rest: Events = events[~runs]
        return rest

    def _note_stretches(self, rows: Events) -> None:
        for process in values_of(rows["process"]).tolist():
            mine = rows[rows["process"] == process]
            first, last = int((mine["time_ns"] - mine["span_ns"]).min()), int(mine["time_ns"].max())
            since, until = self._stretch.get(process, (first, first))
            fresh = first > until + NEW_STRETCH_NS
            self._stretch[process] = (first if fresh else min(since, first), max(until, last))

    def since(self, processes: Iterable[int]) -> dict[int, int]:
        """Since when each of these is tallied, of those that are."""
        return {process: self._stretch[process][0] for process in processes if process in self._stretch}

    def begin(self, start_ns: int, outstanding: Iterable[tuple[tuple[int, int], Pending]]) -> None:
        """A window begins, with that outstanding of calls that were not tallied."""
        self._stretch = {p: s for p, s in self._stretch.items() if s[1] + NEW_STRETCH_NS > start_ns}
        self._carried = dict(outstanding)
        self._seen = False

    def note(self, events: Events) -> None:
        """Events of the open window, in order."""
        self._seen |= bool((events["tid"] == NO_THREAD).any())
        if self._carried:
            launch, wait = work_of(events)
            rows = events[launch | wait]
            packed = values_of(rows["process"] * _DEVICES + (rows["device"] + 1))
            for key in packed.tolist():
                self._carried.pop((key // _DEVICES, key % _DEVICES - 1), None)

    def close(self, start_ns: int, end_ns: int, ended: Mapping[int, int]) -> Intervals:
        """The intervals that lie in the window [start, end), cut at its borders and at the ends of processes.

        In a window with tallies each process has to state what it had outstanding from the begin on and has
        not touched since; in others the keyframe says it.
        """
        found = self._within(start_ns, end_ns)
        if self._carried and (self._seen or found.shape[1]):
            keys = np.array(sorted(self._carried), np.int64).T
            start, length, none = (np.full(keys.shape[1], n) for n in (start_ns, end_ns - start_ns, 0))
            found = np.concatenate((found, [*keys, start, length, none, none, none + 1]), axis=1)
        if not found.shape[1]:
            return NO_INTERVALS
        process, device, start, length, blocked, launches, bursts = found
        last = np.array([min(ended.get(p, end_ns), end_ns) for p in process.tolist()], np.int64)
        begin, end = np.maximum(start, start_ns), np.minimum(start + length, last)
        whole = end - begin == length
        launches, bursts = np.where(whole, launches, 0), np.where(whole, bursts, 1)
        order = np.flatnonzero(end > begin)
        order = order[np.argsort(begin[order], kind="stable")]
        columns = (process, device, begin, end - begin, blocked, launches, bursts)
        return Intervals(*(column[order] for column in columns))

    def _within(self, start_ns: int, end_ns: int) -> Longs:
        """The columns of `Intervals` of each run of the window; later windows' are kept."""
        if not self._runs:
            return np.empty((len(Intervals._fields), 0), np.int64)
        process, device, time, span, length, witnessed, launches, bursts = np.concatenate(self._runs, axis=1)
        start = time - span
        order = np.lexsort((time, start, device, process))
        rows = np.stack((process, device, start, time, length, witnessed, launches, bursts))[:, order]
        rows = rows[:, np.r_[(rows[:3, 1:] != rows[:3, :-1]).any(axis=0), True]]
        later = rows[:, rows[3] > end_ns]
        kept = np.stack((later[0], later[1], later[3], later[3] - later[2], *later[4:]))
        self._runs = [kept] if kept.shape[1] else []
        process, device, start, time, length, witnessed, launches, bursts = rows[
            :, (rows[2] < end_ns) & (rows[3] > start_ns)
        ]
        # the wait for most of the work was seen: then it is as good as an interval that a wait ended
        blocked = np.where(2 * witnessed >= length, np.minimum(witnessed, length), 0)
        return np.stack((process, device, start, length, blocked, launches, bursts))
