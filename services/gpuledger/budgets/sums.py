"""The second stage's sums: what all partitions have counted, from their absolute subtotals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gpuledger.budgets.catalog import BEHIND_NS, Catalog
from gpuledger.budgets.columns import buckets_of, drivers_of, rings_of
from gpuledger.budgets.lines import Driver
from gpuledger.budgets.reaches import Reach
from gpuledger.budgets.rings import Ring
from gpuledger.budgets.totals import PERIODS_UNDER_WAY, Amount, closed, largest, over_for_long
from gpuledger.contract.columns import LARGEST_LONG, Longs
from gpuledger.contract.records import BreachDriver, BudgetSubtotal

DRIVERS_SHOWN = 5
BUCKETS_OF_A_METER = 8  # more than what is new has: a state, of which whole rings are read at once
SUMMED_TOGETHER = 1 << 55  # so that the parts of 255 partitions fit into 64 bits
Touched = set[tuple[str, int]]
"""Meters with the starts of their periods."""


class Spent(NamedTuple):
    """What is counted for a meter in a period, over all partitions."""

    nano: int = 0
    gpu_ns: int = 0
    unconverted_nano: int = 0
    through_ns: int = 0


_NOTHING = Spent()


class _Part(NamedTuple):
    """What one partition has told last of a meter in a period."""

    nano: int
    gpu_ns: int
    unconverted_nano: int
    drivers: dict[Driver, Amount]


@dataclass(slots=True)
class _Period:
    """All partitions' parts of a meter's period, and their sum, which is kept up and not summed anew."""

    spent: Spent = field(default_factory=Spent)
    parts: dict[int, _Part] = field(default_factory=dict)

    def put(self, partition: int, part: _Part, through_ns: int) -> None:
        """Take the partition's newest part in."""
        nano, gpu_ns, unconverted_nano, through = self.spent
        before = self.parts.get(partition)
        if before is not None:
            nano, gpu_ns = nano - before.nano, gpu_ns - before.gpu_ns
            unconverted_nano -= before.unconverted_nano
        self.parts[partition] = part
        self.spent = Spent(
            nano + part.nano,
            gpu_ns + part.gpu_ns,
            unconverted_nano + part.unconverted_nano,
            through if through > through_ns else through_ns,
        )

    def thin_out(self) -> None:
        """Keep the drivers that may be shown alone."""
        for partition, part in self.parts.items():
            if len(part.drivers) > DRIVERS_SHOWN:
                self.parts[partition] = part._replace(drivers=dict(largest(part.drivers, DRIVERS_SHOWN)))


class _Rings:
    """All partitions' buckets of one length of a meter, and their sum."""

    __slots__ = ("parts", "summed")

    def __init__(self, length_ns: int) -> None:
        self.summed = Ring(length_ns)
        self.parts: dict[int, Ring] = {}

    def put(self, partition: int, start_ns: int, amount: int) -> None:
        """Take a bucket of a partition in. What a part has forgotten the sum forgot before."""
        ring = self.parts.get(partition)
        if ring is None:
            ring = self.parts[partition] = Ring(self.summed.length_ns)
        before = ring.get(start_ns)
        if amount != before:
            ring.put(start_ns, amount)
            self.summed.add(start_ns, amount - before)

    def put_all(self, partition: int, starts_ns: Longs, amounts: Longs) -> None:
        """The same for several buckets, each of them once."""
        if int(np.abs(amounts).max()) >= SUMMED_TOGETHER:
            for start_ns, amount in zip(starts_ns.tolist(), amounts.tolist(), strict=True):
                self.put(partition, start_ns, amount)
            return
        ring = self.parts.get(partition)
        if ring is None:
            ring = self.parts[partition] = Ring(self.summed.length_ns)
        self.summed.add_all(starts_ns, ring.put_all(starts_ns, amounts))


