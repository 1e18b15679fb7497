"""When each process had work outstanding on each device.

Outstanding: from the first launch after idle (its call) until the return of the next call by which the
process learns that its earlier work on that device is done. Source: outstanding time is estimator E3 of
the emulator study; the synchronising calls are CUDA driver API reference, "API synchronization behavior".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.answers import MIN_BLOCKED_NS, answers
from gpuledger.attribution.gather import IS_WAIT, IS_WORK, LAUNCH, QUERY, Ints, Pass, Prepared, dictionaries
from gpuledger.attribution.learned import learned_durations
from gpuledger.contract.columns import Longs, longs

SMALL_PAIRS = 1 << 16  # pair numbers below this are sorted as 16 bits, by radix, several times faster
MIN_BLOCKED_RATIO = 0.1  # of the interval; a shorter wait says the work may have been done long before

ENDS_WORK = IS_WAIT.copy()
ENDS_WORK[QUERY] = True  # of those that are chosen

Bools = npt.NDArray[np.bool_]


class Intervals(NamedTuple):
    """Outstanding intervals [start, end), ns since the start of the window, by pair, disjoint within one.

    ``witnessed``: the call that ended it was seen to wait, so the end is the end of the work. ``launches``:
    how many it began with and until its end, 0 where not known. ``learned_ns``: what they take by learned
    durations, -1 where that is not known of all of them. ``bursts``: so many, ended by a wait each, were told
    as one.
    """

    pair: Longs
    start: Longs
    end: Longs
    witnessed: Bools
    launches: Longs
    learned_ns: Longs
    bursts: Longs


UNKNOWN = -1


def outstanding(columns: Pass) -> Intervals:
    """All outstanding intervals of a pass: from raw calls, from tallies, and from what the keyframe says
    was outstanding at the window's start. Calls on devices that are not known are left out."""
    raw = _from_calls(columns)
    tallied = _from_tallies(columns.windows)
    if not len(tallied.pair):
        return raw
    joined = Intervals(*(np.concatenate(both) for both in zip(raw, tallied, strict=True)))
    return disjoint(joined)


def _from_calls(columns: Pass) -> Intervals:
    chosen = IS_WORK[columns.kind]
    if columns.result.any():
        chosen &= (columns.result == 0) | (columns.kind != LAUNCH)  # a launch that failed is no work
    if columns.tallied is not None:
        chosen &= ~columns.tallied
    answered = answers(columns)
    chosen[answered] = True
    rows = slice(None) if chosen.all() else np.flatnonzero(chosen)
    pair, time, blocked = columns.pair[rows], columns.time[rows], columns.duration[rows]
    wait = ENDS_WORK[columns.kind[rows]]
    if len(answered):
        blocked = np.where(columns.kind[rows] == QUERY, 0, blocked)
    extra = _from_keyframes(columns, pair)
    ends = _process_ends(columns.windows)
    takes = learned_durations(columns, np.flatnonzero(chosen))
    if len(extra.pair) or len(ends.pair):
        nothing, ended = np.zeros(len(extra.pair), np.int64), np.zeros(len(ends.pair), np.int64)
        pair = np.concatenate((extra.pair, pair, ends.pair))
        time = np.concatenate((extra.start, time, ends.start))
        wait = np.concatenate((nothing != 0, wait, ended == 0))
        blocked = np.concatenate((nothing, blocked, ended))
        if takes is not None:
            takes = np.concatenate((nothing + UNKNOWN, takes, ended))
    order, time = by_pair(pair, time, columns.pairs)
    takes = None if takes is None else takes[order]
    return _alternations(columns, pair[order], wait[order], time, blocked[order], takes)


def by_pair(pair: Longs | Ints, time: Longs, pairs: int) -> tuple[npt.NDArray[np.intp], Longs]:
    """(order by pair, then time, then as given; ``time`` in it). Calls arrive in order of time within a
    window, so that a stable sort by pair alone does it; where they do not, time is sorted as well."""
    narrow = pair.astype(np.uint16) if pairs <= SMALL_PAIRS else pair.astype(np.int32)
    order = np.argsort(narrow, kind="stable")
    moved = time[order]
    same = narrow[order]
    if np.any((moved[1:] < moved[:-1]) & (same[1:] == same[:-1])):
        order = np.lexsort((time, pair))
        moved = time[order]
    return order, moved


