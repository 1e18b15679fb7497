"""Pieces: the stretches of a device's window in which nothing changes that decides who pays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from gpuledger.attribution.consumers import POD, ConsumerKey
from gpuledger.attribution.devices import Slot, gpu_count, slots_of
from gpuledger.attribution.mig import FREE
from gpuledger.attribution.timeline import Span
from gpuledger.contract.records import Holder, Holdings
from gpuledger.pricing import PriceBook

KEPT_BY_CPU_PODS = "kept_by_cpu_pods"
KEEPING_PHASES = frozenset({"Pending", "Running"})
RELEASED_PHASES = frozenset({"Succeeded", "Failed"})  # a pod in any other phase holds its devices


class Entitlement(NamedTuple):
    """A holder of a device: its part is ``weight`` of the holding's denominator. ``containers`` are
    (container, slots) in order of name, ``percentages`` (container, part of the SMs in percent) of those for
    which one is stated: the MPS thread percentage, or the core fraction."""

    consumer: ConsumerKey
    weight: int
    containers: tuple[tuple[str, int], ...]
    percentages: tuple[tuple[str, float], ...] = ()

    def percentage_of(self, container: str) -> float:
        """Part of the SMs that a process in a container may use, 0..100; where the container is not known,
        the most that the holder has."""
        stated = dict(self.percentages)
        if len(stated) < len(self.containers):
            return stated.get(container, 100.0)
        return stated.get(container, max(stated.values(), default=100.0))

    @property
    def limit(self) -> float:
        """The most of the SMs that all of its processes may use, 0..1, where the percentages are limits."""
        if len(self.percentages) < len(self.containers):
            return 1.0
        return min(1.0, sum(percentage for _, percentage in self.percentages) / 100)


class Holding(NamedTuple):
    """Who holds a device. ``denominator`` is at least the sum of the weights; the rest is nobody's, for the
    reason ``free_reason``."""

    entitlements: tuple[Entitlement, ...] = ()
    denominator: int = 1
    overbooked: bool = False
    known: bool = True
    free_reason: str = FREE

    @property
    def free_weight(self) -> int:
        """What nobody holds, of the denominator."""
        return self.denominator - sum(entitlement.weight for entitlement in self.entitlements)


@dataclass(frozen=True, slots=True)
class Piece:
    """[start_ns, end_ns) of a device: where it is, who holds it. ``gap`` is the reason why nothing was
    observed, empty where it was; ``unsampled`` that no sample covers it though the device is sampled.
    ``unwitnessed``: in some of it there was a context whose calls are not seen; it does not cut pieces."""

    start_ns: int
    end_ns: int
    slot: Slot
    holding: Holding
    gap: str = ""
    unsampled: bool = False
    unwitnessed: bool = field(default=False, compare=False)

    @property
    def length_ns(self) -> int:
        """Wall time of the piece."""
        return self.end_ns - self.start_ns

    def continues(self, other: Piece) -> bool:
        """Whether ``other`` begins where this ends and differs in nothing else."""
        return (
            self.end_ns == other.start_ns
            and self.gap == other.gap
            and self.unsampled == other.unsampled
            and self.slot == other.slot
            and self.holding == other.holding
        )


class DeviceKey(NamedTuple):
    """Which device of the node's layout: several missing GPUs share a name, and so do a partitioned GPU's
    free and stranded units."""

    uuid: str
    position: int
    reason: str


class DevicePieces(NamedTuple):
    """The pieces of one device over a window, equal neighbours merged, and the GPU-level facts of it."""

    key: DeviceKey
    pieces: list[Piece]


def pieces_of(
    spans: Sequence[Span], cluster: str, book: PriceBook, has_events: bool, mig: str = "slices"
) -> list[DevicePieces]:
    """Every device of the window with its pieces, in order of key. A span without a layout has none.

    ``has_events``: whether the kernel's view is there at all, for states that do not say it by device.
    """
    found: dict[DeviceKey, list[Piece]] = {}
    for span in spans:
        if span.layout is None:
            continue
        count = gpu_count(span.layout, cluster, book, span.start_ns, span.end_ns)
        for slot in slots_of(span.layout, cluster, count, mig):
            piece = _piece(span, slot, has_events)
            pieces = found.setdefault(DeviceKey(slot.uuid, slot.priced.position, slot.reason), [])
            if pieces and pieces[-1].continues(piece):
                pieces[-1] = replace(
                    pieces[-1],
                    end_ns=piece.end_ns,
                    unwitnessed=pieces[-1].unwitnessed or piece.unwitnessed,
                )
            else:
                pieces.append(piece)
    return [DevicePieces(key, found[key]) for key in sorted(found)]


def _piece(span: Span, slot: Slot, has_events: bool) -> Piece:
    state = span.state
    if state is None or slot.index < 0:
        return Piece(span.start_ns, span.end_ns, slot, Holding(), gap=span.gap)
    unwitnessed = not has_events
    if len(state.unwitnessed) > slot.index:
        unwitnessed = int(state.unwitnessed[slot.index]) > 0
    return Piece(span.start_ns, span.end_ns, slot, holding_of(state, slot), unwitnessed=unwitnessed)


def holding_of(state: Holdings, slot: Slot) -> Holding:
    """Who holds a device in a state (CHARGING.md, Entitlements).

    k of K slots are k/K, a stated share counts as stated, and what sums above 1 is divided by its sum. On
    an exclusive device that is a claim shared in equal parts; elsewhere it is overbooked.
    """
    if not state.holders_known:
        return Holding(known=False)
    phases = {pod.uid: pod.phase for pod in state.pods}
    parts: dict[ConsumerKey, Fraction] = {}
    containers: dict[ConsumerKey, dict[str, int]] = {}
    percentages: dict[ConsumerKey, dict[str, float]] = {}
    for holder in state.holders:
        if holder.device != slot.index:
            continue
        if holder.consumer_kind == POD and phases.get(holder.consumer) in RELEASED_PHASES:
            continue
        key = ConsumerKey(holder.consumer_kind or POD, holder.consumer)
        part = stated_part(holder, slot)
        if slot.sharing == "exclusive":
            parts[key] = max(parts.get(key, Fraction(0)), min(part, Fraction(1)))
        else:
            parts[key] = parts.get(key, Fraction(0)) + part
        given = containers.setdefault(key, {})
        given[holder.container] = given.get(holder.container, 0) + max(holder.slots, 1)
        percentage = stated_percentage(holder, slot)
        if percentage is not None:
            percentages.setdefault(key, {})[holder.container] = percentage
    entitlements = [
        Entitlement(
            key,
            0,
            tuple(sorted(containers[key].items())),
            tuple(sorted(percentages.get(key, {}).items())),
        )
        for key in sorted(parts)
    ]
    holding = entitled(entitlements, parts, exclusive=slot.sharing == "exclusive")
    return holding._replace(free_reason=KEPT_BY_CPU_PODS) if kept_by_cpu_pods(state) else holding


def kept_by_cpu_pods(state: Holdings) -> bool:
    """Whether nobody holds or uses a GPU of the node, and pods without GPUs keep it alive (karpenter#8447). A
    DaemonSet's pods keep no node alive."""
    if state.holders:
        return False
    users = {process.consumer for process in state.processes}
    return any(
        pod.phase in KEEPING_PHASES and pod.workload_kind != "DaemonSet" and pod.uid not in users
        for pod in state.pods
    )


def entitled(
    entitlements: Iterable[Entitlement], parts: Mapping[ConsumerKey, Fraction], exclusive: bool
) -> Holding:
    """The holding in which each holder has its part; what sums above 1 is divided by its sum."""
    whole = sum(parts.values(), Fraction(0))
    if whole > 1:
        parts = {key: part / whole for key, part in parts.items()}
    denominator = lcm(1, *(part.denominator for part in parts.values()))
    found = tuple(item._replace(weight=int(parts[item.consumer] * denominator)) for item in entitlements)
    return Holding(found, denominator, overbooked=whole > 1 and not exclusive)


def stated_part(holder: Holder, slot: Slot) -> Fraction:
    """What a holder is entitled to of a device: its stated share, else its memory limit's part of a device
    that is given out in fractions, else its slots'."""
    if holder.share_denominator > 0:
        return Fraction(holder.share_numerator, holder.share_denominator)
    limit = holder.memory_limit_bytes
    if slot.sharing == "fractional" and limit is not None and slot.memory_total_bytes > 0:
        return Fraction(min(max(limit, 0), slot.memory_total_bytes), slot.memory_total_bytes)
    return Fraction(holder.slots, slot.replicas)


def stated_percentage(holder: Holder, slot: Slot) -> float | None:
    """Part of the SMs that a holder's processes may use, in percent, where one is stated. A stated share of
    a device that is given out in fractions is a limit on its cores; one of memory is none."""
    if holder.mps_percentage is not None:
        return holder.mps_percentage
    if slot.sharing == "fractional" and holder.share_denominator > 0:
        return min(100.0, 100 * holder.share_numerator / holder.share_denominator)
    return None


def with_memory(piece: Piece, resident: Mapping[ConsumerKey, Fraction]) -> Piece:
    """Policy max(slots,memory): each holder is entitled to at least its part of the device's memory.
    ``resident`` is that part, 0..1, as the mean over the piece."""
    denominator = piece.holding.denominator
    parts = {
        item.consumer: max(Fraction(item.weight, denominator), resident.get(item.consumer, Fraction(0)))
        for item in piece.holding.entitlements
    }
    holding = entitled(piece.holding.entitlements, parts, exclusive=piece.slot.sharing == "exclusive")
    overbooked = holding.overbooked or piece.holding.overbooked
    reason = piece.holding.free_reason
    return replace(piece, holding=holding._replace(overbooked=overbooked, free_reason=reason))


def cut_unsampled(pieces: Sequence[Piece], holes: Iterable[tuple[int, int]]) -> list[Piece]:
    """The pieces with the time that no sample covers cut out as pieces of its own."""
    result = list(pieces)
    for low, high in holes:
        divided: list[Piece] = []
        for piece in result:
            start, end = max(piece.start_ns, low), min(piece.end_ns, high)
            if piece.gap or start >= end:
                divided.append(piece)
                continue
            parts = ((piece.start_ns, start, False), (start, end, True), (end, piece.end_ns, False))
            divided += [
                replace(piece, start_ns=a, end_ns=b, unsampled=hole or piece.unsampled)
                for a, b, hole in parts
                if a < b
            ]
        result = divided
    return result
