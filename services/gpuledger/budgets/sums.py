"""The second stage's sums: what all partitions have counted, from their absolute subtotals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpuledger.budgets.columns import buckets_of, drivers_of, largest
from gpuledger.budgets.contribution import Driver
from gpuledger.budgets.counting import PERIODS_KEPT
from gpuledger.budgets.rings import Ring
from gpuledger.contract.columns import Doubles
from gpuledger.contract.records import BreachDriver, BudgetSubtotal

DRIVERS_SHOWN = 5
Amount = tuple[int, int]


class Spent(NamedTuple):
    """What is counted for a meter in a period, over all partitions."""

    nano: int = 0
    gpu_ns: int = 0
    unconverted_nano: int = 0
    through_ns: int = 0


class _Part(NamedTuple):
    spent: Spent
    drivers: dict[Driver, Amount]


class Sums:
    """Sums subtotals; of each partition the one of the greatest version holds."""

    def __init__(self) -> None:
        self.newest_end_ns = 0
        self._versions: dict[int, int] = {}
        self._totals: dict[str, dict[int, dict[int, _Part]]] = {}
        self._rings: dict[tuple[str, int], dict[int, Ring]] = {}

    def absorb(self, told: BudgetSubtotal) -> set[str]:
        """Take a subtotal in; returns the meters that it speaks of. An older one says nothing."""
        if told.version < self._versions.get(told.partition, -1):
            return set()
        self._versions[told.partition] = told.version
        self.newest_end_ns = max(self.newest_end_ns, told.newest_end_ns)
        drivers: dict[int, dict[Driver, Amount]] = {}
        for row, driver, amount in drivers_of(told):
            drivers.setdefault(row, {})[driver] = amount
        keys = {told.texts[number] for number in told.meter.tolist()}
        rows = zip(
            told.meter.tolist(),
            told.period_start_ns.tolist(),
            told.nano.tolist(),
            told.gpu_ns.tolist(),
            told.unconverted_nano.tolist(),
            told.through_ns.tolist(),
            strict=True,
        )
        for row, (meter, start_ns, *counted) in enumerate(rows):
            periods = self._totals.setdefault(told.texts[meter], {})
            part = _Part(Spent(*counted), drivers.get(row, {}))
            periods.setdefault(start_ns, {})[told.partition] = part
            while len(periods) > PERIODS_KEPT:
                del periods[min(periods)]
        for key, length_ns, start_ns, value in buckets_of(told):
            rings = self._rings.setdefault((key, length_ns), {})
            rings.setdefault(told.partition, Ring(length_ns)).put(start_ns, value)
        return keys

    def spent(self, key: str, start_ns: int) -> Spent:
        """What is counted in a period."""
        parts = self._totals.get(key, {}).get(start_ns, {}).values()
        if not parts:
            return Spent()
        nano, gpu_ns, unconverted, through = zip(*(part.spent for part in parts), strict=True)
        return Spent(sum(nano), sum(gpu_ns), sum(unconverted), max(through))

    def bucketed(self, key: str, length_ns: int, first_ns: int, end_ns: int) -> int:
        """What the buckets that start in [first, end) hold, in the unit of the budget's amount."""
        rings = self._rings.get((key, length_ns), {})
        return sum(ring.sum(first_ns, end_ns) for ring in rings.values())

    def buckets(self, key: str, length_ns: int, first_ns: int, count: int) -> Doubles:
        """What each of ``count`` buckets holds, from the one that starts at ``first_ns`` on (float64)."""
        rings = self._rings.get((key, length_ns), {}).values()
        return sum((ring.values(first_ns, count).astype(np.float64) for ring in rings), np.zeros(count))

    def drivers(self, key: str, starts_ns: Iterable[int]) -> list[BreachDriver]:
        """The five pods and workloads that count most in those periods."""
        pods: dict[Driver, Amount] = {}
        workloads: dict[Driver, Amount] = {}
        for start_ns in starts_ns:
            for part in self._totals.get(key, {}).get(start_ns, {}).values():
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
        """Starts of the periods that are known of a meter."""
        return sorted(self._totals.get(key, ()))


def _add(amounts: dict[Driver, Amount], driver: Driver, amount: Amount) -> None:
    known = amounts.get(driver, (0, 0))
    amounts[driver] = (known[0] + amount[0], known[1] + amount[1])


def _shown(kind: str, driver: Driver, amount: Amount) -> BreachDriver:
    name = driver.workload if kind == "workload" else driver.pod
    return BreachDriver(kind, driver.namespace, name, *amount)
