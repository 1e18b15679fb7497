"""What those had of a device whose work was not seen to end, where the device's own busy time is known.

A process that never waits for its work has it outstanding all the time, and nothing in its calls says how
much of that was work. Two bounds do. At least it had what the others can not have had: the device's total
less what their fastest bursts, or learned durations, allow them (emulator study, E5n). At most it worked
beside the others as it did alone: while only it had work outstanding, what the device was busy is its own,
and that rate holds beside the others too, as far as processor sharing gives it so much. The rate overstates
it, since work that came beside the others is partly done after them; the others' fastest bursts understate
it, since all of them may have waited. The truth lay between the two in nearly every mix that was tried, and
their mean is taken. From a rate of one half on it had its equal part beside the others, and the rate alone
decides. Who was hardly ever alone shows no rate; at most it had its equal part then.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuledger.attribution.seen import ProcessView

ENOUGH_ALONE = 0.02  # of the time in which anybody had work outstanding; a rate over less says nothing
SATURATED = 0.5  # of the time alone: who has so much work wants the device at all times


class Hidden(NamedTuple):
    """Busy ns of the unseen together, and how far it may be wrong."""

    ns: float
    wide_ns: float


def is_unseen(process: ProcessView) -> bool:
    """Whether neither the ends of its work nor learned durations say what it had."""
    return process.outstanding > 0 and process.mostly_unseen and not process.known


def unseen_part(processes: list[ProcessView], total_ns: float) -> Hidden | None:
    """What the unseen had of the ``total_ns`` that the device was busy; None where all were seen, and where
    the total contradicts those who were."""
    unseen = [process for process in processes if is_unseen(process)]
    seen = [process for process in processes if not is_unseen(process)]
    union = sum(process.estimated for process in processes)
    alone = sum(process.alone for process in unseen)
    beside = union - alone  # somebody who was seen had work outstanding: the device was busy
    learned = bool(seen) and all(process.known for process in seen if process.outstanding)
    least = total_ns - sum(process.demand if process.known else process.tight for process in seen)
    if not unseen or (total_ns < beside and not learned and least < 0):
        return None
    least = max(0.0, least)
    if learned or not any(process.outstanding for process in seen):
        return Hidden(least, 0.0)
    equal = sum(process.estimated - process.alone for process in unseen)
    rate = min(1.0, max(0.0, total_ns - beside) / alone) if alone > ENOUGH_ALONE * union else None
    crowded = sum(process.outstanding - process.alone for process in unseen)
    if rate is None:
        most = max(least, alone + equal)
    else:
        most = max(least, rate * alone + min(rate * crowded, equal))
    if rate is not None and rate >= SATURATED:
        return Hidden(most, (most - least) / 2)
    return Hidden((least + most) / 2, (most - least) / 2)
