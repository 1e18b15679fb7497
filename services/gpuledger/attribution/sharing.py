"""Processor sharing: how much of a device's time each process had, from who had work outstanding when.

At each instant every process with outstanding work gets an equal part, 1/|S(t)| (estimator E4 of the
emulator study: 0 to 1.3 points of device time when processes block soon after their work ends and bursts
are longer than a time slice). No sweep over processes: a virtual clock V(t) = integral dt / |S| needs one
addition a change, and a process's part of an interval is V(end) - V(start).

Where SM-time is shared (MPS, core fractions) all run at once, each on its part p of the SMs; only where
more is asked for than there is, the parts shrink: p_i / max(1, sum p) (estimator E4m).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.episodes import QUANTUM_NS, Envelope, envelope, worked_alone
from gpuledger.attribution.gather import Ints
from gpuledger.attribution.outstanding import Intervals
from gpuledger.contract.columns import Longs, longs

FRACTION_BITS = 16  # V is kept in 2**-16 ns as integers: exact sums, whatever else is in the pass
TIME_BITS = 37  # ns within a window of at most 60 s (2**35.8), with one bit to spare
LATEST_NS = 1 << 36  # of an instant within a window: later ones, and earlier than 0, are cut to the window
SM_UNITS = 10_000  # of a device: hundredths of a percent of its SMs
UNEVEN_NS = QUANTUM_NS // 2  # that a longer burst may come off wrong by: who begins is up to the runlist
LEARNED_TOLERANCE = 0.35  # of the time alone; learned durations vary by as much (emulator study, E5)


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
    ``unwitnessed`` its end was not seen, ``brief`` in bursts shorter than a time slice beside others, or
    with more SMs asked for than there are; ``uneven`` what longer ones may come off wrong by. ``cap`` and
    ``tight``: the most that it can have worked by its fastest bursts, the first for brief ones only.
    ``learned``: by learned durations, and ``unlearned`` what is outstanding without any.
    """

    cell: Longs
    pair: Longs
    estimated: Longs
    outstanding: Longs
    alone: Longs
    unwitnessed: Longs
    brief: Longs
    uneven: Longs
    cap: Longs
    tight: Longs
    learned: Longs
    unlearned: Longs


class Percentages(NamedTuple):
    """Where SM-time is shared: the cells concerned, and the part of the SMs, in units of 1/SM_UNITS, of each
    (cell, pair) that has less than all, sorted by ``key``, which is cell x pairs + pair."""

    by_sm: npt.NDArray[np.bool_]
    key: Longs
    units: Longs
    pairs: int


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


def processor_sharing(
    intervals: Intervals, pair_device: Ints, cells: Cells, percentages: Percentages | None = None
) -> Shares:
    """Each pair's part of each cell."""
    device = pair_device[intervals.pair].astype(np.int64)
    interval, cell, start, end = spread(device, intervals.start, intervals.end, cells)
    if not len(interval):
        return Shares(*(longs([]) for _ in Shares._fields))
    uncut = len(interval) == len(device) and bool((interval[1:] > interval[:-1]).all())
    of: Any = slice(None) if uncut else interval
    pair = intervals.pair[of]
    length = end - start
    part, alone, crowded = _clocks(cells, cell, start, end, pair, percentages)
    bursts = envelope(intervals)
    short = bursts.brief[of]
    whole = (intervals.end - intervals.start)[of]
    fits = (bursts.most[of] * (length / whole)).astype(np.int64)  # work may reach beyond its only cell too
    beside = length - alone
    brief = np.where(short, beside, 0)
    uneven = np.where(short, 0, np.minimum(beside, UNEVEN_NS))
    if percentages is not None:
        by_sm = percentages.by_sm[cell]
        brief = np.where(by_sm, crowded, brief)
        uneven = np.where(by_sm, 0, uneven)
        fits = np.where(by_sm, length, fits)
    cap = np.where(short, fits, length)
    unwitnessed = np.where(intervals.witnessed[of], 0, length)
    groups, member = _groups(cell, pair, pair_device, cells)
    opens = np.flatnonzero(np.r_[True, member[1:] != member[:-1]])
    together = len(opens) == len(groups[0])  # the rows of each group lie together, as where nothing is cut

    def sums(values: Longs) -> Longs:
        if together:
            return np.add.reduceat(values, opens)
        return np.bincount(member, values, len(groups[0])).astype(np.int64)

    outstanding = sums(length)
    shares = Shares(
        cell=groups[0],
        pair=groups[1],
        estimated=sums(part) >> FRACTION_BITS,
        outstanding=outstanding,
        alone=sums(alone),
        unwitnessed=sums(unwitnessed),
        brief=sums(brief),
        uneven=sums(uneven),
        cap=sums(cap),
        tight=sums(fits),
        learned=np.zeros(len(outstanding), np.int64),
        unlearned=outstanding,
    )
    unshared = alone if uncut else np.bincount(interval, alone, len(device))
    takes = _work(intervals, bursts, unshared)[of]
    if percentages is not None:
        takes = np.where(percentages.by_sm[cell], -1, takes)  # they are times, and not of SMs
    if takes.max() < 0:
        return shares
    learned = np.where(takes < 0, 0, (np.minimum(takes, whole) * (length / whole)).astype(np.int64))
    return shares._replace(learned=sums(learned), unlearned=sums(np.where(takes < 0, length, 0)))


