"""How long launches of each kernel function take, learned while a process had a device for itself.

A burst that a process launched and then waited for, with nobody else at work on the device from its begin to
its end, took as long as it was outstanding; where all its launches are of one function and size, each took an
equal part of that. What differs from time to time by more than a third is not learned: it depends on data,
and the short ones are those that are alone the more often (emulator study, E5). The time from the call to the
wait's return is what the work took and what it cost to ask for it, some microseconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.agent.events import Events, Work
from gpuledger.agent.outstanding import Pending
from gpuledger.contract.columns import Longs

RECENT: Final = 64  # bursts of each function and size that are looked at: some seconds of a trainer
ENOUGH: Final = 5  # bursts (emulator study, E5)
STEADY: Final = 0.35  # of the median, from the 10th to the 90th percentile (emulator study, E5)
MIN_BLOCKED_NS: Final = 4_000  # a wait that returns sooner did not see the end of the work
MIN_BLOCKED_RATIO: Final = 0.1  # of the burst
MAX_KERNELS: Final = 4096  # functions and sizes of all processes: the least recent go first


class Kernel(NamedTuple):
    """A function as one process launches it: index of the process, handle, threads of a launch."""

    process: int
    function: int
    threads: int


@dataclass(slots=True)
class _Seen:
    launches: int = 0
    took_ns: array[float] = field(default_factory=lambda: array("d"))
    """The most recent last."""


class LearnedDurations:
    """What is known by now; give it each chunk of events in order, before the state is moved by it."""

    def __init__(self) -> None:
        self._seen: dict[Kernel, _Seen] = {}

    def apply(
        self, events: Events, work: Work, outstanding: Iterable[tuple[tuple[int, int], Pending]]
    ) -> None:
        """Learn from a chunk that is ordered by time. ``work`` is what it says of work, ``outstanding`` what
        was so before it."""
        chosen = np.flatnonzero((work.launch | work.wait) & (events["device"] >= 0))
        if not len(chosen):
            return
        # sorted by digits in that type, six times as fast; a node has some dozen devices
        chosen = chosen[np.argsort(events["device"][chosen].astype(np.int16), kind="stable")]
        launched = work.launch[chosen]
        process, device = events["process"][chosen], events["device"][chosen]  # whole rows are much to move
        same = np.zeros(len(chosen), bool)
        same[1:] = (process[1:] == process[:-1]) & (device[1:] == device[:-1])
        after_launch = np.r_[False, launched[:-1]] & same
        begins = np.flatnonzero(launched & ~after_launch)
        ends = np.flatnonzero(~launched & after_launch)
        last_begin = begins[np.searchsorted(begins, ends) - 1]
        kernels = _changes(events["function"][chosen], events["launched_threads"][chosen])
        one_kernel = np.flatnonzero(kernels[ends - 1] == kernels[last_begin])
        if not len(one_kernel):
            return  # as of most work: who was alone need not be found out
        alone = _active(process, device, launched, [key for key, _ in outstanding]) == 1
        whole = one_kernel[alone[last_begin[one_kernel]]][-RECENT:]
        for first, last in zip(last_begin[whole].tolist(), ends[whole].tolist(), strict=True):
            rows = events.take(chosen[first : last + 1])
            self._learn(rows[:-1], rows[-1])

    def _learn(self, made: Events, end: np.void) -> None:
        took = int(end["time_ns"]) - int(made["time_ns"][0] - made["duration_ns"][0])
        blocked = int(end["duration_ns"])
        if took <= 0 or blocked <= max(MIN_BLOCKED_NS, MIN_BLOCKED_RATIO * took):
            return
        kernel = Kernel(int(end["process"]), int(made["function"][0]), int(made["launched_threads"][0]))
        seen = self._seen.pop(kernel, None) or _Seen()
        seen.launches += len(made)
        if len(seen.took_ns) == RECENT:
            seen.took_ns.pop(0)
        seen.took_ns.append(took / len(made))
        self._seen[kernel] = seen  # the most recent last
        if len(self._seen) > MAX_KERNELS:
            del self._seen[next(iter(self._seen))]

    def known(self) -> list[tuple[Kernel, int, int]]:
        """(kernel, ns of one launch, launches that it was learned from) of all that take about as long each
        time, in order."""
        found = []
        for kernel, seen in self._seen.items():
            if len(seen.took_ns) >= ENOUGH:
                took = sorted(seen.took_ns)
                low, middle, high = (took[len(took) * tenths // 10] for tenths in (1, 5, 9))
                if high - low < STEADY * middle:
                    found.append((kernel, round(middle), seen.launches))
        return sorted(found)

    def end(self, process: int) -> None:
        """The functions of a process that ended are gone with it."""
        self._seen = {kernel: seen for kernel, seen in self._seen.items() if kernel.process != process}


def _changes(*columns: Longs) -> Longs:
    """How often one of these, function and size, has changed up to each row."""
    changed = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.cumsum(changed)


def _active(
    process: Longs, device: Longs, launched: npt.NDArray[np.bool_], open_: list[tuple[int, int]]
) -> Longs:
    """How many processes have work outstanding on each row's device, after it. Rows are ordered by device and
    time; ``open_``: (process, device) before them."""
    pair = process * (1 << 16) + device
    order = np.argsort(pair, kind="stable")
    ordered = pair[order]
    before = np.empty(len(pair), bool)
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    began = np.zeros(len(pair), bool)
    began[first] = np.isin(ordered[first], [a * (1 << 16) + b for a, b in open_])
    before[order] = np.where(first, began, np.r_[False, launched[order][:-1]])
    change = launched.astype(np.int64) - before
    running = np.cumsum(change)
    starts = np.flatnonzero(np.r_[True, device[1:] != device[:-1]])
    base = np.repeat(running[starts] - change[starts], np.diff(np.r_[starts, len(pair)]))
    devices = np.array([one for _, one in open_], np.int64)
    already = np.array([(devices == one).sum() for one in device[starts]], np.int64)
    active: Longs = running - base + np.repeat(already, np.diff(np.r_[starts, len(pair)]))
    return active
