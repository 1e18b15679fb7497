"""What a partition counts for a budget of the time before the version that brings it.

From one position of the partition on, windows of that time count as all do, but apart (``Round.sheet``): a
window that comes new, late or otherwise than before changes by as much as any total. What all windows counted
at that position is read from the warehouse meanwhile (``Round.base``), without hurry. The two are one sum
whenever the latter is there; only then it is counted, kept and told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gpuledger.budgets.catalog import Catalog, Meter, Plan
from gpuledger.budgets.contribution import Contribution, Counted, contribution
from gpuledger.budgets.lines import Driver, Lines, Window, WindowCharges
from gpuledger.budgets.reaches import TOTAL, Reach, Reached, is_past
from gpuledger.budgets.totals import Amount, Total


class Known(Protocol):
    """What a window's rows say: a set as it came, or what the warehouse has of it."""

    @property
    def price_version(self) -> int:
        """What they were priced with."""

    @property
    def lines(self) -> Lines:
        """What they count."""


Place = tuple[int, Reach | None]
"""Length of the buckets (0: the total), and the reach for which it is counted apart."""


Bucket = tuple[str, int, int]
"""Meter, length and start of a bucket."""


@dataclass(slots=True)
class Sheet:
    """Amounts that are not in any total yet, by meter and start of the period, and by bucket."""

    totals: dict[tuple[str, int], Total] = field(default_factory=dict)
    buckets: dict[Bucket, int] = field(default_factory=dict)
    course: dict[Bucket, int] = field(default_factory=dict)

    def change(
        self,
        reach: Reach,
        meter: Meter,
        span: tuple[int, int],
        change: Counted,
        before: Mapping[Driver, Amount],
        after: Mapping[Driver, Amount],
    ) -> None:
        """Count more, or less, in windows of a span (start, end)."""
        start_ns, end_ns = span
        amount = change.nano if meter.money else change.gpu_ns
        if reach.length_ns != TOTAL:
            _add(self.buckets, reach.key, reach.length_ns, start_ns, amount)
            return
        _add(self.course, reach.key, reach.course_ns, start_ns, amount)
        total = self.totals.setdefault((reach.key, meter.total_start_ns(start_ns)), Total())
        total.add(change, end_ns)
        total.drive(before, after)

    def add(self, other: Sheet) -> None:
        """Count all that another has."""
        for place, part in other.totals.items():
            total = self.totals.setdefault(place, Total())
            total.add(Counted(part.nano, part.gpu_ns, part.unconverted_nano), part.through_ns)
            total.drive({}, part.drivers)
        for mine, others in ((self.buckets, other.buckets), (self.course, other.course)):
            for bucket, amount in others.items():
                mine[bucket] = mine.get(bucket, 0) + amount


@dataclass
class Round:
    """Reaches that are made up for together, from the position at which it began.

    Of what was counted until then ``tail`` has the windows that came lately; of all others the warehouse has
    it: the greatest revision of each that came before ``before_ms``. That is None as long as nothing came by
    which it were known; below ``tail_offset`` the warehouse must have everything.
    """

    reached: Reached
    before_ms: int | None
    tail: tuple[WindowCharges, ...]
    tail_offset: int
    sheet: Sheet = field(default_factory=Sheet)

    def __post_init__(self) -> None:
        self._plans: dict[int, Plan] = {}

    def plan(self, catalog: Catalog, start_ns: int) -> Plan:
        """The meters whose reaches have a window that starts then."""
        place = bisect_right(self.reached.cuts, start_ns)
        if place not in self._plans:
            found = {key: catalog.meter(key) for key in self.reached.at(start_ns)}
            self._plans[place] = Plan(0, 0, {key: one for key, one in found.items() if one is not None})
        return self._plans[place]

    def fill(
        self, catalog: Catalog, sheet: Sheet, window: Window, end_ns: int, known: Known, sign: int = 1
    ) -> None:
        """Count a window for the reaches, or take it back: what it was priced with, and its lines."""
        plan, rates = self.plan(catalog, window.start_ns), catalog.rates(known.price_version)
        found = contribution(plan, rates, window.cluster, window.start_ns, known.lines)
        self.take(sheet, plan, (window.start_ns, end_ns), found, sign)

    def take(
        self, sheet: Sheet, plan: Plan, span: tuple[int, int], found: Contribution, sign: int = 1
    ) -> None:
        """Count what windows of a span contribute to the meters of ``plan``, or take it back."""
        for key, counted in found.counted.items():
            change = Counted(*(sign * amount for amount in counted))
            drivers = found.drivers.get(key, {})
            sides: tuple[Mapping[Driver, Amount], Mapping[Driver, Amount]] = ({}, drivers)
            for reach in self.reached.at(span[0]).get(key, ()):
                sheet.change(reach, plan.meters[key], span, change, *sides[::sign])

    def came(self, append_ms: int) -> None:
        """A record came that was not counted when it began."""
        if self.before_ms is None:
            self.before_ms = append_ms