def _clocks(
    cells: Cells, cell: Longs, start: Longs, end: Longs, pair: Longs, percentages: Percentages | None
) -> tuple[Longs, Longs, Longs]:
    """(part by processor sharing in 2**-FRACTION_BITS ns, time alone, time in which more SMs were asked for
    than there are) of each stretch."""
    n = len(cell)
    key = cells.device[cell] << TIME_BITS
    # ends sort before starts of the same instant: the low bit says which it is
    at = np.concatenate((((key + start) << 1) | 1, (key + end) << 1))
    order = np.argsort(at, kind="stable")
    at = at[order]
    step = np.diff(at >> 1)
    active = np.cumsum((at & 1) * 2 - 1)[:-1]
    place = np.empty(2 * n, np.int64)
    place[order] = np.arange(2 * n)

    def during(rate: Longs) -> Longs:
        """The integral of a rate over each stretch."""
        clock = np.zeros(2 * n, np.int64)
        np.cumsum(rate, out=clock[1:])
        passed: Longs = clock[place[n:]] - clock[place[:n]]
        return passed

    alone = during(np.where(active == 1, step, 0))
    if percentages is None or not percentages.by_sm[cell].any():
        part = during(np.where(active > 0, (step << FRACTION_BITS) // np.maximum(active, 1), 0))
        return part, alone, np.zeros(n, np.int64)
    weight, unit = _weights(percentages, cell, pair)
    asked = np.cumsum(np.concatenate((weight, -weight))[order])[:-1]
    whole = np.concatenate((unit, unit))[order][:-1]
    part = during((step << FRACTION_BITS) // np.maximum(np.maximum(asked, whole), 1)) * weight
    return part, alone, during(np.where(asked > whole, step, 0))


def _weights(percentages: Percentages, cell: Longs, pair: Longs) -> tuple[Longs, Longs]:
    """(weight, what a whole device is) of each stretch: 1 and 1 where time is shared, the SMs where they
    are."""
    unit = np.where(percentages.by_sm[cell], SM_UNITS, 1)
    weight = unit.copy()
    if len(percentages.key):
        key = cell * percentages.pairs + pair
        at = np.minimum(np.searchsorted(percentages.key, key), len(percentages.key) - 1)
        weight = np.where(percentages.key[at] == key, percentages.units[at], weight)
    return weight, unit


def _work(intervals: Intervals, bursts: Envelope, alone: Longs) -> Longs:
    """ns that each interval worked, -1 where not known: by learned durations, else as its like did alone.
    Learned durations are left aside for a process that, alone, took another time for its work: they are of
    other data, or of another model. ``alone``: ns of each interval without others."""
    whole = intervals.end - intervals.start
    lonely = (alone == whole) & intervals.witnessed
    learned = intervals.learned_ns
    rows = np.flatnonzero(lonely & (learned >= 0))
    if len(rows):
        pairs = int(intervals.pair.max()) + 1
        took = np.bincount(intervals.pair[rows], whole[rows], pairs)
        said = np.bincount(intervals.pair[rows], learned[rows], pairs)
        wrong = np.abs(said - took) > LEARNED_TOLERANCE * took
        learned = np.where(wrong[intervals.pair], -1, learned)
    if bursts.groups:
        learned = np.where(learned < 0, worked_alone(bursts, whole, lonely, intervals.bursts), learned)
    return learned


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
