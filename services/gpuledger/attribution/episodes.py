"""How fast a process's bursts can be: the lower envelope of how long bursts of one size took.

A burst of few short kernels beside a long-running neighbour is outstanding for as long as the neighbour's
time slice lasts, and worked for a fraction of that. The fastest bursts of the same size and process, the
second percentile, waited for nobody: none of them can have worked longer (emulator study, E5).

The percentile is read from a histogram with 16 classes an octave, as the mean of the class that it falls
into, so that millions of bursts need no sorting.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.outstanding import Intervals
from gpuledger.contract.columns import Longs

QUANTUM_NS = 2_200_000  # a time slice of the runlist, about 2 ms: below it equal parts do not hold
FASTEST = 0.02  # of the bursts of one size
ENOUGH_BURSTS = 20  # of one size and process, or their percentile says nothing
ENOUGH_ALONE = 5  # bursts of one size that were alone (emulator study, E5)
STEADY = 0.12  # of their mean: the mean deviation that a middle 80 % within 35 % of the median allows
LARGEST_BURST = 64  # launches; larger ones are rarely of one size, and rarely brief
MANTISSA_BITS = 48  # of a float64 that are left out: 4 of 52 stay, 16 classes an octave
LEAST_CLASS = 1023 << 4  # of 1 ns
CLASSES = 37 << 4  # up to 2**37 ns
UNBOUNDED = 1 << 62  # ns, beyond any interval
BLOCK = 1 << 13  # groups with a histogram at one time: 5 million classes


class Envelope(NamedTuple):
    """By interval: the most ns that it can have worked, whether that is less than a time slice, and the group
    of bursts of one process and size that it belongs to, -1 for none; ``groups`` is how many there are."""

    most: Longs
    brief: npt.NDArray[np.bool_]
    group: Longs
    groups: int


def envelope(intervals: Intervals) -> Envelope:
    """How long each interval can have worked by the fastest bursts of its size; all of it where there are too
    few of them, or where their ends were not seen."""
    length = intervals.end - intervals.start
    most = length.copy()
    each = length // intervals.bursts
    brief = each < QUANTUM_NS
    of_burst, groups = _groups(intervals)
    if not groups:
        return Envelope(most, brief, of_burst, groups)
    fast = _fastest(of_burst, groups, each, intervals.witnessed & (intervals.bursts == 1))
    rows = np.flatnonzero(of_burst >= 0)
    bound = fast[of_burst[rows]]
    scaled = np.where(bound == UNBOUNDED, bound, np.minimum(bound, 1 << 40) * intervals.bursts[rows])
    most[rows] = np.minimum(most[rows], scaled)
    brief[rows] = np.where(bound == UNBOUNDED, brief[rows], bound < QUANTUM_NS)
    return Envelope(most, brief, of_burst, groups)


def worked_alone(bursts: Envelope, length: Longs, alone: npt.NDArray[np.bool_], several: Longs) -> Longs:
    """ns that each interval worked, as those of its group did that were ``alone`` and seen to their end; -1
    where too few were, or where these differ: then the shorter ones are the more likely to be alone."""
    rows = np.flatnonzero(alone & (bursts.group >= 0) & (several == 1))
    group, took = bursts.group[rows], (length[rows] / several[rows])
    count = np.bincount(group, minlength=bursts.groups)
    mean = np.bincount(group, took, bursts.groups) / np.maximum(count, 1)
    spread = np.bincount(group, np.abs(took - mean[group]), bursts.groups) / np.maximum(count, 1)
    steady = (count >= ENOUGH_ALONE) & (spread <= STEADY * mean)
    worked = np.append(np.where(steady, mean, -1.0), -1.0).astype(np.int64)
    return np.where(worked[bursts.group] < 0, -1, worked[bursts.group] * several)


def _groups(intervals: Intervals) -> tuple[Longs, int]:
    """(group of each interval or -1, how many groups): those of one pair and size with enough of them."""
    size = intervals.launches // intervals.bursts
    usable = (size > 0) & (size < LARGEST_BURST)
    present = np.zeros(int(intervals.pair.max(initial=-1)) + 1, bool)
    present[intervals.pair[usable]] = True
    rank = np.cumsum(present) - 1
    number = rank[intervals.pair] * LARGEST_BURST + size
    rows = np.flatnonzero(usable)
    counts = np.bincount(number[rows], minlength=int(present.sum()) * LARGEST_BURST)
    large = counts >= ENOUGH_BURSTS
    group = np.where(large, np.cumsum(large) - 1, -1)
    found = np.full(len(number), -1)
    found[rows] = group[number[rows]]
    return found, int(large.sum())


def _fastest(group: Longs, groups: int, length: Longs, witnessed: npt.NDArray[np.bool_]) -> Longs:
    """The second percentile of the length of each group's witnessed bursts; UNBOUNDED where too few are."""
    found = np.full(groups, UNBOUNDED)
    for first in range(0, groups, BLOCK):
        count = min(BLOCK, groups - first)
        rows = np.flatnonzero(witnessed & (group >= first) & (group < first + count))
        mine, lengths = group[rows] - first, length[rows].astype(np.float64)
        level = np.clip((lengths.view(np.int64) >> MANTISSA_BITS) - LEAST_CLASS, 0, CLASSES - 1)
        key = mine * CLASSES + level
        histogram = np.bincount(key, minlength=count * CLASSES).reshape(count, CLASSES)
        total = histogram.sum(axis=1)
        reached = histogram.cumsum(axis=1) > (FASTEST * total)[:, None]
        chosen = reached.argmax(axis=1)
        inside = level == chosen[mine]
        mean = np.bincount(mine[inside], lengths[inside], count)
        members = np.maximum(histogram[np.arange(count), chosen], 1)
        found[first : first + count] = np.where(total >= ENOUGH_BURSTS, mean / members, UNBOUNDED)
    return found
