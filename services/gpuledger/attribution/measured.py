"""Whether NVML's per-process utilisation may be believed.

Real drivers sample it unevenly and now and then leave out a busy process, so it is taken for a whole piece or
not at all. It is plausible when every process that had work outstanding for more than 5 % of the piece has
samples that cover at least 80 % of it; when no witnessed process was measured busier than it had work
outstanding, give or take 5 % of the piece; and when the sum agrees with A within 10 % of the piece. It steps
back behind an estimate that is not in doubt where the samples scatter more than the estimate can be wrong by,
and their scatter explains the difference; and behind one that the device's own total confirms to three
points, unless they are fifteen apart. It is contradicted by the kernel's view where a process was measured
2 % of the piece below the time in which it alone had work outstanding, and its end was seen: NVML missed a
burst then, since a sample may speak for a sixth of the second between two.
"""

from __future__ import annotations

from gpuledger.attribution.seen import NOTICEABLE, ProcessView

MEASURED_COVERAGE = 0.8  # of a piece; NVML samples about once a second and the ends may be missing
MEASURED_TOLERANCE = 0.10  # of a piece; what sampling at 1 Hz over 10 s may be wrong by
MISSED_POINTS = 0.02  # of a piece; processor sharing was within 1.3 points where it applies
SCATTER_POINTS = 0.01  # of a piece; with a larger standard error the samples say less than the estimate
SCATTER_ERRORS = 2  # standard errors: within them the difference is chance
CONFIRMED_POINTS = 0.03  # of a piece; so near to the device's total the calls explain it
FAR_POINTS = (
    0.15  # of a piece; sampling alone was up to 11 points wrong, beyond it the calls missed something
)
CERTAIN = 0.05  # of outstanding time in doubt; with less, processor sharing applies


def plausible(length: int, engine_ns: float | None, processes: list[ProcessView]) -> bool:
    """Whether the measured values of a piece may be used (see the module). Without ``engine_ns`` their sum
    must be at most 110 % of the piece."""
    if not any(process.measured_cover > 0 for process in processes):
        return False
    for process in processes:
        if process.outstanding > NOTICEABLE * length and process.measured_cover < MEASURED_COVERAGE * length:
            return False
        if process.witnessed and process.measured > process.outstanding + NOTICEABLE * length:
            return False
        surely = 0.0 if process.mostly_unseen else process.alone
        if process.measured < surely - MISSED_POINTS * length:
            return False
    if _is_chance(length, engine_ns, processes) or _is_confirmed(length, engine_ns, processes):
        return False
    total = sum(process.measured for process in processes)
    if engine_ns is None:
        return total <= (1 + MEASURED_TOLERANCE) * length
    return abs(total - engine_ns) <= MEASURED_TOLERANCE * length


def above_the_device(length: int, engine_ns: float | None, processes: list[ProcessView]) -> bool:
    """Whether the per-process values sum to more than the device was busy, beyond what sampling explains:
    four sliced pods at 99 % each (dcgm-exporter#151, #587)."""
    total = sum(process.measured for process in processes)
    most = length if engine_ns is None else min(engine_ns, length)
    return total > most + MEASURED_TOLERANCE * length


def _is_confirmed(length: int, engine_ns: float | None, processes: list[ProcessView]) -> bool:
    """Whether the estimate is not in doubt, the device's own total says the same, and no process was measured
    so differently that the calls must have missed something."""
    active = [process for process in processes if process.outstanding > 0 or process.measured > 0]
    if engine_ns is None:
        return False
    estimates = [process.demand if process.known else process.estimated for process in active]
    certain = all(
        process.witnessed
        and process.doubtful <= CERTAIN
        and abs(process.measured - estimate) <= FAR_POINTS * length
        for process, estimate in zip(active, estimates, strict=True)
    )
    return certain and abs(sum(estimates) - engine_ns) <= CONFIRMED_POINTS * length


def _is_chance(length: int, engine_ns: float | None, processes: list[ProcessView]) -> bool:
    """Whether the scatter of the samples explains what they say beyond an estimate that is not in doubt."""
    active = [process for process in processes if process.outstanding > 0 or process.measured > 0]
    if not any(process.measured_error > SCATTER_POINTS * length for process in active):
        return False
    estimated = sum(process.estimated for process in active)
    scale = min(1.0, engine_ns / estimated) if engine_ns is not None and estimated else 1.0
    return all(
        process.witnessed
        and process.doubtful <= CERTAIN
        and abs(process.measured - scale * process.estimated)
        <= max(SCATTER_ERRORS * process.measured_error, MISSED_POINTS * length)
        for process in active
    )
