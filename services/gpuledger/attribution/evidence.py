"""Who kept a device busy in a piece, and how that is known.

The occupied share A of a device whose time is shared (CHARGING.md, A): engine active; else the estimate
from outstanding work where every context is witnessed; else GPU_UTIL, flagged. Of a device whose SM-time is
shared: SM active where the agent declares it, else the stated percentages times outstanding time.

Each consumer's part of A, from the best evidence that there is:

`process_measured`: NVML's per-process utilisation. Real drivers sample it unevenly and now and then leave
out a busy process, so it is taken for a whole piece or not at all. It is plausible when every process that
had work outstanding for more than 5 % of the piece has samples that cover at least 80 % of it; when no
witnessed process was measured busier than it had work outstanding, give or take 5 % of the piece; and when
the sum agrees with A within 10 % of the piece. It steps back behind an estimate that is not in doubt where
the samples scatter more than the estimate can be wrong by, and their scatter explains the difference. It is
contradicted by the kernel's view where a process was measured 2 % of the piece below the time in which it
alone had work outstanding, and its end was seen: NVML missed a burst then, since a sample may speak for a
sixth of the second between two. Where A itself is the estimate, the parts are too, so that the difference of
two views does not become time that nobody explains; unless the estimate is doubtful for more than 5 % of the
piece (then the sum must be at most 110 %).
`busy_estimated`: processor sharing over outstanding work. Where engine active is known and the ends of
somebody's work were mostly not seen, those whose ends were seen keep their outstanding time as far as it
fits, and the others share what is left (estimator E5n of the emulator study, without learned durations).
`equal_active`: what is left of A where contexts are not witnessed goes to their processes in equal parts.
`equal_slots`: without any known process, to the holders by entitlement.

The confidence interval is a rule, not yet a calibration: see ``_interval``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.formula import largest_remainder
from gpuledger.attribution.pieces import Piece
from gpuledger.contract.rows import EVIDENCE_ORDER, Flag

NOTICEABLE = 0.05  # of a piece; less outstanding or measured work decides nothing (CHARGING.md: 5 %)
MEASURED_COVERAGE = 0.8  # of a piece; NVML samples about once a second and the ends may be missing
MEASURED_TOLERANCE = 0.10  # of a piece; what sampling at 1 Hz over 10 s may be wrong by
SCALING_NOTICED = 0.01  # of a piece; below it scaling down is the rounding of two clocks
MOSTLY = 0.5  # of a process's outstanding time; above it counts as unwitnessed (emulator study, E5n)
SCATTER_POINTS = 0.01  # of a piece; with a larger standard error the samples say less than the estimate
SCATTER_ERRORS = 2  # standard errors: within them the difference is chance
CERTAIN = 0.05  # of outstanding time in doubt; with less, processor sharing applies
ESTIMATE_POINTS = 0.02  # of a piece; processor sharing was within 1.3 points where it applies
MEASURED_POINTS = 0.01  # of a piece; resolution of NVML's percent
UNCHECKED_POINTS = 0.05  # of a piece; measured values that nothing else confirms


NO_FLAGS = Flag(0)


@dataclass(slots=True)
class ProcessView:
    """What is known of one process on one device in one piece; ns of the piece."""

    consumer: ConsumerKey
    container: str
    witnessed: bool = True  # its calls are seen
    estimated: float = 0.0
    outstanding: float = 0.0
    alone: float = 0.0
    end_unseen: float = 0.0
    brief: float = 0.0
    measured: float = 0.0
    measured_cover: float = 0.0
    measured_squares: float = 0.0
    measured_count: int = 0
    percentage: float = 100.0

    @property
    def mostly_unseen(self) -> bool:
        """Whether the ends of most of its work were not seen."""
        return self.end_unseen > MOSTLY * self.outstanding

    @property
    def measured_error(self) -> float:
        """Standard error of ``measured`` in ns, from how much its samples scatter."""
        if self.measured_count < 2:
            return 0.0
        scatter = self.measured_squares * self.measured_cover - self.measured**2
        return math.sqrt(max(0.0, scatter) / self.measured_count)

    @property
    def doubtful(self) -> float:
        """The part of its outstanding time (0..1) that processor sharing may be wrong about."""
        return min(1.0, max(self.end_unseen, self.brief) / self.outstanding) if self.outstanding else 0.0


class DeviceView(NamedTuple):
    """What the silicon says of a device in one piece: ratios 0..1, None where missing. ``engine_long``
    comes from samples that are longer than the window."""

    engine_active: float | None = None
    engine_long: float | None = None
    gpu_utilization: float | None = None
    sm_active: float | None = None


@dataclass(slots=True)
class Share:
    """A consumer's part of a piece. ``busy_ns`` is before it was cut to A; ``low_ns`` and ``high_ns``
    bound ``used_ns``; ``containers`` weighs how the consumer's containers share it."""

    used_ns: int
    busy_ns: int
    low_ns: int
    high_ns: int
    evidence: str
    flags: Flag = NO_FLAGS
    containers: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Occupation:
    """A piece explained. ``occupied_ns`` None: A is missing. The shares sum to at most it."""

    occupied_ns: int | None
    evidence: str
    shares: dict[ConsumerKey, Share]
    flags: Flag = NO_FLAGS