class Segment(NamedTuple):
    """What windows that start within some time count for: the meters, and what of each."""

    plan: Plan
    places: Mapping[str, Sequence[Place]]


class Backfill:
    """Which reaches a partition has made up for (``done``), and those that it is at."""

    def __init__(self, catalog: Catalog, done: Iterable[Reach]) -> None:
        self.done = Reached(done)
        self.round: Round | None = None
        self.until_ns = 0
        self._segments: dict[tuple[int, int], Segment | None] = {}
        self._cuts: list[int] = []
        self.use(catalog)

    def use(self, catalog: Catalog) -> None:
        """Go by these versions from now on."""
        self._catalog = catalog
        self._changed()

    def segment(self, start_ns: int) -> Segment | None:
        """What a window counts for that starts then; None where that is what its version says."""
        if start_ns >= self.until_ns:
            return None
        plan = self._catalog.plan_at(start_ns)
        place = plan.version, bisect_right(self._cuts, start_ns)
        if place not in self._segments:
            self._segments[place] = self._segment(plan, start_ns)
        return self._segments[place]

    def lacking(self, newest_ns: int) -> list[Reach]:
        """What still matters and is not made up for."""
        done = set(self.done.all)
        return [
            reach
            for reach in self._catalog.reaches
            if reach not in done
            and (meter := self._catalog.meter(reach.key)) is not None
            and not is_past(reach, meter, newest_ns)
        ]

    def begin(self, begun: Round) -> None:
        """Count apart for it from now on."""
        self.round = begun
        self._changed()

    def finish(self, newest_ns: int) -> None:
        """It is made up for."""
        assert self.round is not None
        kept = [
            reach
            for reach in self.done.all
            if (meter := self._catalog.meter(reach.key)) is not None and not is_past(reach, meter, newest_ns)
        ]
        self.done, self.round = Reached([*kept, *self.round.reached.all]), None
        self._changed()

    def _segment(self, plan: Plan, start_ns: int) -> Segment | None:
        done = self.done.at(start_ns)
        apart = self.round.reached.at(start_ns) if self.round is not None else {}
        if not done and not apart:
            return None
        meters = dict(plan.meters)
        places: dict[str, list[Place]] = {key: list(meter.places) for key, meter in meters.items()}
        for reached, is_apart in ((done, False), (apart, True)):
            for key, reaches in reached.items():
                meter = meters.get(key) or self._catalog.meter(key)
                if meter is None:
                    continue
                meters[key] = meter
                of_meter = places.setdefault(key, [])
                known = {length for length, _ in of_meter}
                of_meter += [
                    (one.length_ns, one if is_apart else None)
                    for one in reaches
                    if one.length_ns not in known
                ]
        return Segment(Plan(plan.version, plan.active_from_ns, meters), places)

    def _changed(self) -> None:
        rounds = [self.round.reached] if self.round is not None else []
        every = [self.done, *rounds]
        self._cuts = sorted({at for reached in every for at in reached.cuts})
        self.until_ns = max(self._cuts, default=0)
        self._segments.clear()


def _add(amounts: dict[Bucket, int], key: str, length_ns: int, at_ns: int, amount: int) -> None:
    place = key, length_ns, at_ns - at_ns % length_ns
    amounts[place] = amounts.get(place, 0) + amount
