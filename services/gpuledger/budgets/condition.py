"""A line of a budget, and whether it is crossed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpuledger.budgets.catalog import Meter
from gpuledger.budgets.paces import spent_in
from gpuledger.budgets.periods import Period
from gpuledger.budgets.reaches import Reach
from gpuledger.budgets.sums import Sums

WHOLE_PPM = 1_000_000
IDS_KNOWN = 200_000  # each line of each budget is asked for its id every time


@dataclass(frozen=True, slots=True)
class Condition:
    """A line of a budget in a period, and whether it is crossed. ``over``: the period has ended.

    ``id`` is the breach's, a function of budget, rule, period and line. ``amount`` and ``spent`` are in the
    unit of the budget. Not ``ripe``: it holds, but not for ``needed_ns`` yet. ``breaks_ns``: the ends of the
    times in which one that is not ripe did not hold, where the ledger itself says so. ``brought``: what of
    the period lies before the version that brought it.
    """

    id: str
    meter: Meter
    version: int
    rule: str
    period: Period
    holds: bool
    over: bool
    spent: int
    spent_gpu_ns: int
    unconverted_nano: int
    through_ns: int
    threshold_ppm: int = 0
    speed: str = ""
    factor_nano: int = 0
    pending_ns: int = 0
    told: str = ""
    ripe: bool = True
    needed_ns: int = 0
    breaks_ns: tuple[int, ...] = ()
    brought: Reach | None = None

    @property
    def line(self) -> int:
        """The amount at which a threshold is crossed."""
        return -(-self.meter.amount * self.threshold_ppm // WHOLE_PPM)

    @property
    def falls_by_itself(self) -> bool:
        """Whether it may stop to hold without anything that was charged having been wrong."""
        return self.rule != "threshold" or self.meter.budget.rolling_ns is not None


@lru_cache(maxsize=IDS_KNOWN)
def breach_id(budget_id: str, rule: str, period_start_ns: int, line: str) -> str:
    """The id that a breach has through its life."""
    text = "\x1f".join((budget_id, rule, str(period_start_ns), line))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def line_of(
    rule: str,
    line: str,
    meter: Meter,
    version: int,
    period: Period,
    sums: Sums,
    holds: bool,
    over: bool = False,
    **more: Any,
) -> Condition:
    """A line with what is spent and the id of its breach."""
    spent = spent_in(meter, period, sums)
    amount = spent.nano if meter.money else spent.gpu_ns
    # a rolling period has no start that stays
    start_ns = 0 if meter.budget.rolling_ns is not None else period.start_ns
    return Condition(
        id=breach_id(meter.budget.id, rule, start_ns, line),
        meter=meter,
        version=version,
        rule=rule,
        period=period,
        holds=holds,
        over=over,
        spent=amount,
        spent_gpu_ns=spent.gpu_ns,
        unconverted_nano=spent.unconverted_nano,
        through_ns=spent.through_ns if rule == "threshold" else sums.newest_end_ns,
        **more,
    )
