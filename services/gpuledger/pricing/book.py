"""The price book of one configuration version: which entry applies to a device at each instant."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from gpuledger.contract.money import NANO_PER_UNIT, cum, unit_share
from gpuledger.contract.records import Device, PriceBookVersion, PriceEntry
from gpuledger.pricing.currencies import unit_price_segments
from gpuledger.pricing.devices import MATCH_FIELDS, NON_GPU, PricedDevice
from gpuledger.pricing.timeline import PricePiece, Timeline

MAX_KEPT_PIECES = 250_000  # about 40 MB; a spot series by the hour has 9,000 pieces a year


@dataclass(frozen=True, slots=True)
class Cost:
    """What a device costs over an interval."""

    nano: int
    unpriced_ns: int  # wall time without a price
    unpriced_gpu_ns: int  # the device's GPU time in it
    entry_ids: tuple[str, ...]  # in order of time, each once
    provisional: bool = False  # some of it is the last known price of a series, to be restated

    @property
    def priced(self) -> bool:
        """Whether any of the interval has a price."""
        return bool(self.entry_ids)


def entry_match(entry: PriceEntry) -> tuple[str, ...]:
    """The entry's match in the order of MATCH_FIELDS."""
    return tuple(getattr(entry, name) for name in MATCH_FIELDS)


def precedence(entry: PriceEntry) -> tuple[int, int]:
    """What decides between entries that apply at once: the greater (priority, matched attributes) wins.

    Two entries of equal precedence that could apply to one device at one instant are refused by
    ``check_book``; in a book that was never checked the lesser id wins, so that the result is defined.
    """
    return entry.priority, sum(1 for text in entry_match(entry) if text)


