"""The interval that a process's busy time lies in: rules, whose figures were set so that they hold.

Measured: from the lesser to the greater of both views, two standard errors of the samples, and two points;
without the kernel's view, five. Estimated: three points, and the part of the estimate that is in doubt may be
wrong altogether: downwards for the process itself, upwards for the others as far as they had work
outstanding. In doubt is what rests on work whose end was not witnessed or that was shorter than a time slice
(seen.py, ``doubtful``). Who has such brief bursts may also have had all that they allow, and the others so
much less.

Where the device's own total was divided, what the unseen had together is known to the distance of its two
bounds (unseen.py); only how several of them share it is not.

docs/accuracy.md has how often the truth lay inside, on an emulated GPU.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuledger.attribution.seen import ProcessView
from gpuledger.attribution.unseen import is_unseen

ESTIMATE_POINTS = 0.03  # of a piece; processor sharing was within 3 points where it applies
MEASURED_POINTS = 0.02  # of a piece; NVML's whole percents, and samples that lie across the borders
MEASURED_ERRORS = 2  # standard errors of the samples
UNCHECKED_POINTS = 0.05  # of a piece; measured values that nothing else confirms


class Interval(NamedTuple):
    """Bounds of a process's busy ns."""

    low: float
    high: float


class Doubts(NamedTuple):
    """What busy times rest on. ``measured``: they are NVML's; ``witnessed``: every context's calls are seen;
    ``divided``: they are parts of the device's own total (estimated.py); ``wide_ns``: how far two ways of
    getting at them lie apart."""

    measured: bool
    witnessed: bool
    divided: bool
    wide_ns: float


def intervals(length: int, processes: list[ProcessView], busy: list[float], doubts: Doubts) -> list[Interval]:
    """The interval of each process's busy ns; ``busy`` is the estimate."""
    find = _of_measured if doubts.measured else _of_estimated
    found = find(length, processes, busy, doubts)
    for number, process in enumerate(processes):
        if process.witnessed and not process.outstanding and not process.measured_cover:
            found[number] = Interval(0.0, doubts.wide_ns)
    return [Interval(max(0.0, low), min(float(length), high)) for low, high in found]


def _of_measured(
    length: int, processes: list[ProcessView], busy: list[float], doubts: Doubts
) -> list[Interval]:
    points = MEASURED_POINTS if doubts.witnessed else UNCHECKED_POINTS
    found = []
    for process, part in zip(processes, busy, strict=True):
        margin = points * length + MEASURED_ERRORS * process.measured_error + doubts.wide_ns
        other = part if doubts.witnessed else process.measured
        found.append(Interval(min(process.measured, other) - margin, max(process.measured, other) + margin))
    return found


def _of_estimated(
    length: int, processes: list[ProcessView], busy: list[float], doubts: Doubts
) -> list[Interval]:
    hidden = [doubts.divided and is_unseen(process) for process in processes]
    together = [part for part, unseen in zip(busy, hidden, strict=True) if unseen]
    at_stake = [
        0.0 if unseen else part * _doubt(process)
        for process, part, unseen in zip(processes, busy, hidden, strict=True)
    ]
    spare = [
        0.0 if unseen or process.known else max(0.0, process.cap - part) * process.doubtful
        for process, part, unseen in zip(processes, busy, hidden, strict=True)
    ]
    margin = ESTIMATE_POINTS * length + doubts.wide_ns
    found = []
    for process, part, doubt, more, unseen in zip(processes, busy, at_stake, spare, hidden, strict=True):
        if unseen:
            low = part if len(together) == 1 else 0.0
            found.append(Interval(low - sum(spare) - margin, sum(together) + sum(at_stake) + margin))
            continue
        low = part - doubt - (sum(spare) - more) - margin
        high = part + more + sum(at_stake) - doubt + margin
        if process.witnessed:
            high = min(high, max(process.outstanding, part) + doubts.wide_ns)
        found.append(Interval(low, high))
    return found


def _doubt(process: ProcessView) -> float:
    """The part of its estimate (0..1) that is in doubt, with what longer bursts may come off wrong by."""
    if process.known or not process.outstanding:
        return process.doubtful
    in_doubt = max(process.end_unseen, process.brief) + process.uneven
    return max(process.doubtful, min(1.0, in_doubt / process.outstanding))
