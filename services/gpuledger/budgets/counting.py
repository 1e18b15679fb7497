"""The first stage: what one partition of gpu.charges counts for each meter, exactly once.

A window that is newer than all of its node is added. One that was counted before is replaced: what it
counted is known for the last minutes of arrival (the tail) and for windows that were restated; of all others
the warehouse is asked: for the revision that is counted, where the window is one of the node's latest, else
for the greatest one that came before the tail. What is counted is a function of the records below
``position`` and of the versions that hold for their windows, whatever was kept and whatever was asked.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from gpuledger.budgets.backfill import Backfill, Place
from gpuledger.budgets.bulk import added, matched
from gpuledger.budgets.catalog import Catalog, Match, Meter, Plan
from gpuledger.budgets.contribution import Contribution, Counted, contribution
from gpuledger.budgets.counters import Changed, Counters, Restated
from gpuledger.budgets.heard import Heard
from gpuledger.budgets.known import KnownRevisions
from gpuledger.budgets.lines import Amounts, Driver, Replaced, Window, WindowCharges
from gpuledger.budgets.reaches import TOTAL
from gpuledger.budgets.rings import Ring
from gpuledger.budgets.totals import DRIVERS_TOLD, Amount, Total, closed, largest, over_for_long
from gpuledger.contract.windows import DAY_NS

TAIL_MS = 120_000  # of arrival: what a processor sends again after a restart lies within it
RESTATED_KEPT = 10_000  # windows of a partition; of older ones the warehouse is asked


class PartitionCount:
    """Counts one partition. ``position`` is the offset of the next record; lower ones are passed over."""

    def __init__(
        self, partition: int, catalog: Catalog, counters: Counters | None = None, position: int = 0
    ) -> None:
        self.partition = partition
        self.counters = counters or Counters()
        self._catalog = catalog
        self.backfill = Backfill(catalog, self.counters.backfilled)
        self.position = position
        self.changed = Changed()
        self.told = Heard(position)
        self._tail: OrderedDict[Window, WindowCharges] = OrderedDict()
        self._held: dict[Window, int] = {}  # known revisions that newer windows of the same bunch push out
        self._newest_ms = 0

    @property
    def catalog(self) -> Catalog:
        """The versions that it goes by."""
        return self._catalog

    @catalog.setter
    def catalog(self, catalog: Catalog) -> None:
        if catalog is not self._catalog:
            self._catalog = catalog
            self.backfill.use(catalog)

    @property
    def tail(self) -> Iterable[WindowCharges]:
        """The sets of the last minutes of arrival, of each window the one that is counted."""
        return self._tail.values()

    @property
    def tail_offset(self) -> int:
        """The offset from which on a new owner reads to know the tail."""
        return min((charges.offset for charges in self._tail.values()), default=self.position)

    @property
    def may_be_told(self) -> bool:
        """Whether as much is counted as was told already: what is told before says nothing. Only what others
        may have told otherwise must wait."""
        return self.position >= self.told.version

    @property
    def mark(self) -> str:
        """What was made up for: who tells of the partition under another mark may count otherwise."""
        return self.backfill.done.mark

    def hear(self, offset: int, version: int, mark: str | None) -> None:
        """Know what was told, by this owner or by one that was replaced, in Kafka's order. Where it holds at
        the second stage and lacks what was made up for, all of that is to be told anew."""
        if self.told.take(offset, version, self.position) and mark != self.mark:
            self.counters.untold |= {reach.key for reach in self.counters.backfilled}

    def recall(self, charges: WindowCharges) -> None:
        """Know a record of the tail that is counted already."""
        known = self._tail.get(charges.window)
        if charges.append_ms >= self.counters.tail_start_ms and (
            known is None or known.revision <= charges.revision
        ):
            self._keep(charges)

    def to_ask(self, records: Iterable[WindowCharges]) -> dict[Window, int | None]:
        """What the warehouse must be asked before these records are counted: windows, each with the revision
        that is counted; None for the greatest one that came before ``tail_start_ms``.

        Only here something is forgotten: what is known now is known while these records are counted.
        """
        self._forget()
        self._held.clear()
        coming = dict(self.counters.high_water_ns)
        asked: dict[Window, int | None] = {}
        fresh: set[Window] = set()  # in the tail by the time at which they come once more
        for charges in records:
            window = charges.window
            key = (window.cluster, window.node)
            if charges.offset < self.position:
                continue
            if window.start_ns > coming.get(key, -1):
                coming[key] = window.start_ns
                fresh.add(window)
            elif window in fresh:
                continue
            elif window not in self._tail and window not in self.counters.restated:
                counted = self._known(charges)
                if counted is None or counted < charges.revision:
                    asked[window] = counted
                if counted is not None:
                    self._held[window] = counted
        return asked

    def count(self, records: Iterable[WindowCharges], replaced: Mapping[Window, Replaced]) -> None:
        """Count records. ``replaced`` has what the warehouse knows of the windows ``to_ask`` named."""
        fresh: dict[tuple[int, int, int], list[tuple[Match, Amounts]]] = {}
        for charges in records:
            if charges.offset < self.position:
                continue
            self.position = charges.offset + 1
            window = charges.window
            if self.backfill.round is not None:
                self.backfill.round.came(charges.append_ms)
            if window.start_ns > self.counters.high_water_ns.get((window.cluster, window.node), -1):
                lines = matched(self._plan_at(window.start_ns), charges) if charges.lines else None
                if lines is not None:
                    key = window.start_ns, charges.length_ns, self.day_ns
                    self._know(charges)
                    fresh.setdefault(key, []).extend(lines)
                    continue
            self._replace(charges, replaced)
        for (start_ns, length_ns, day_ns), lines in sorted(fresh.items(), key=lambda item: item[0]):
            for meter, counted, drivers in added(self._plan_at(start_ns), start_ns, lines):
                self._change(meter, start_ns, start_ns + length_ns, day_ns, counted, {}, drivers)

    def _replace(self, charges: WindowCharges, replaced: Mapping[Window, Replaced]) -> None:
        """Count a record by itself, in place of what its window counted before."""
        window = charges.window
        node = (window.cluster, window.node)
        is_new = window.start_ns > self.counters.high_water_ns.get(node, -1)
        revision, before = (-1, Contribution()) if is_new else self._before(charges, replaced)
        if revision >= charges.revision:
            if revision == charges.revision:
                self._keep(charges)  # the warehouse now says that it came when this record came
            return
        late = not is_new and window not in self._tail
        after = self._contribution(charges)
        self._apply(charges, before, after)
        if late or window in self.counters.restated or not charges.lines:
            self._keep_restated(window, Restated(charges.revision, after.counted))
        self._know(charges)

    def _know(self, charges: WindowCharges) -> None:
        """Note that the window's revision is counted."""
        window = charges.window
        node = (window.cluster, window.node)
        known = self.counters.known.get(node)
        if known is None:
            known = self.counters.known[node] = KnownRevisions(charges.length_ns)
        known.put(window.start_ns, charges.revision)
        self.counters.high_water_ns[node] = max(window.start_ns, self.counters.high_water_ns.get(node, -1))
        self.counters.newest_end_ns = max(self.counters.newest_end_ns, window.start_ns + charges.length_ns)
        self._keep(charges)

    def _before(
        self, charges: WindowCharges, replaced: Mapping[Window, Replaced]
    ) -> tuple[int, Contribution]:
        """The revision of a window that is counted, and what it counted."""
        window = charges.window
        tail = self._tail.get(window)
        if tail is not None:
            return tail.revision, self._contribution(tail)
        restated = self.counters.restated.get(window)
        if restated is not None:
            return restated.revision, Contribution(restated.counted)
        counted = self._known(charges)
        if counted is not None and counted >= charges.revision:
            return counted, Contribution()
        known = replaced.get(window)
        if known is None:
            return -1 if counted is None else counted, Contribution()
        rates = self.catalog.rates(known.price_version)
        plan = self._plan_at(window.start_ns)
        return known.revision, contribution(plan, rates, window.cluster, window.start_ns, known.lines)

    def _known(self, charges: WindowCharges) -> int | None:
        window = charges.window
        known = self.counters.known.get((window.cluster, window.node))
        counted = None if known is None else known.get(window.start_ns)
        return self._held.get(window) if counted is None else counted

    def _contribution(self, charges: WindowCharges) -> Contribution:
        window = charges.window
        rates = self.catalog.rates(charges.price_version)
        plan = self._plan_at(window.start_ns)
        return contribution(plan, rates, window.cluster, window.start_ns, charges.lines)

    def _plan_at(self, start_ns: int) -> Plan:
        """The meters that a window counts for which starts then."""
        segment = self.backfill.segment(start_ns)
        return self.catalog.plan_at(start_ns) if segment is None else segment.plan

    def _apply(self, charges: WindowCharges, before: Contribution, after: Contribution) -> None:
        start_ns, end_ns = charges.window.start_ns, charges.window.start_ns + charges.length_ns
        meters = self._plan_at(start_ns).meters
        none = Counted()
        for key in before.counted.keys() | after.counted.keys():
            meter = meters.get(key)
            if meter is None:
                continue
            was, now = before.counted.get(key, none), after.counted.get(key, none)
            change = Counted(*(b - a for a, b in zip(was, now, strict=True)))
            if any(change):
                drivers = before.drivers.get(key, {}), after.drivers.get(key, {})
                self._change(meter, start_ns, end_ns, self.day_ns, change, *drivers)

    @property
    def day_ns(self) -> int:
        """The day of the newest window so far: by that a period is open or closed for what comes next."""
        return self.counters.newest_end_ns // DAY_NS * DAY_NS

    def _change(
        self,
        meter: Meter,
        start_ns: int,
        end_ns: int,
        day_ns: int,
        change: Counted,
        before: Mapping[Driver, Amount],
        after: Mapping[Driver, Amount],
    ) -> None:
        """Count more, or less, for a meter in windows that start and end so, and came on a day so new."""
        segment = self.backfill.segment(start_ns)
        places: Sequence[Place] = meter.places if segment is None else segment.places[meter.key]
        for length_ns, apart in places:
            if apart is not None:
                assert self.backfill.round is not None
                span = start_ns, end_ns
                self.backfill.round.sheet.change(apart, meter, span, change, before, after)
            elif length_ns != TOTAL:
                amount = change.nano if meter.money else change.gpu_ns
                start = self.ring(meter.key, length_ns).add(start_ns, amount)
                if start is not None:
                    self.changed.buckets.add((meter.key, length_ns, start))
            elif not meter.is_closed(start_ns, day_ns):
                period_start_ns = meter.total_start_ns(start_ns)
                total = self.total(meter, period_start_ns)
                total.add(change, end_ns)
                total.drive(before, after)
                self.changed.totals.add((meter.key, period_start_ns))

    def ring(self, key: str, length_ns: int) -> Ring:
        """The buckets of a length of a meter."""
        rings = self.counters.rings.setdefault(key, {})
        ring = rings.get(length_ns)
        if ring is None:
            ring = rings[length_ns] = Ring(length_ns)
        return ring

    def total(self, meter: Meter, period_start_ns: int) -> Total:
        """The total of a period. Where it is new, those that no partition needs make room."""
        periods = self.counters.totals.setdefault(meter.key, {})
        total = periods.get(period_start_ns)
        if total is None:
            total = periods[period_start_ns] = Total()
            for start_ns in closed(periods, meter.dropped_ns(self.counters.newest_end_ns)):
                if (meter.key, start_ns) not in self.changed.totals and periods[start_ns] is not total:
                    del periods[start_ns]
            for start_ns in over_for_long(periods):
                old = periods[start_ns]
                old.drivers = dict(largest(old.drivers, DRIVERS_TOLD))
        return total

    def _keep(self, charges: WindowCharges) -> None:
        self._tail[charges.window] = charges
        self._tail.move_to_end(charges.window)
        self._newest_ms = max(self._newest_ms, charges.append_ms)

    def _keep_restated(self, window: Window, restated: Restated) -> None:
        self.counters.restated[window] = restated
        self.counters.restated.move_to_end(window)

    def _forget(self) -> None:
        start_ms = max(self.counters.tail_start_ms, self._newest_ms - TAIL_MS)
        self.counters.tail_start_ms = start_ms
        while self._tail and (oldest := next(iter(self._tail.values()))).append_ms < start_ms:
            del self._tail[oldest.window]
        while len(self.counters.restated) > RESTATED_KEPT:
            self.counters.restated.popitem(last=False)
