"""Processor sharing: how much of a device's time each process had, from who had work outstanding when.

At each instant every process with outstanding work gets an equal part, 1/|S(t)| (estimator E4 of the
emulator study: 0 to 1.3 points of device time when processes block soon after their work ends and bursts
are longer than a time slice). No sweep over processes: a virtual clock V(t) = integral dt / |S| needs one
addition a change, and a process's part of an interval is V(end) - V(start).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuledger.attribution.gather import Ints
from gpuledger.attribution.outstanding import Intervals
from gpuledger.contract.columns import Longs, longs

FRACTION_BITS = 16  # V is kept in 2**-16 ns as integers: exact sums, whatever else is in the pass
TIME_BITS = 37  # ns within a window of at most 60 s (2**35.8), with one bit to spare
LATEST_NS = 1 << 36  # of an instant within a window: later ones, and earlier than 0, are cut to the window
QUANTUM_NS = 2_200_000  # a time slice of the runlist, about 2 ms: below it equal parts do not hold


class Cells(NamedTuple):
    """The stretches to account for: disjoint within a device, sorted by (device, start).

    ``device`` is the number in the pass, times are ns since the start of the device's window, ``first`` is
    the first cell of each device of the pass, with one more at the end.
    """

    device: Longs
    start: Longs
    end: Longs
    first: Longs


class Shares(NamedTuple):
    """Per (cell, pair) in which the pair had work outstanding; ns.

    ``estimated``: processor sharing. ``outstanding``: all of it, ``alone`` nobody else had any,
    ``unwitnessed`` its end was not seen, ``brief`` contended and shorter than a time slice.
    """

    cell: Longs
    pair: Longs
    estimated: Longs
    outstanding: Longs
    alone: Longs
    unwitnessed: Longs
    brief: Longs


def cells_of(device: Longs, start: Longs, end: Longs, devices: int) -> Cells:
    """Cells from columns that are sorted by (device, start)."""
    return Cells(device, start, end, np.searchsorted(device, np.arange(devices + 1)).astype(np.int64))


def spread(device: Longs, start: Longs, end: Longs, cells: Cells) -> tuple[Longs, Longs, Longs, Longs]:
    """Cut intervals at the borders of the cells: (interval, cell, start, end) of each overlap.

    Cells lie within their windows; an interval may reach beyond its own, and then into no other device's.
    """
    start, end = np.clip(start, 0, LATEST_NS), np.clip(end, 0, LATEST_NS)
    low = (device << TIME_BITS) + start
    high = (device << TIME_BITS) + end
    base = cells.device << TIME_BITS
    first = np.searchsorted(base + cells.end, low, side="right")
    last = np.searchsorted(base + cells.start, high, side="left")
    many = np.maximum(last - first, 0)
    if len(many) and many.max(initial=0) == 1 and many.min(initial=1) == 1:
        interval = np.arange(len(device))
        cell = first
    else:
        interval = np.repeat(np.arange(len(device)), many)
        cell = first[interval] + np.arange(len(interval)) - (np.cumsum(many) - many)[interval]
    return (
        interval,
        cell,
        np.maximum(start[interval], cells.start[cell]),
        np.minimum(end[interval], cells.end[cell]),
    )


def processor_sharing(intervals: Intervals, pair_device: Ints, cells: Cells) -> Shares:
    """Each pair's part of each cell."""
    device = pair_device[intervals.pair].astype(np.int64)
    interval, cell, start, end = spread(device, intervals.start, intervals.end, cells)
    n = len(interval)
    if not n:
        return Shares(*(longs([]) for _ in range(7)))
    pair = intervals.pair[interval]
    key = cells.device[cell] << TIME_BITS
    # ends sort before starts of the same instant: the low bit says which it is
    at = np.concatenate((((key + start) << 1) | 1, (key + end) << 1))
    order = np.argsort(at, kind="stable")
    at = at[order]
    running = np.cumsum((at & 1) * 2 - 1)
    step = np.diff(at >> 1)
    active = running[:-1]
    clock = np.zeros(2 * n, np.int64)
    np.cumsum(np.where(active > 0, (step << FRACTION_BITS) // np.maximum(active, 1), 0), out=clock[1:])
    single = np.zeros(2 * n, np.int64)
    np.cumsum(np.where(active == 1, step, 0), out=single[1:])
    place = np.empty(2 * n, np.int64)
    place[order] = np.arange(2 * n)
    part = clock[place[n:]] - clock[place[:n]]
    alone = single[place[n:]] - single[place[:n]]
    length = end - start
    whole = (intervals.end - intervals.start)[interval]
    brief = np.where(whole < QUANTUM_NS, length - alone, 0)
    unwitnessed = np.where(intervals.witnessed[interval], 0, length)
    groups, member = _groups(cell, pair, pair_device, cells)
    sums = [
        np.bincount(member, weights=values, minlength=len(groups[0])).astype(np.int64)
        for values in (part, length, alone, unwitnessed, brief)
    ]
    return Shares(groups[0], groups[1], sums[0] >> FRACTION_BITS, *sums[1:])


def _groups(cell: Longs, pair: Longs, pair_device: Ints, cells: Cells) -> tuple[tuple[Longs, Longs], Longs]:
    """((cell, pair) of each group, sorted; the group of each row)."""
    count = (cells.first[1:] - cells.first[:-1])[pair_device]
    base = np.cumsum(count) - count
    number = base[pair] + cell - cells.first[pair_device[pair]]
    present = np.zeros(int(count.sum()), bool)
    present[number] = True
    used = np.flatnonzero(present)
    rank = np.empty(len(present), np.int64)
    rank[used] = np.arange(len(used))
    member = rank[number]
    of_cell = np.empty(len(used), np.int64)
    of_pair = np.empty(len(used), np.int64)
    of_cell[member] = cell
    of_pair[member] = pair
    return (of_cell, of_pair), member