def _alternations(
    columns: Pass, pair: Longs | Ints, wait: Bools, time: Longs, blocked: Longs, takes: Longs | None
) -> Intervals:
    """Intervals from calls that are sorted by pair and time."""
    if not len(pair):
        return Intervals(longs([]), longs([]), longs([]), np.zeros(0, bool), longs([]), longs([]), longs([]))
    first = np.empty(len(pair), bool)
    first[0] = True
    np.not_equal(pair[1:], pair[:-1], out=first[1:])
    after_wait = np.empty(len(pair), bool)
    after_wait[0] = True
    after_wait[1:] = wait[:-1]
    opens = np.flatnonzero(~wait & (first | after_wait))
    closes = np.flatnonzero(wait & ~first & ~after_wait)
    nearest = np.searchsorted(closes, opens)
    ended = nearest < len(closes)
    close = closes[np.minimum(nearest, max(len(closes) - 1, 0))] if len(closes) else opens
    ended &= pair[close] == pair[opens]
    whose = pair[opens].astype(np.int64)
    horizon = _horizon(columns)[whose]
    end = np.where(ended, np.minimum(time[close], horizon), horizon)
    start = np.maximum(time[opens] - blocked[opens], 0)  # a launch may be called before the window begins
    # a launch may have been called while another thread's wait had not yet returned: no overlap
    follows = np.zeros(len(opens), bool)
    follows[1:] = whose[1:] == whose[:-1]
    start[1:] = np.where(follows[1:], np.maximum(start[1:], end[:-1]), start[1:])
    length = end - start
    wait_ns = np.where(ended, blocked[close], 0)
    witnessed = (wait_ns > MIN_BLOCKED_NS) & (wait_ns > MIN_BLOCKED_RATIO * length)
    witnessed |= _goes_on(whose, ended, witnessed, columns.pairs)
    learned = _sum_of_calls(opens, close, ended, takes)
    launches = np.where(ended, close - opens, 0)  # all calls up to the first that waits are launches
    keep = length > 0
    whose = whose[keep]
    return Intervals(
        whose, start[keep], end[keep], witnessed[keep], launches[keep], learned[keep], np.ones_like(whose)
    )


def _goes_on(pair: Longs, ended: Bools, witnessed: Bools, pairs: int) -> Bools:
    """Which intervals are open at the window's end, but of processes that have others there, each with an end
    that was witnessed: theirs is work that goes on."""
    if ended.all():
        return np.zeros(len(pair), bool)
    count = np.bincount(pair[ended], minlength=pairs)
    seen = np.bincount(pair[ended & witnessed], minlength=pairs)
    steady = (count > 0) & (seen == count)
    found: Bools = ~ended & steady[pair]
    return found


def _sum_of_calls(
    opens: npt.NDArray[np.intp], close: npt.NDArray[np.intp], ended: Bools, takes: Longs | None
) -> Longs:
    """What the launches of each interval take; not known where it has no end, since it is not known then
    how much of it was done within the window."""
    if takes is None:
        return np.full(len(opens), UNKNOWN)
    known = takes >= 0
    total = np.r_[0, np.cumsum(np.where(known, takes, 0))]
    missing = np.r_[0, np.cumsum(~known)]
    complete = ended & (missing[close] == missing[opens])
    return np.where(complete, total[close] - total[opens], UNKNOWN)


def _horizon(columns: Pass) -> Longs:
    """Per pair: until when work without an end counts as outstanding, ns since the window's start."""
    table = np.empty(columns.pairs, np.int64)
    for prepared in columns.windows:
        table[prepared.first_pair : prepared.first_pair + prepared.pairs] = prepared.window.window_length_ns
    return table


class _Marks(NamedTuple):
    pair: Longs
    start: Longs


def _from_keyframes(columns: Pass, with_calls: Longs | Ints) -> _Marks:
    """What was outstanding at the first state of each window, as launches at that instant. Processes that
    are tallied state it in their intervals: in a window with tallies only the pairs ``with_calls`` count."""
    pairs: list[int] = []
    starts: list[int] = []
    tallied = _windows_with_tallies(columns)
    calling = set(np.unique(with_calls).tolist()) if tallied else set()
    for index, prepared in enumerate(columns.windows):
        allowed = calling if index in tallied else None
        states = [state for state in prepared.records.holdings if not state.header.amendment]
        if not states or not len(states[0].outstanding_process):
            continue
        state = states[0]
        origin = prepared.window.window_start_ns
        numbers = prepared.people.numbers_of(state.processes)
        at = 0 if state.keyframe else max(state.time_ns - origin, 0)
        for process, device in zip(
            state.outstanding_process.tolist(), state.outstanding_device.tolist(), strict=True
        ):
            number = prepared.device_numbers.get(state.layout.devices[device].uuid, prepared.unknown)
            pair = prepared.pair(numbers[process], number)
            if allowed is None or pair in allowed:
                pairs.append(pair)
                starts.append(at)
    return _Marks(longs(pairs), longs(starts))