def weakest(evidences: Iterable[str]) -> str:
    """The weakest of several evidences."""
    return max(evidences, key=EVIDENCE_ORDER.index, default="none")


def explain(piece: Piece, device: DeviceView, processes: list[ProcessView]) -> Occupation:
    """A and the consumers' parts of it for a piece. ``processes`` come in the order of their keys."""
    length = piece.length_ns
    witnessed = not piece.unwitnessed and all(process.witnessed for process in processes)
    if piece.slot.by_sm_time:
        occupied, source, flags = _occupied_by_sm(piece, device, processes)
    else:
        occupied, source, flags = _occupied_by_time(length, device, processes, witnessed)
    if occupied is None:
        return Occupation(None, "none", {}, flags)
    wide = 0.0
    if device.engine_long is not None and source == "busy_estimated":
        wide = abs(device.engine_long * length - occupied)
    if occupied > length or occupied < 0:
        flags |= Flag.OCCUPIED_CLAMPED
        occupied = min(max(occupied, 0.0), float(length))
    busy, evidence = _busy(piece, occupied, source, processes, witnessed)
    measured = evidence == "process_measured"
    intervals = _interval(length, processes, busy, measured, witnessed, wide)
    return _whole(piece, occupied, source, flags, processes, busy, evidence, intervals)


def _occupied_by_time(
    length: int, device: DeviceView, processes: list[ProcessView], witnessed: bool
) -> tuple[float | None, str, Flag]:
    outstanding = sum(process.outstanding for process in processes)
    estimated = sum(process.estimated for process in processes)
    noticeable = (device.gpu_utilization or 0.0) > NOTICEABLE or outstanding > NOTICEABLE * length
    engine = device.engine_active
    if engine == 0.0 and noticeable:
        engine = None
    if engine is not None:
        return engine * length, "device_total", Flag(0)
    if witnessed:
        flags = Flag(0)
        if device.gpu_utilization is not None and estimated < (device.gpu_utilization - 0.5) * length:
            flags |= Flag.SIGNALS_DISAGREE
        return estimated, "busy_estimated", flags
    if device.engine_long is not None:
        return device.engine_long * length, "device_total", Flag.SAMPLE_SPREAD
    if device.gpu_utilization is not None:
        return device.gpu_utilization * length, "device_total", Flag.GPU_UTILIZATION_USED
    return None, "none", Flag(0)


def _occupied_by_sm(
    piece: Piece, device: DeviceView, processes: list[ProcessView]
) -> tuple[float | None, str, Flag]:
    if piece.slot.sm_active_declared:
        if device.sm_active is None:
            return None, "none", Flag(0)
        return device.sm_active * piece.length_ns, "device_total", Flag(0)
    occupied = sum(process.percentage / 100 * process.outstanding for process in processes)
    return min(occupied, float(piece.length_ns)), "busy_estimated", Flag(0)


def _busy(
    piece: Piece, occupied: float, source: str, processes: list[ProcessView], witnessed: bool
) -> tuple[list[float], str]:
    """Busy ns of each process, not yet cut to A, and the evidence for it."""
    length = piece.length_ns
    if piece.slot.by_sm_time:
        return [process.percentage / 100 * process.outstanding for process in processes], "busy_estimated"
    doubt = sum(process.estimated * process.doubtful for process in processes)
    wanted = source == "device_total" or doubt > NOTICEABLE * length
    if wanted and plausible(length, occupied if source == "device_total" else None, processes):
        return [process.measured for process in processes], "process_measured"
    busy = [process.estimated for process in processes]
    if source == "device_total":
        seen = sum(process.outstanding for process in processes if not process.mostly_unseen)
        unseen = [process.estimated if process.mostly_unseen else 0.0 for process in processes]
        if sum(unseen) > 0 and seen <= occupied:
            left = (occupied - seen) / sum(unseen)
            busy = [
                min(process.outstanding, part * left) if process.mostly_unseen else process.outstanding
                for process, part in zip(processes, unseen, strict=True)
            ]
    return busy, "busy_estimated"


def plausible(length: int, engine_ns: float | None, processes: list[ProcessView]) -> bool:
    """Whether the measured values of a piece may be used (see the module)."""
    total = sum(process.measured for process in processes)
    if not any(process.measured_cover > 0 for process in processes):
        return False
    for process in processes:
        if process.outstanding > NOTICEABLE * length and process.measured_cover < MEASURED_COVERAGE * length:
            return False
        if process.witnessed and process.measured > process.outstanding + NOTICEABLE * length:
            return False
        surely = 0.0 if process.mostly_unseen else process.alone
        if process.measured < surely - ESTIMATE_POINTS * length:
            return False
    if _is_chance(length, engine_ns, processes):
        return False
    if engine_ns is None:
        return total <= (1 + MEASURED_TOLERANCE) * length
    return abs(total - engine_ns) <= MEASURED_TOLERANCE * length


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
        <= max(SCATTER_ERRORS * process.measured_error, ESTIMATE_POINTS * length)
        for process in active
    )


