"""Who kept a device busy in a piece, and how that is known.

A comes from occupied.py. Each consumer's part of it comes from the best evidence that there is:

`process_measured`: NVML's per-process utilisation, where it is plausible (measured.py). Where A itself is the
estimate, the parts are too, so that the difference of two views does not become time that nobody explains;
unless the estimate is doubtful for more than 5 % of the piece.
`busy_estimated`: processor sharing over outstanding work, learned durations, device total (estimated.py).
`equal_active`: what is left of A where contexts are not witnessed goes to their processes in equal parts.
`equal_slots`: without any known process, to the holders by entitlement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.estimated import estimate
from gpuledger.attribution.formula import largest_remainder
from gpuledger.attribution.interval import Doubts, Interval, intervals
from gpuledger.attribution.measured import above_the_device, plausible
from gpuledger.attribution.occupied import BY_DEVICE, BY_ESTIMATE, NO_FLAGS, occupied
from gpuledger.attribution.pieces import Piece
from gpuledger.attribution.seen import NOTICEABLE, DeviceView, ProcessView
from gpuledger.contract.rows import EVIDENCE_ORDER, Flag

REST_POINTS = 0.02  # of a piece; to which A is known, and so what is left of it
SCALING_NOTICED = 0.01  # of a piece; below it scaling down is the rounding of two clocks


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
    device_ns, source, flags = occupied(piece, device, processes, witnessed)
    if source == "none":
        return Occupation(None, source, {}, flags)
    hint = None
    if source == BY_ESTIMATE and not piece.slot.by_sm_time and device.gpu_utilization is not None:
        hint = device.gpu_utilization * length
    guess = estimate(length, processes, device_ns, hint)
    busy = _within_limits(piece, processes, guess.parts)
    busy = [float(round(part)) for part in busy]  # once: what they sum to is A where A is the estimate
    whole = sum(busy) if device_ns is None else device_ns
    wide = guess.wide_ns
    long = _of_long_samples(piece, device)
    if long is not None and source == BY_ESTIMATE:
        wide += abs(long * length - whole)
    if not 0 <= whole <= length:
        flags |= Flag.OCCUPIED_CLAMPED if source == BY_DEVICE else NO_FLAGS
        whole = min(max(whole, 0.0), float(length))
    if above_the_device(length, device_ns, processes):
        flags |= Flag.SIGNALS_DISAGREE
    doubt = sum(process.estimated * process.doubtful for process in processes)
    wanted = not piece.slot.by_sm_time and (source == BY_DEVICE or doubt > NOTICEABLE * length)
    measured = wanted and plausible(length, None if device_ns is None else whole, processes)
    doubts = Doubts(measured, witnessed, guess.divided, wide)
    bounds = intervals(length, processes, busy, doubts)
    if measured:
        busy = [process.measured for process in processes]
    evidence = "process_measured" if measured else BY_ESTIMATE
    found = _rounded(length, whole, processes, busy, evidence, bounds)
    occupation = Occupation(min(length, round(whole)), source, found, flags)
    _cut_to_occupied(length, occupation)
    left = (occupation.occupied_ns or 0) - sum(share.used_ns for share in found.values())
    if left and not witnessed:
        rough = bool(flags & (Flag.GPU_UTILIZATION_USED | Flag.SAMPLE_SPREAD))
        most = length if rough else left + round(REST_POINTS * length)
        _give_rest(piece, left, most, processes, found)
    for share in found.values():
        share.low_ns = min(share.low_ns, share.used_ns)
        share.high_ns = max(min(share.high_ns, length), share.used_ns)
    return occupation


def _of_long_samples(piece: Piece, device: DeviceView) -> float | None:
    """The occupied share that samples longer than the window say."""
    if not piece.slot.by_sm_time:
        return device.engine_long
    return device.sm_active if device.sm_long and piece.slot.sm_active_declared else None


def _within_limits(piece: Piece, processes: list[ProcessView], busy: list[float]) -> list[float]:
    """A core fraction is a limit of its holder as a whole, however many processes he has."""
    if piece.slot.sharing != "fractional":
        return busy
    limits = {item.consumer: item.limit * piece.length_ns for item in piece.holding.entitlements}
    sums: dict[ConsumerKey, float] = {}
    for process, part in zip(processes, busy, strict=True):
        sums[process.consumer] = sums.get(process.consumer, 0.0) + part
    scale = {key: min(1.0, limits.get(key, total) / total) for key, total in sums.items() if total > 0}
    return [part * scale.get(process.consumer, 1.0) for process, part in zip(processes, busy, strict=True)]


def _rounded(
    length: int,
    whole: float,
    processes: list[ProcessView],
    busy: list[float],
    evidence: str,
    bounds: list[Interval],
) -> dict[ConsumerKey, Share]:
    """The processes' parts in whole ns, by consumer."""
    shares: dict[ConsumerKey, Share] = {}
    for process, part, (low, high) in zip(processes, busy, bounds, strict=True):
        share = shares.setdefault(process.consumer, Share(0, 0, 0, 0, evidence))
        rounded = round(part)
        share.busy_ns += rounded
        share.used_ns += rounded
        share.low_ns += round(low)
        share.high_ns += round(high)
        share.containers[process.container] = share.containers.get(process.container, 0) + rounded
        if process.mostly_unseen:
            share.flags |= Flag.UNWITNESSED
    return shares


def _cut_to_occupied(length: int, found: Occupation) -> None:
    """What the parts sum to above A is taken off them in proportion."""
    occupied_ns, keys = found.occupied_ns or 0, sorted(found.shares)
    total = sum(found.shares[key].used_ns for key in keys)
    if total <= occupied_ns:
        return
    cut = largest_remainder(occupied_ns, [found.shares[key].used_ns for key in keys], total)
    noticed = total - occupied_ns > SCALING_NOTICED * length and found.evidence == BY_DEVICE
    for key, part in zip(keys, cut, strict=True):
        found.shares[key].low_ns = max(0, found.shares[key].low_ns - (found.shares[key].used_ns - part))
        found.shares[key].used_ns = part
        if noticed:
            found.shares[key].flags |= Flag.SCALED_DOWN


def _give_rest(
    piece: Piece, left: int, most: int, processes: list[ProcessView], shares: dict[ConsumerKey, Share]
) -> None:
    """What A shows and no witnessed process explains, where contexts are not witnessed: to their processes
    in equal parts; where none is known and nothing else is, to the holders by entitlement. ``most``: the most
    that it can be; any of them may have had all of it, or nothing."""
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
        share.high_ns += most
        share.evidence = weakest((share.evidence, evidence))
    for process in unseen:
        containers = shares[process.consumer].containers
        containers[process.container] = max(containers.get(process.container, 0), 1)
