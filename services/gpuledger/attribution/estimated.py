"""`busy_estimated`: each process's busy time from who had work outstanding when (emulator study, E5).

Whose durations are learned had what it asked for. The others had their part by processor sharing, but no more
than their bursts can take: a burst shorter than a time slice mostly waits for the slice of another. What that
leaves of the time in which anybody had work outstanding goes to those who had more outstanding.

Where the device's own total is known and the ends of somebody's work were mostly not seen, unseen.py divides
it. Where SM-time is shared, processor sharing was done with the thread percentages already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuledger.attribution.seen import ProcessView
from gpuledger.attribution.unseen import is_unseen, unseen_part

ENOUGH = 0.02  # of a piece; a sum this near to what it should be is left as it is
LEARNED_SLACK = 0.03  # of what learned durations say; they may be so much too long
ROUNDS = 20  # of filling up; each settles at least one process


class Estimate(NamedTuple):
    """Busy ns of each process, and how far two ways of getting at it lie apart, ns. ``divided``: the device's
    own total was divided between those whose work was not seen to end, and the others."""

    parts: list[float]
    wide_ns: float = 0.0
    divided: bool = False


def estimate(
    length: int, processes: list[ProcessView], total_ns: float | None, hint_ns: float | None = None
) -> Estimate:
    """The estimate of a piece of ``length`` ns. ``total_ns`` is how long the device was busy by its own
    counters, where that is known; ``hint_ns`` a lesser source of it, only for those who were not seen."""
    if not processes or (len(processes) == 1 and not processes[0].end_unseen):
        return Estimate([process.estimated for process in processes])  # whoever was alone had what he wanted
    parts = [
        process.demand if process.known else min(process.estimated, process.cap) for process in processes
    ]
    total = hint_ns if total_ns is None else total_ns
    hidden = None if total is None else unseen_part(processes, total)
    if total is not None and hidden is not None:
        return Estimate(_beside_the_unseen(processes, parts, hidden.ns, total), hidden.wide_ns, True)
    union = sum(process.estimated for process in processes)
    unsure = sum(process.end_unseen for process in processes)
    least, most = max(0.0, union - unsure) if total_ns is None else min(union, total_ns), union
    whole = sum(parts)
    if least - ENOUGH * length <= whole <= most:
        return Estimate(parts)
    target = most if whole > most else least
    low = [process.demand if process.known else 0.0 for process in processes]
    high = [process.demand if process.known else process.cap for process in processes]
    filled = fill(target, parts, low, high)
    if abs(sum(filled) - target) > ENOUGH * length:
        low = [(1 - LEARNED_SLACK) * bound for bound in low]
        filled = fill(target, filled, low, [process.outstanding for process in processes])
    return Estimate(filled)


def _beside_the_unseen(
    processes: list[ProcessView], parts: list[float], hidden_ns: float, total_ns: float
) -> list[float]:
    """The unseen share ``hidden_ns`` of the device's total, the others the rest of it."""
    nothing = [0.0] * len(processes)
    unseen = [process.outstanding if is_unseen(process) else 0.0 for process in processes]
    seen = [0.0 if is_unseen(process) else process.outstanding for process in processes]
    one = fill(
        hidden_ns, [min(part, most) for part, most in zip(parts, unseen, strict=True)], nothing, unseen
    )
    rest = max(0.0, total_ns - sum(one))
    other = fill(rest, [min(part, most) for part, most in zip(parts, seen, strict=True)], nothing, seen)
    return [hidden + shown for hidden, shown in zip(one, other, strict=True)]


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
