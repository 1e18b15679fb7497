"""Raw calls become tallies: one row for each (process, device, operation, result), and the intervals in which
each process had work outstanding, which are what attribution needs of the calls' times.

Nothing is dropped: counts, bytes, threads and durations are summed, and each tally says within which time its
calls returned. Functions and threads are no longer told apart.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from gpuledger.agent.events import AGENT_EVENT, NO_THREAD, Events, work_of
from gpuledger.contract.columns import Longs, no_longs
from gpuledger.contract.operations import LAUNCHES

_LARGEST: Final = 2**63 - 1


class Intervals(NamedTuple):
    """When work was outstanding: process index, position of the device, start and length in ns (agent time),
    how long the call that ended it blocked, 0 where the interval goes on, and its launches, 0 where they are
    not known. One of several ``bursts``: so many intervals lie so close that they are told as one."""

    process: Longs
    device: Longs
    start_ns: Longs
    duration_ns: Longs
    blocked_ns: Longs
    launches: Longs
    bursts: Longs


NO_INTERVALS = Intervals(*(no_longs() for _ in Intervals._fields))


def tally(events: Events) -> Events:
    """One event for each group, ordered by time."""
    if not len(events):
        return events
    keys = np.stack([events[name] for name in ("process", "device", "operation", "result")]).astype(np.int64)
    order = np.lexsort((events["time_ns"], *keys[::-1]))
    sorted_, keys = events[order], keys[:, order]
    first = np.flatnonzero(np.r_[True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)])
    last = np.r_[first[1:], len(sorted_)] - 1
    tallies = np.zeros(len(first), AGENT_EVENT)
    for name in ("process", "device", "operation", "result"):
        tallies[name] = sorted_[name][first]
    for name in ("duration_ns", "bytes", "launched_threads", "count"):
        tallies[name] = _sums(sorted_[name], first)
    earliest = np.minimum.reduceat(sorted_["time_ns"] - np.maximum(sorted_["span_ns"], 1), first)
    tallies["time_ns"] = sorted_["time_ns"][last]
    tallies["span_ns"] = tallies["time_ns"] - earliest
    tallies["tid"] = NO_THREAD
    return tallies[np.argsort(tallies["time_ns"], kind="stable")]


def _sums(values: Longs, first: Longs) -> Longs:
    """The sum of each group, at most what a long holds."""
    sums: Longs = np.add.reduceat(values, first)
    if int(values.max()) > _LARGEST // len(values):
        about = np.add.reduceat(values.astype(np.float64), first)
        sums = np.where(about < float(_LARGEST), sums, _LARGEST)
    return sums


class OutstandingIntervals:
    """Intervals of a window that is tallied, told as its events go by; give them in order of time."""

    def __init__(self, window_start_ns: int, open_: dict[tuple[int, int], int]) -> None:
        """``open_``: (process, device) -> since when work is outstanding at the window's start."""
        self._start_ns = window_start_ns
        self._open = {key: max(since, window_start_ns) for key, since in open_.items()}
        self._launches: dict[tuple[int, int], int] = {}

    def apply(self, events: Events) -> Intervals:
        """The intervals that these events end."""
        launch, wait = work_of(events)
        rows = events[launch | wait]
        found: list[tuple[int, ...]] = []
        columns = (
            rows[name].tolist() for name in ("process", "device", "operation", "time_ns", "duration_ns")
        )
        for process, device, operation, time_ns, duration_ns in zip(*columns, strict=True):
            key = (process, device)
            if operation in LAUNCHES:
                if key not in self._open:
                    self._open[key] = max(time_ns - duration_ns, self._start_ns)
                    self._launches[key] = 0
                if key in self._launches:  # else some were made before the window began
                    self._launches[key] += 1
            elif key in self._open:
                since, launches = self._open.pop(key), self._launches.pop(key, 0)
                found.append((process, device, since, max(time_ns - since, 0), duration_ns, launches, 1))
        return _intervals(found)

    def end(self, until_ns: int, ended: dict[int, int]) -> Intervals:
        """What is still open at the window's end; ``ended``: when processes ended that are gone by then."""
        return _intervals(
            [
                (process, device, since, max(min(until_ns, ended.get(process, until_ns)) - since, 0), 0, 0, 1)
                for (process, device), since in self._open.items()
            ]
        )


def joined(*parts: Intervals) -> Intervals:
    """All of these, ordered by start."""
    whole = Intervals(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    order = np.argsort(whole.start_ns, kind="stable")
    return Intervals(*(column[order] for column in whole))


def _intervals(found: list[tuple[int, ...]]) -> Intervals:
    if not found:
        return NO_INTERVALS
    found.sort(key=lambda interval: interval[2])
    return Intervals(*np.array(found, np.int64).T)
