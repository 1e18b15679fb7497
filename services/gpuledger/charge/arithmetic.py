"""How the lines of a bill come about: the core's own steps, equal ones counted, none rounded again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

from gpuledger.attribution import Charges, Policy
from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.containers import containers_of, divided
from gpuledger.attribution.evidence import Occupation
from gpuledger.attribution.formula import Category
from gpuledger.attribution.holding import Holding
from gpuledger.attribution.trace import Divided, Steps
from gpuledger.charge.bill import KEY, DeviceName, Place, place_of
from gpuledger.contract.rows import NODE_DEVICE
from gpuledger.pricing import NON_GPU, PricedDevice, Prices
from gpuledger.pricing.book import device_cum
from gpuledger.pricing.timeline import PricePiece


class Used(NamedTuple):
    """a_i of a consumer, with its bounds; ns of the piece."""

    consumer: ConsumerKey
    used_ns: int
    low_ns: int
    high_ns: int
    evidence: str


class Seen(NamedTuple):
    """What a piece's division follows from. ``occupied_ns`` None: A is missing; ``observed`` False: nobody
    was there to see."""

    length_ns: int
    sharing: str
    holding: Holding
    observed: bool
    occupied_ns: int | None
    evidence: str
    used: tuple[Used, ...]
    burst: str


class Part(NamedTuple):
    """What of a piece goes to a line: ``share`` of it is the consumer's, in whole ``nano`` and ``ns``; of
    these ``of_container`` is the container's, in whole ``own_nano`` and ``own_ns``."""

    place: Place
    consumer: ConsumerKey
    category: Category
    reason: str
    share: Fraction
    nano: int
    ns: int
    of_container: Fraction
    own_nano: int
    own_ns: int


class Step(NamedTuple):
    """A piece and its division. Pieces of which all of this is equal are counted, not repeated."""

    seen: Seen
    cost_nano: int
    time_ns: int
    unpriced_ns: int
    priced: bool
    parts: tuple[Part, ...]


@dataclass(slots=True)
class Counted:
    """How many pieces are such a step, and between which instants they lie."""

    step: Step
    count: int
    start_ns: int
    end_ns: int


class Priced(NamedTuple):
    """A stretch at one price; ``before`` and ``after`` are the device's cumulative cost at its ends, nano."""

    device: PricedDevice
    piece: PricePiece
    before: int
    after: int
    currency: str


@dataclass(slots=True)
class DeviceSteps:
    """The steps of a device, and the stretches over which it was paid for as the same."""

    counted: dict[Step, Counted] = field(default_factory=dict)
    spans: list[tuple[PricedDevice, int, int]] = field(default_factory=list)


class Arithmetic:
    """Collects the steps of all windows, given in order of time for each node."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._devices: dict[DeviceName, DeviceSteps] = {}

    def add(self, steps: Steps, charges: Charges, policy: Policy) -> None:
        """The steps of one window, its charges, and the policy that they follow."""
        record = charges.record
        places = {tuple(row[name] for name in KEY): place_of(record, row) for row in charges.rows()}
        for divided_piece in steps.pieces:
            name = record.cluster, record.node, divided_piece.device
            self._add(self._devices.setdefault(name, DeviceSteps()), divided_piece, places, policy)
        node = next((place for key, place in places.items() if key[0] == NODE_DEVICE), None)
        if node is not None and steps.pieces:
            priced = steps.pieces[0].piece.slot.priced
            rest = replace(priced, position=NON_GPU, mig_profile="", units=(), units_total=0)
            found = self._devices.setdefault((record.cluster, record.node, NODE_DEVICE), DeviceSteps())
            start_ns = record.window_start_ns
            _extend(found.spans, rest, start_ns, start_ns + record.window_length_ns)

    def device(self, name: DeviceName) -> list[Counted]:
        """The steps of a device, in order of time."""
        found = self._devices.get(name, DeviceSteps())
        return sorted(found.counted.values(), key=lambda one: (one.start_ns, one.end_ns))

    def prices(self, name: DeviceName) -> Iterator[Priced]:
        """The prices of a device, with its cumulative cost at the ends of each stretch: their differences
        sum to what all steps cost."""
        for device, start_ns, end_ns in self._devices.get(name, DeviceSteps()).spans:
            book = self._prices.at(start_ns)
            for piece in book.pieces(device, start_ns, end_ns):
                before, after = (device_cum(piece, device, at) for at in (piece.start_ns, piece.end_ns))
                yield Priced(device, piece, before, after, book.currency)

    def _add(
        self, found: DeviceSteps, one: Divided, places: dict[tuple[str, ...], Place], policy: Policy
    ) -> None:
        piece = one.piece
        step = Step(
            _seen(one, policy.burst),
            one.cost.nano,
            one.time_ns,
            one.cost.unpriced_ns,
            one.cost.priced,
            tuple(_parts(one, places)),
        )
        counted = found.counted.setdefault(step, Counted(step, 0, piece.start_ns, piece.end_ns))
        counted.count += 1
        counted.end_ns = piece.end_ns
        _extend(found.spans, piece.slot.priced, piece.start_ns, piece.end_ns)


def _extend(
    spans: list[tuple[PricedDevice, int, int]], device: PricedDevice, start_ns: int, end_ns: int
) -> None:
    for number, (known, since_ns, until_ns) in enumerate(spans):
        if known == device and until_ns == start_ns:
            spans[number] = known, since_ns, end_ns
            return
    spans.append((device, start_ns, end_ns))


def _seen(one: Divided, burst: str) -> Seen:
    piece, found = one.piece, one.found
    if found is None:
        return Seen(piece.length_ns, piece.slot.sharing, piece.holding, False, None, piece.gap, (), burst)
    used = tuple(
        Used(key, share.used_ns, share.low_ns, share.high_ns, share.evidence)
        for key, share in sorted(found.shares.items())
    )
    return Seen(
        piece.length_ns,
        piece.slot.sharing,
        piece.holding,
        True,
        found.occupied_ns,
        found.evidence,
        used,
        burst,
    )


def _parts(one: Divided, places: dict[tuple[str, ...], Place]) -> Iterator[Part]:
    """The parts of a piece by line, as the core divides a consumer's among its containers."""
    weighted, found = one.weighted, one.found
    for part, weight, nano, ns in zip(weighted.parts, weighted.weights, one.nano, one.ns, strict=True):
        containers = _containers(part.consumer, part.category, one, found)
        whole = sum(slots for _, slots in containers)
        split = zip(containers, divided(nano, containers), divided(ns, containers), strict=True)
        for (container, slots), own_nano, own_ns in split:
            place = places.get((one.device, *part.consumer, container, part.reason))
            if place is not None:  # a row of nothing is not written
                share, of_container = Fraction(weight, weighted.total), Fraction(slots, whole)
                yield Part(
                    place,
                    part.consumer,
                    part.category,
                    part.reason,
                    share,
                    nano,
                    ns,
                    of_container,
                    own_nano,
                    own_ns,
                )


def _containers(
    consumer: ConsumerKey, category: Category, one: Divided, found: Occupation | None
) -> list[tuple[str, int]]:
    return list(containers_of(consumer, category, one.piece, found))
