"""Pieces: the stretches of a device's window in which nothing changes that decides who pays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.devices import Slot, gpu_count, slots_of
from gpuledger.attribution.holding import Held, Holding, entitled, held_in, holding_of
from gpuledger.attribution.timeline import Span
from gpuledger.pricing import PriceBook


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


def is_open(piece: Piece) -> bool:
    """Whether consumers can have used the device in this piece and it was observed."""
    return not piece.gap and not piece.slot.lost and piece.slot.whole_or_instance


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
        held = Held(None) if span.state is None else held_in(span.state)
        for slot in slots_of(span.layout, cluster, count, mig):
            piece = _piece(span, slot, held, has_events)
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


def _piece(span: Span, slot: Slot, held: Held, has_events: bool) -> Piece:
    state = span.state
    if state is None or slot.index < 0:
        return Piece(span.start_ns, span.end_ns, slot, Holding(), gap=span.gap)
    unwitnessed = not has_events
    if len(state.unwitnessed) > slot.index:
        unwitnessed = int(state.unwitnessed[slot.index]) > 0
    return Piece(span.start_ns, span.end_ns, slot, holding_of(held, slot), unwitnessed=unwitnessed)


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