class PriceBook:
    """The prices of one version. Pure: the timelines of the kinds of devices that were asked for last are
    kept, up to ``max_kept_pieces`` in all; nothing else changes."""

    def __init__(self, version: PriceBookVersion, max_kept_pieces: int = MAX_KEPT_PIECES) -> None:
        self.version = version.version
        self.active_from_ns = version.active_from_ns
        self.currency = version.currency
        self.entries = tuple(version.entries)
        self.knows_profiles = any(entry.mig_profile for entry in version.entries)
        self._segments = [
            (entry, unit_price_segments(entry, version.currency, version.rates))
            for entry in sorted(version.entries, key=in_order)
        ]
        self._timelines: dict[tuple[str, ...], Timeline] = {}  # the one that was built first comes first
        self._kept_pieces = 0
        self._max_kept_pieces = max_kept_pieces

    @staticmethod
    def empty() -> PriceBook:
        """The book of a cluster without prices: all time is unpriced."""
        return PriceBook(PriceBookVersion(version=1, active_from_ns=0))._numbered(0)

    def _numbered(self, version: int) -> PriceBook:
        self.version = version
        return self

    def pieces(self, device: PricedDevice | Device, start_ns: int, end_ns: int) -> list[PricePiece]:
        """[start_ns, end_ns) cut where the unit price of ``device`` changes; without gaps, in order."""
        return self._within(_priced(device), start_ns, end_ns)

    def entry(self, device: PricedDevice | Device, at_ns: int) -> PriceEntry | None:
        """The entry that applies at an instant."""
        found = self.pieces(device, at_ns, at_ns + 1)
        return found[0].entry if found else None

    def kind(self, device: PricedDevice, start_ns: int, end_ns: int) -> Hashable:
        """What devices that cost the same over an interval have in common, as far as it is known without
        computing it: of a price by GPU all but the GPU's position."""
        pieces = self._within(device, start_ns, end_ns)
        if device.position == NON_GPU or any(one.entry and one.entry.per != "gpu" for one in pieces):
            return device
        return device.match_key, device.units, device.units_total

    def cost_nano(self, device: PricedDevice | Device, start_ns: int, end_ns: int) -> int:
        """Cost of [start_ns, end_ns) in nano of the book's currency; time without a price costs 0."""
        return self.cost(device, start_ns, end_ns).nano

    def cost(self, device: PricedDevice | Device, start_ns: int, end_ns: int) -> Cost:
        """Cost of [start_ns, end_ns), with what of it has no price."""
        priced = _priced(device)
        nano = unpriced = unpriced_gpu = 0
        provisional = False
        ids: list[str] = []
        for piece in self._within(priced, start_ns, end_ns):
            if piece.entry is None:
                unpriced += piece.end_ns - piece.start_ns
                unpriced_gpu += priced.gpu_ns(piece.start_ns, piece.end_ns)
                continue
            nano += device_cum(piece, priced, piece.end_ns) - device_cum(piece, priced, piece.start_ns)
            provisional = provisional or piece.entry.provisional
            if piece.entry.id not in ids:
                ids.append(piece.entry.id)
        return Cost(nano, unpriced, unpriced_gpu, tuple(ids), provisional)

    def node_cost_nano(self, device: PricedDevice, start_ns: int, end_ns: int) -> int:
        """Whole cost of a node whose GPUs are all like ``device``: the other side of the law.

        Per GPU: gpu_count times the price; per node: the price. Computed without any split.
        """
        total = 0
        for piece in self.pieces(device, start_ns, end_ns):
            if piece.entry is not None:
                whole = cum(piece.unit_price_nano_per_hour, piece.end_ns)
                whole -= cum(piece.unit_price_nano_per_hour, piece.start_ns)
                total += whole * (device.gpu_count if piece.entry.per == "gpu" else 1)
        return total

    def gpus_per_node(self, device: PricedDevice, start_ns: int, end_ns: int) -> int:
        """The most GPUs that a node price of the interval says the node has; 0 where none says."""
        return max(
            (
                piece.entry.gpus_per_node
                for piece in self.pieces(device, start_ns, end_ns)
                if piece.entry is not None and piece.entry.per == "node"
            ),
            default=0,
        )

    def _within(self, device: PricedDevice, start_ns: int, end_ns: int) -> list[PricePiece]:
        key = device.match_key
        found = self._timelines.get(key)
        if found is None:
            found = self._build(key)
            self._keep(key, found)
        return found.within(start_ns, end_ns)

    def _build(self, key: tuple[str, ...]) -> Timeline:
        return Timeline.of(
            (entry, segments)
            for entry, segments in self._segments
            if all(
                not wanted or wanted == value for wanted, value in zip(entry_match(entry), key, strict=True)
            )
        )

    def _keep(self, key: tuple[str, ...], timeline: Timeline) -> None:
        """Keep a timeline; those that were built first make room."""
        while self._timelines and self._kept_pieces + len(timeline.pieces) > self._max_kept_pieces:
            oldest = next(iter(self._timelines))
            self._kept_pieces -= len(self._timelines.pop(oldest).pieces)
        self._timelines[key] = timeline
        self._kept_pieces += len(timeline.pieces)


def device_cum(piece: PricePiece, device: PricedDevice, t_ns: int) -> int:
    """cum(t) of a device at the unit price of ``piece``: price, then the GPUs' share of the node, then the
    GPU of the node, then the units of the GPU; nested, each monotone (CHARGING.md, Splits)."""
    entry = piece.entry
    if entry is None:
        return 0
    whole = cum(piece.unit_price_nano_per_hour, t_ns)
    if entry.per == "gpu":
        return 0 if device.position == NON_GPU else device.share(whole)
    gpus = whole * entry.gpu_share_ppb // NANO_PER_UNIT
    if device.position == NON_GPU:
        return whole - gpus if device.gpu_count else whole  # a node without any GPU still costs its price
    return device.share(unit_share(gpus, device.position, device.gpu_count))


def _priced(device: PricedDevice | Device) -> PricedDevice:
    return device if isinstance(device, PricedDevice) else PricedDevice.of(device)


def in_order(entry: PriceEntry) -> tuple[int, int, str, int]:
    """Entries in order of precedence, the first wins."""
    priority, attributes = precedence(entry)
    return -priority, -attributes, entry.id, entry.effective_from_ns
