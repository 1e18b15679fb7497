"""`busy_estimated`: each process's busy time from who had work outstanding when (emulator study, E5, E5n).

Whose durations are learned had what it asked for. The others had their part by processor sharing, but no more
than their bursts can take: a burst shorter than a time slice mostly waits for the slice of another. What that
leaves of the time in which anybody had work outstanding goes to those who had more outstanding.

Where the device's own total is known and the ends of somebody's work were mostly not seen, those whose ends
were seen have all that they can have had, as far as it fits, and the others share what is left.

Where SM-time is shared, processor sharing was done with the thread percentages already.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.attribution.seen import ProcessView

ENOUGH = 0.02  # of a piece; a sum this near to what it should be is left as it is
LEARNED_SLACK = 0.03  # of what learned durations say, give or take
ROUNDS = 20  # of filling up; each settles at least one process


def estimate(
    length: int, processes: list[ProcessView], total_ns: float | None, hint_ns: float | None = None
) -> list[float]:
    """Busy ns of each process. ``total_ns`` is how long the device was busy by its own counters, where that
    is known; ``hint_ns`` a lesser source of it, only for those whose ends were not seen."""
    parts = [
        process.demand if process.known else min(process.estimated, process.cap) for process in processes
    ]
    total = hint_ns if total_ns is None else total_ns
    if total is not None:
        by_total = _rest_to_the_unseen(processes, parts, total)
        if by_total is not None:
            return by_total
    union = sum(process.estimated for process in processes)
    unsure = sum(process.end_unseen for process in processes)
    least, most = max(0.0, union - unsure) if total_ns is None else min(union, total_ns), union
    whole = sum(parts)
    if least - ENOUGH * length <= whole <= most:
        return parts
    target = most if whole > most else least
    low = [(1 - LEARNED_SLACK) * process.demand if process.known else 0.0 for process in processes]
    high = [
        min((1 + LEARNED_SLACK) * process.demand, process.outstanding) if process.known else process.cap
        for process in processes
    ]
    filled = fill(target, parts, low, high)
    if abs(sum(filled) - target) <= ENOUGH / 2 * length:
        return filled
    return fill(target, filled, [0.0] * len(processes), [process.outstanding for process in processes])


def _rest_to_the_unseen(
    processes: list[ProcessView], parts: list[float], total_ns: float
) -> list[float] | None:
    """Those who were seen have what they can have had, those who were not share the rest of the device's
    total. None where all were seen, or where those who were had more than the total."""
    unseen = [process.mostly_unseen and not process.known for process in processes]
    tight = [process.demand if process.known else process.tight for process in processes]
    seen = sum(part for part, hidden in zip(tight, unseen, strict=True) if not hidden)
    weight = sum(part for part, hidden in zip(parts, unseen, strict=True) if hidden)
    if weight <= 0 or seen > total_ns:
        return None
    scale = (total_ns - seen) / weight
    return [
        min(process.outstanding, part * scale) if hidden else most
        for process, part, most, hidden in zip(processes, parts, tight, unseen, strict=True)
    ]


def fill(target: float, parts: Sequence[float], low: Sequence[float], high: Sequence[float]) -> list[float]:
    """``parts`` grown or shrunk in proportion, each within its bounds, until they sum to ``target`` or all
    stand at a bound."""
    found = [min(max(part, least), most) for part, least, most in zip(parts, low, high, strict=True)]
    for _ in range(ROUNDS):
        missing = target - sum(found)
        if abs(missing) < 1.0:
            break
        room = [
            max(part, 1.0) if (part < most - 1 if missing > 0 else part > least + 1) else 0.0
            for part, least, most in zip(found, low, high, strict=True)
        ]
        whole = sum(room)
        if not whole:
            break
        found = [
            min(max(part + missing * weight / whole, least), most)
            for part, weight, least, most in zip(found, room, low, high, strict=True)
        ]
    return found
