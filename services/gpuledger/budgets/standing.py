"""How budgets stand now, from the ledger in the warehouse: spent, burn, forecast, when the amount is used up.

The sums are the ledger's, whatever the budgets application has counted so far: the two agree once it has
caught up. One query answers for all budgets: rows are summed by who pays, cut at every instant at which a
budget's period, or the span of its burn, begins.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gpuledger.budgets.catalog import Meter, Plan
from gpuledger.budgets.history import BUCKET_NS, BUCKETS_A_DAY, HISTORY_DAYS, Expected, expected
from gpuledger.budgets.lines import CATEGORIES, Payer
from gpuledger.budgets.periods import Period
from gpuledger.budgets.rates import Rates
from gpuledger.contract.columns import Doubles
from gpuledger.contract.money import nano_from_decimal
from gpuledger.contract.windows import DAY_NS, HOUR_NS, NS_PER_S
from gpuledger.spend import Span, source, stretches
from gpuledger.spend.ledger import WINDOWS_KEPT_S
from gpuledger.warehouse import Warehouse

BURN_NS = (HOUR_NS, 6 * HOUR_NS)  # the long spans of the fast and the slow burn rate
BUCKET_S = BUCKET_NS // NS_PER_S
USED_UP_STEPS = 24  # of halving: a month to within a fifth of a second
_PAYER = ("team", "cost_centre", "namespace", "workload", "gpu_model")
_SUMS = ", ".join(
    [f"sum({name}_ns) AS {name}_sum_ns" for name in CATEGORIES]
    + [f"sum(ifNull({name}, 0)) AS {name}_sum" for name in CATEGORIES]
    + ["sum(unpriced_ns) AS unpriced_sum_ns"]
)


@dataclass(frozen=True)
class Standing:
    """How a budget stands. Amounts are 1e-9 of its currency, or GPU-ns where it is in GPU-hours.

    ``counted_from_ns`` is later than the period's start where the budget is effective from a later moment.
    ``burn`` has the pace over each of BURN_NS as a multiple of the even pace. ``forecast`` is what is
    expected at the end of the period, ``by_history`` whether a model of the budget's own history says so or
    its pace alone. ``used_up_ns`` is when the amount is used up by that, None where it is not within the
    period.
    """

    meter: Meter
    period: Period
    counted_from_ns: int
    spent: int
    burn: tuple[float, float]
    forecast: Expected | None
    by_history: bool
    used_up_ns: int | None
    unconverted_nano: int
    unpriced_ns: int


class _Slice(NamedTuple):
    """What one payer had of a meter in a bucket of a segment, in the unit of the amount."""

    segment: int
    bucket: int
    amount: int
    unconverted_nano: int
    unpriced_ns: int


@dataclass
class _Asked:
    """A budget whose standing is asked for, and what was found."""

    meter: Meter
    period: Period
    from_ns: int
    slices: list[_Slice] = field(default_factory=list)


def standings(warehouse: Warehouse, plan: Plan, rates: Rates, now_ns: int) -> list[Standing]:
    """The standing of every budget of a version that holds now. Raises as Warehouse does."""
    asked = []
    for meter in plan.ordered:
        if meter.is_watch:
            continue
        period = meter.period(now_ns - 1) if meter.is_effective(now_ns - 1) else None
        if period is not None:
            begins = max(period.start_ns, meter.budget.effective_from_ns)
            asked.append(_Asked(meter, period, min(begins, now_ns)))
    if not asked:
        return []
    cuts = _cuts(asked, now_ns)
    by_meter = {one.meter: one for one in asked}
    for row in warehouse.rows(*_statement(cuts, now_ns // NS_PER_S)):
        _deal(row, plan, rates, by_meter)
    return [_standing(one, cuts, now_ns) for one in asked]


def _cuts(asked: Iterable[_Asked], now_ns: int) -> list[int]:
    """Every instant (s) at which something begins to count, in order, then now. Old ones are whole hours, as
    the ledger has nothing finer there."""
    now_s = now_ns // NS_PER_S
    begins = {one.from_ns // NS_PER_S for one in asked}
    begins |= {now_s - span_ns // NS_PER_S for span_ns in BURN_NS}
    begins.add(_history_start_ns(now_ns) // NS_PER_S)
    return [*sorted({_cut_s(at, now_s) for at in begins} - {now_s}), now_s]


def _cut_s(at_s: int, now_s: int) -> int:
    return at_s if at_s > now_s - WINDOWS_KEPT_S + 3600 else at_s - at_s % 3600


def _history_start_ns(now_ns: int) -> int:
    return now_ns // BUCKET_NS * BUCKET_NS - HISTORY_DAYS * DAY_NS


def _statement(cuts: Sequence[int], now_s: int) -> tuple[str, dict[str, Any]]:
    parts = [
        (stretch, {"segment": str(number)})
        for number, (start, end) in enumerate(pairwise(cuts))
        for stretch in stretches(Span(start, end), now_s, fine=False)
    ]
    amounts = [f"{name}_ns" for name in CATEGORIES]
    rows, parameters = source(
        parts, ("cluster", *_PAYER, "currency", *amounts, *CATEGORIES, "unpriced_ns"), commitments=True
    )
    keys = f"cluster, {', '.join(_PAYER)}, currency, segment, bucket"
    sql = (
        f"SELECT cluster, {', '.join(_PAYER)}, currency, segment, intDiv(at_s, {BUCKET_S}) AS bucket,\n"
        f"    {_SUMS}\nFROM {rows}\nGROUP BY {keys}"
    )
    return sql, parameters


def _deal(row: Sequence[Any], plan: Plan, rates: Rates, asked: Mapping[Meter, _Asked]) -> None:
    """Give a row to every budget that its payer is in."""
    cluster, team, cost_centre, namespace, workload, gpu_model, currency, segment, bucket = row[:9]
    payer = Payer(team, cost_centre, namespace, workload, gpu_model, "", currency)
    amounts = (*map(int, row[9:13]), *map(nano_from_decimal, row[13:17]))
    for meter in plan.meters_of(cluster, payer):
        if meter not in asked:
            continue
        unconverted = 0
        amount = meter.gpu_ns(amounts)
        if meter.money:
            nano = meter.nano(amounts)
            converted = rates.convert(nano, currency, meter.budget.currency, int(bucket) * BUCKET_NS)
            amount, unconverted = (converted, 0) if converted is not None else (0, nano)
        unpriced = int(row[17]) if meter.money else 0
        asked[meter].slices.append(_Slice(int(segment), int(bucket), amount, unconverted, unpriced))


def _standing(one: _Asked, cuts: Sequence[int], now_ns: int) -> Standing:
    now_s = now_ns // NS_PER_S
    counted = _since(one.slices, cuts, _cut_s(one.from_ns // NS_PER_S, now_s))
    spent = sum(part.amount for part in counted)
    even = Fraction(one.meter.amount, one.period.end_ns - one.period.start_ns)
    fast, slow = (
        float(Fraction(_spent(one.slices, cuts, now_s - span // NS_PER_S), span) / even) for span in BURN_NS
    )
    ahead = _Ahead(one, spent, now_ns)
    rolls = one.meter.budget.rolling_ns is not None
    return Standing(
        one.meter,
        one.period,
        one.from_ns,
        spent,
        (fast, slow),
        None if rolls else ahead.at(one.period.end_ns),
        ahead.by_history,
        None if rolls else ahead.used_up_ns(one.meter.amount),
        sum(part.unconverted_nano for part in counted),
        sum(part.unpriced_ns for part in counted),
    )


def _since(slices: Iterable[_Slice], cuts: Sequence[int], at_s: int) -> list[_Slice]:
    first = bisect_left(cuts, at_s)
    return [part for part in slices if part.segment >= first]


def _spent(slices: Iterable[_Slice], cuts: Sequence[int], at_s: int) -> int:
    return sum(part.amount for part in _since(slices, cuts, at_s))


class _Ahead:
    """What a budget will have spent by an instant: by its history, else by the pace of its period."""

    def __init__(self, one: _Asked, spent: int, now_ns: int) -> None:
        self._one, self._spent, self._now_ns = one, spent, now_ns
        self._boundary_ns = now_ns // BUCKET_NS * BUCKET_NS
        self._history = self._whole_days()
        self._first_ns = self._boundary_ns - self._history.size * BUCKET_NS
        self._begun = sum(
            part.amount for part in one.slices if part.bucket * BUCKET_NS >= self._boundary_ns
        )  # since the boundary, which the model counts as ahead
        self.by_history = expected(self._history, self._first_ns, now_ns) is not None

    def at(self, until_ns: int) -> Expected:
        """What is spent by then; never less than what is spent now."""
        ahead = expected(self._history, self._first_ns, until_ns)
        if ahead is not None:
            before = self._spent - self._begun
            low, mean, high = (max(float(self._spent), before + value) for value in ahead)
            return Expected(low, mean, high)
        passed = max(self._now_ns - self._one.from_ns, 1)
        by_pace = self._spent + self._spent / passed * (until_ns - self._now_ns)
        return Expected(by_pace, by_pace, by_pace)

    def used_up_ns(self, amount: int) -> int | None:
        """When the amount is reached, within the period."""
        low, high = self._now_ns, self._one.period.end_ns
        if self._spent >= amount:
            return low
        if self.at(high).mean < amount:
            return None
        for _ in range(USED_UP_STEPS):
            middle = (low + high) // 2
            low, high = (low, middle) if self.at(middle).mean >= amount else (middle, high)
        return high

    def _whole_days(self) -> Doubles:
        """Two-hour buckets of whole days up to the last whole one, from the first in which anything was."""
        size = HISTORY_DAYS * BUCKETS_A_DAY
        first = self._boundary_ns // BUCKET_NS - size
        history = np.zeros(size)
        for part in self._one.slices:
            if 0 <= part.bucket - first < size:
                history[part.bucket - first] += part.amount
        some = np.flatnonzero(history)
        days = (size - int(some[0])) // BUCKETS_A_DAY if some.size else 0
        return history[size - days * BUCKETS_A_DAY :]