class Sums:
    """Sums subtotals of so many partitions; of each the one of the greatest version holds."""

    def __init__(self, partitions: int = 1) -> None:
        self.newest_end_ns = 0
        self._partitions = partitions
        self._newest: dict[int, int] = {}
        self._versions: dict[int, int] = {}
        self._totals: dict[str, dict[int, _Period]] = {}
        self._rings: dict[tuple[str, int], _Rings] = {}
        self._forgotten: dict[str, int] = {}  # by meter the start of the last period that was let go of

    def absorb(self, told: BudgetSubtotal) -> Touched:
        """Take a subtotal in; returns what it speaks of. An older one says nothing."""
        if told.version < self._versions.get(told.partition, -1):
            return set()
        self._versions[told.partition] = told.version
        self.newest_end_ns = max(self.newest_end_ns, told.newest_end_ns)
        self._newest[told.partition] = max(self._newest.get(told.partition, 0), told.newest_end_ns)
        drivers: dict[int, dict[Driver, Amount]] = {}
        for row, driver, amount in drivers_of(told):
            drivers.setdefault(row, {})[driver] = amount
        touched = set()
        rows = zip(
            told.meter.tolist(),
            told.period_start_ns.tolist(),
            told.nano.tolist(),
            told.gpu_ns.tolist(),
            told.unconverted_nano.tolist(),
            told.through_ns.tolist(),
            strict=True,
        )
        for row, (meter, start_ns, nano, gpu_ns, unconverted_nano, through_ns) in enumerate(rows):
            key = told.texts[meter]
            if start_ns <= self._forgotten.get(key, -1):
                continue  # of the others' parts nothing is known any more
            touched.add((key, start_ns))
            periods = self._totals.setdefault(key, {})
            period = periods.get(start_ns)
            if period is None:
                period = periods[start_ns] = _Period()
            period.put(
                told.partition, _Part(nano, gpu_ns, unconverted_nano, drivers.get(row, {})), through_ns
            )
        if told.bucket_meter.size > BUCKETS_OF_A_METER * len(touched):
            for key, length_ns, starts_ns, values in rings_of(told):
                self._rings_of(key, length_ns).put_all(told.partition, starts_ns, values)
        else:
            for key, length_ns, start_ns, value in buckets_of(told):
                self._rings_of(key, length_ns).put(told.partition, start_ns, value)
        return touched

    def _rings_of(self, key: str, length_ns: int) -> _Rings:
        rings = self._rings.get((key, length_ns))
        if rings is None:
            rings = self._rings[key, length_ns] = _Rings(length_ns)
        return rings

    def forget(self, catalog: Catalog) -> None:
        """Let go of periods that are closed for every partition, also for one that is behind or has not told
        anything yet; and of most drivers of those that are over."""
        slowest_ns = min(self._newest.values(), default=0) if len(self._newest) >= self._partitions else 0
        slowest_ns = max(slowest_ns, self.newest_end_ns - BEHIND_NS)
        for key, periods in self._totals.items():
            if len(periods) <= PERIODS_UNDER_WAY:
                continue
            meter = catalog.meter(key)
            if meter is None:
                continue
            rolls = meter.budget.rolling_ns is not None
            for start_ns in closed(periods, meter.closed_ns(self.newest_end_ns if rolls else slowest_ns)):
                del periods[start_ns]
                self._forgotten[key] = start_ns
            for start_ns in over_for_long(periods):
                periods[start_ns].thin_out()

    def spent(self, key: str, start_ns: int) -> Spent:
        """What is counted in a period."""
        period = self._totals.get(key, {}).get(start_ns)
        return period.spent if period is not None else _NOTHING

    def bucketed(self, key: str, length_ns: int, first_ns: int, end_ns: int) -> int:
        """What the buckets that start in [first, end) hold, in the unit of the budget's amount."""
        rings = self._rings.get((key, length_ns))
        return rings.summed.sum(first_ns, end_ns) if rings is not None else 0

    def buckets(self, key: str, length_ns: int, first_ns: int, count: int) -> Longs:
        """What each of ``count`` buckets holds, from the one that starts at ``first_ns`` on."""
        rings = self._rings.get((key, length_ns))
        return rings.summed.values(first_ns, count) if rings is not None else np.zeros(count, np.int64)

    def crossed_ns(self, reach: Reach, amount: int) -> int | None:
        """When so much was reached in the time before a version: the end of a bucket of that time. None where
        it was not, or is not known."""
        length_ns = reach.course_ns
        rings = self._rings.get((reach.key, length_ns))
        if rings is None:
            return None
        first_ns = reach.from_ns // length_ns * length_ns
        count = -(-(reach.until_ns - first_ns) // length_ns)
        sums = np.cumsum(rings.summed.values(first_ns, count))
        reached = np.flatnonzero(sums >= amount)
        return min(reach.until_ns, first_ns + (int(reached[0]) + 1) * length_ns) if reached.size else None

    def drivers(self, key: str, starts_ns: Iterable[int]) -> list[BreachDriver]:
        """The five pods and workloads that count most in those periods."""
        pods: dict[Driver, Amount] = {}
        workloads: dict[Driver, Amount] = {}
        for start_ns in starts_ns:
            period = self._totals.get(key, {}).get(start_ns)
            for part in period.parts.values() if period is not None else ():
                for driver, amount in part.drivers.items():
                    if driver.pod:
                        _add(pods, driver, amount)
                    if driver.workload:
                        _add(workloads, driver._replace(pod=""), amount)
        shown = [
            *(_shown("workload", driver, amount) for driver, amount in largest(workloads, DRIVERS_SHOWN)),
            *(_shown("pod", driver, amount) for driver, amount in largest(pods, DRIVERS_SHOWN)),
        ]
        return shown

    def starts(self, key: str) -> list[int]:
        """Starts of the periods that are known of a meter, in their order."""
        return sorted(self._totals.get(key, ()))


def _add(amounts: dict[Driver, Amount], driver: Driver, amount: Amount) -> None:
    known = amounts.get(driver, (0, 0))
    amounts[driver] = (known[0] + amount[0], known[1] + amount[1])


def _shown(kind: str, driver: Driver, amount: Amount) -> BreachDriver:
    name = driver.workload if kind == "workload" else driver.pod
    return BreachDriver(kind, driver.namespace, name, *(min(one, LARGEST_LONG) for one in amount))