def _interval(
    length: int,
    processes: list[ProcessView],
    busy: list[float],
    measured: bool,
    witnessed: bool,
    wide: float,
) -> list[tuple[float, float]]:
    """Bounds of each process's busy ns.

    Measured: from the lesser to the greater of both views, and a point; without the kernel's view, five
    points. Estimated: two points, and the part of the estimate that rests on work whose end was not seen
    or that was shorter than a time slice may be wrong altogether: downwards for the process itself,
    upwards for the others as far as they had work outstanding. ``wide`` is a disagreement with a slow sample.
    """
    bounds = []
    at_stake = [part * process.doubtful for process, part in zip(processes, busy, strict=True)]
    for index, (process, part) in enumerate(zip(processes, busy, strict=True)):
        if measured:
            margin = (MEASURED_POINTS if witnessed else UNCHECKED_POINTS) * length + wide
            other = process.estimated if witnessed else part
            low, high = min(part, other) - margin, max(part, other) + margin
        else:
            margin = ESTIMATE_POINTS * length + wide
            low = part - at_stake[index] - margin
            high = part + sum(at_stake) - at_stake[index] + margin
            if process.witnessed:
                high = min(high, max(process.outstanding, part) + wide)
        if process.witnessed and not process.outstanding and not process.measured_cover:
            low, high = 0.0, wide
        bounds.append((max(0.0, low), min(float(length), high)))
    return bounds


def _whole(
    piece: Piece,
    occupied: float,
    source: str,
    flags: Flag,
    processes: list[ProcessView],
    busy: list[float],
    evidence: str,
    intervals: list[tuple[float, float]],
) -> Occupation:
    """Whole ns: A and a_i rounded once, then cut down to A, then what is left given to the unwitnessed."""
    length = piece.length_ns
    occupied_ns = min(length, round(occupied))
    shares: dict[ConsumerKey, Share] = {}
    for process, part, (low, high) in zip(processes, busy, intervals, strict=True):
        share = shares.setdefault(process.consumer, Share(0, 0, 0, 0, evidence))
        whole = round(part)
        share.busy_ns += whole
        share.used_ns += whole
        share.low_ns += round(low)
        share.high_ns += round(high)
        share.containers[process.container] = share.containers.get(process.container, 0) + whole
        if process.mostly_unseen:
            share.flags |= Flag.UNWITNESSED
    keys = sorted(shares)
    total = sum(shares[key].used_ns for key in keys)
    if total > occupied_ns:
        cut = largest_remainder(occupied_ns, [shares[key].used_ns for key in keys], total)
        noticed = total - occupied_ns > SCALING_NOTICED * length and source != "busy_estimated"
        for key, part in zip(keys, cut, strict=True):
            shares[key].used_ns = part
            if noticed:
                shares[key].flags |= Flag.SCALED_DOWN
    left = occupied_ns - sum(shares[key].used_ns for key in keys)
    if left and (piece.unwitnessed or any(not process.witnessed for process in processes)):
        _give_rest(piece, left, processes, shares)
    for share in shares.values():
        share.low_ns = min(share.low_ns, share.used_ns)
        share.high_ns = max(min(share.high_ns, length), share.used_ns)
    return Occupation(occupied_ns, source, shares, flags)


def _give_rest(
    piece: Piece, left: int, processes: list[ProcessView], shares: dict[ConsumerKey, Share]
) -> None:
    """What A shows and no witnessed process explains, where contexts are not witnessed: to their processes
    in equal parts; where none is known and nothing else is, to the holders by entitlement."""
    weights: Mapping[ConsumerKey, int]
    unseen = [process for process in processes if not process.witnessed]
    if unseen:
        counted: dict[ConsumerKey, int] = {}
        for process in unseen:
            counted[process.consumer] = counted.get(process.consumer, 0) + 1
        weights, evidence = counted, "equal_active"
    elif not any(share.used_ns for share in shares.values()):
        weights = {entitlement.consumer: entitlement.weight for entitlement in piece.holding.entitlements}
        evidence = "equal_slots"
    else:
        return
    keys = sorted(key for key in weights if weights[key])
    if not keys:
        return
    parts = largest_remainder(left, [weights[key] for key in keys], sum(weights[key] for key in keys))
    for key, part in zip(keys, parts, strict=True):
        share = shares.setdefault(key, Share(0, 0, 0, 0, evidence))
        share.used_ns += part
        share.busy_ns += part
        share.low_ns = 0
        share.high_ns = piece.length_ns
        share.evidence = weakest((share.evidence, evidence))
    for process in unseen:
        containers = shares[process.consumer].containers
        containers[process.container] = max(containers.get(process.container, 0), 1)
