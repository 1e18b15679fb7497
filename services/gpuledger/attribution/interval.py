"""The interval that a process's busy time lies in: a rule, not yet a calibration.

Measured: from the lesser to the greater of both views, and a point; without the kernel's view, five
points. Estimated: two points, and the part of the estimate that is in doubt may be wrong altogether:
downwards for the process itself, upwards for the others as far as they had work outstanding. In doubt is
what rests on work whose end was not witnessed or that was shorter than a time slice (seen.py,
``doubtful``). Who has such brief bursts may also have had all that they allow, and the others so much
less."""

from __future__ import annotations

from typing import NamedTuple

from gpuledger.attribution.seen import ProcessView

ESTIMATE_POINTS = 0.02  # of a piece; processor sharing was within 1.3 points where it applies
MEASURED_POINTS = 0.01  # of a piece; resolution of NVML's percent
UNCHECKED_POINTS = 0.05  # of a piece; measured values that nothing else confirms


class Interval(NamedTuple):
    """Bounds of a process's busy ns."""

    low: float
    high: float


def _unevenness(process: ProcessView) -> float:
    """The part of its outstanding time (0..1) that is in doubt, with what longer bursts may come off wrong
    by."""
    if not process.outstanding:
        return 0.0
    return min(1.0, (max(process.end_unseen, process.brief) + process.uneven) / process.outstanding)


def intervals(
    length: int,
    processes: list[ProcessView],
    busy: list[float],
    measured: bool,
    witnessed: bool,
    wide_ns: float,
) -> list[Interval]:
    """The interval of each process's ``busy`` ns. ``measured``: they are NVML's; ``witnessed``: every
    context's calls are seen; ``wide_ns``: a disagreement with a slow sample."""
    at_stake = [
        part * max(process.doubtful, 0.0 if process.known else _unevenness(process))
        for process, part in zip(processes, busy, strict=True)
    ]
    total = sum(at_stake)
    spare = [
        0.0 if process.known else max(0.0, process.cap - part) * process.doubtful
        for process, part in zip(processes, busy, strict=True)
    ]
    bounds = []
    for process, part, doubt, more in zip(processes, busy, at_stake, spare, strict=True):
        if measured:
            margin = (MEASURED_POINTS if witnessed else UNCHECKED_POINTS) * length + wide_ns
            other = process.estimated if witnessed else part
            low, high = min(part, other) - margin, max(part, other) + margin
        else:
            margin = ESTIMATE_POINTS * length + wide_ns
            low = part - doubt - (sum(spare) - more) - margin
            high = part + more + total - doubt + margin
            if process.witnessed:
                high = min(high, max(process.outstanding, part) + wide_ns)
        if process.witnessed and not process.outstanding and not process.measured_cover:
            low, high = 0.0, wide_ns
        bounds.append(Interval(max(0.0, low), min(float(length), high)))
    return bounds
