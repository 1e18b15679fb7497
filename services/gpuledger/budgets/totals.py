"""What is counted for a meter in a period, and how long it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from gpuledger.budgets.contribution import Counted
from gpuledger.budgets.lines import Driver

DRIVERS_KEPT = 64  # of a meter and period in a partition; the smallest make room
DRIVERS_TOLD = 8  # of a meter in a partition: the five largest of all partitions are among them, as a rule
PERIODS_UNDER_WAY = 2  # of a meter: the newest, and the one that late charges still speak of

Amount = tuple[int, int]
"""Money and GPU-ns."""


@dataclass(slots=True)
class Total:
    """What is counted for a meter in a period."""

    nano: int = 0
    gpu_ns: int = 0
    unconverted_nano: int = 0
    through_ns: int = 0
    drivers: dict[Driver, Amount] = field(default_factory=dict)

    def add(self, change: Counted, through_ns: int) -> None:
        """Count more, or less where something is replaced."""
        self.nano += change.nano
        self.gpu_ns += change.gpu_ns
        self.unconverted_nano += change.unconverted_nano
        self.through_ns = max(self.through_ns, through_ns)

    def drive(self, before: Mapping[Driver, Amount], after: Mapping[Driver, Amount]) -> None:
        """Say who it is counted from, in place of what was said."""
        drivers = self.drivers
        for sign, changes in ((-1, before), (1, after)):
            for driver, (nano, gpu_ns) in changes.items():
                known = drivers.get(driver, (0, 0))
                drivers[driver] = (known[0] + sign * nano, known[1] + sign * gpu_ns)
        if len(drivers) > DRIVERS_KEPT:
            order = sorted(drivers, key=lambda driver: (drivers[driver], driver))
            for driver in order[: len(drivers) - DRIVERS_KEPT * 3 // 4]:
                del drivers[driver]


def largest(drivers: Mapping[Driver, Amount], most: int) -> list[tuple[Driver, Amount]]:
    """The largest by money, then by GPU time, then by name."""
    found = [item for item in drivers.items() if item[1][0] > 0 or item[1][1] > 0]
    if len(found) > 1:
        found.sort(key=lambda item: (-item[1][0], -item[1][1], item[0]))
    return found[:most]


def closed(starts_ns: Iterable[int], closed_ns: int) -> list[int]:
    """Which of a meter's periods have ended by then: those after which another one began by then."""
    return [start for start, after in pairwise(sorted(starts_ns)) if after <= closed_ns]


def over_for_long(starts_ns: Iterable[int]) -> list[int]:
    """All but the newest periods: of them the largest drivers alone are kept."""
    return sorted(starts_ns)[:-PERIODS_UNDER_WAY]