def _windows_with_tallies(columns: Pass) -> set[int]:
    if columns.tallied is None:
        return set()
    firsts = [prepared.first_pair for prepared in columns.windows]
    pairs = np.unique(columns.pair[columns.tallied])
    return set((np.searchsorted(firsts, pairs, side="right") - 1).tolist())


def _process_ends(windows: list[Prepared]) -> _Marks:
    """The end of a process ends its work on every device."""
    pairs: list[int] = []
    starts: list[int] = []
    for prepared in windows:
        origin, length = prepared.window.window_start_ns, prepared.window.window_length_ns
        for number, process in enumerate(prepared.people.processes):
            if process.ended_ns is not None and 0 <= process.ended_ns - origin < length:
                for device in range(prepared.width):
                    pairs.append(prepared.pair(number, device))
                    starts.append(process.ended_ns - origin)
    return _Marks(longs(pairs), longs(starts))


def _from_tallies(windows: list[Prepared]) -> Intervals:
    """The intervals that tallied processes state."""
    pairs, starts, ends, waits = [longs([])], [longs([])], [longs([])], [longs([])]
    launches, bursts = [longs([])], [longs([])]
    for prepared in windows:
        for batch in prepared.records.events:
            if not len(batch.outstanding_start_ns):
                continue
            process_of, device_of = dictionaries(prepared, batch.processes, batch.devices)
            start = batch.outstanding_start_ns - prepared.window.window_start_ns
            pairs.append(
                process_of[batch.outstanding_process].astype(np.int64) + device_of[batch.outstanding_device]
            )
            starts.append(np.maximum(start, 0))
            ends.append(np.minimum(start + batch.outstanding_duration_ns, prepared.window.window_length_ns))
            waits.append(batch.outstanding_blocked_ns)
            told = len(batch.outstanding_launches) == len(start)
            launches.append(batch.outstanding_launches if told else np.zeros_like(start))
            bursts.append(batch.outstanding_bursts if told else np.ones_like(start))
    pair, start, end, wait_ns = (np.concatenate(parts) for parts in (pairs, starts, ends, waits))
    keep = end > start
    found = pair[keep]
    unknown = np.full(len(found), UNKNOWN)
    made, bundled = np.concatenate(launches)[keep], np.concatenate(bursts)[keep]
    return Intervals(found, start[keep], end[keep], wait_ns[keep] > 0, made, unknown, bundled)


def disjoint(intervals: Intervals) -> Intervals:
    """The union of each pair's intervals; a joined one is witnessed where all its parts are, and its launches
    and what they take are known where those of all its parts are."""
    order = np.lexsort((intervals.end, intervals.start, intervals.pair))
    pair, start, end = intervals.pair[order], intervals.start[order], intervals.end[order]
    witnessed = intervals.witnessed[order]
    launches, learned = intervals.launches[order], intervals.learned_ns[order]
    if not len(pair):
        return intervals
    # ends as one rising number a pair, so that the running maximum never crosses from one to the next
    step = int(end.max()) + 1
    rank = np.cumsum(np.r_[0, pair[1:] != pair[:-1]]) * step
    reach = np.maximum.accumulate(end + rank)
    opens = np.r_[True, (start + rank)[1:] >= reach[:-1]]
    at = np.flatnonzero(opens)
    return Intervals(
        pair[at],
        start[at],
        np.maximum.reduceat(end, at),
        np.logical_and.reduceat(witnessed, at),
        np.where(np.minimum.reduceat(launches, at) > 0, np.add.reduceat(launches, at), 0),
        np.where(np.minimum.reduceat(learned, at) >= 0, np.add.reduceat(learned, at), UNKNOWN),
        np.maximum.reduceat(intervals.bursts[order], at),
    )
