"""Which lines are crossed: the rules of every budget, asked of the sums at the ledger's own time."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction

from gpuledger.budgets.catalog import BURN_BUCKET_NS, Catalog, Meter
from gpuledger.budgets.periods import Period, bucket_length_ns
from gpuledger.budgets.sums import Spent, Sums
from gpuledger.contract.money import NANO_PER_UNIT
from gpuledger.contract.records import BudgetRule
from gpuledger.contract.windows import HOUR_NS

WHOLE_PPM = 1_000_000
RECENT_NS = 6 * HOUR_NS  # of the second of the two paces that a forecast goes by
SPEEDS = ("fast", "slow")


@dataclass(frozen=True, slots=True)
class Condition:
    """A line of a budget in a period, and whether it is crossed. ``over``: the period has ended.

    ``id`` is the breach's, a function of budget, rule, period and line. ``amount`` and ``spent`` are in the
    unit of the budget.
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
    forecast: tuple[int, int] | None = None

    @property
    def falls_by_itself(self) -> bool:
        """Whether it may stop to hold without anything that was charged having been wrong."""
        return self.rule != "threshold" or self.meter.budget.rolling_ns is not None


def breach_id(budget_id: str, rule: str, period_start_ns: int, line: str) -> str:
    """The id that a breach has through its life."""
    text = "\x1f".join((budget_id, rule, str(period_start_ns), line))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def conditions(catalog: Catalog, sums: Sums, keys: Collection[str] | None = None) -> Iterator[Condition]:
    """Every line of the budgets in effect at the end of the newest window, or of the meters ``keys``."""
    now_ns = sums.newest_end_ns
    if not now_ns:
        return
    plan = catalog.plan_at(now_ns - 1)
    for key, meter in plan.meters.items():
        if (keys is not None and key not in keys) or not meter.is_effective(now_ns - 1):
            continue
        present = meter.period(now_ns - 1)
        if present is not None:
            yield from _of_period(meter, plan.version, present, sums)
        if meter.budget.rolling_ns is None:
            yield from _of_ended(catalog, meter, sums, now_ns)


def _of_ended(catalog: Catalog, meter: Meter, sums: Sums, now_ns: int) -> Iterator[Condition]:
    """The lines of the period that ended last, by the budget as it was at its end."""
    for start_ns in sums.starts(meter.key):
        period = meter.period(start_ns)
        if period is None or period.end_ns > now_ns - 1:
            continue
        plan = catalog.plan_at(period.end_ns - 1)
        then = plan.meters.get(meter.key)
        if then is not None:
            yield from _thresholds(then, plan.version, period, sums, over=True)


def _of_period(meter: Meter, version: int, period: Period, sums: Sums) -> Iterator[Condition]:
    yield from _thresholds(meter, version, period, sums, over=False)
    for rule in meter.budget.rules:
        if rule.kind == "burn_rate":
            yield from _burn(meter, version, period, sums, rule)


def _thresholds(meter: Meter, version: int, period: Period, sums: Sums, over: bool) -> Iterator[Condition]:
    spent = _spent(meter, period, sums)
    amount = spent.nano if meter.money else spent.gpu_ns
    forecast = None if over else _forecast(meter, period, amount, sums)
    for ppm in meter.budget.thresholds_ppm.tolist():
        yield Condition(
            id=breach_id(meter.budget.id, "threshold", _period_name(meter, period), str(ppm)),
            meter=meter,
            version=version,
            rule="threshold",
            period=period,
            holds=amount * WHOLE_PPM >= meter.amount * ppm,
            over=over,
            spent=amount,
            spent_gpu_ns=spent.gpu_ns,
            unconverted_nano=spent.unconverted_nano,
            through_ns=spent.through_ns,
            threshold_ppm=ppm,
            forecast=forecast,
        )


def _burn(meter: Meter, version: int, period: Period, sums: Sums, rule: BudgetRule) -> Iterator[Condition]:
    spent = _spent(meter, period, sums)
    amount = spent.nano if meter.money else spent.gpu_ns
    even = Fraction(meter.amount, period.end_ns - period.start_ns)
    for speed in SPEEDS:
        if speed not in rule.parameters:
            continue
        factor_nano, long_ns, short_ns = map(int, rule.parameters[speed].split())
        factor = Fraction(factor_nano, NANO_PER_UNIT)
        paces = [_pace(meter, span_ns, sums) for span_ns in (long_ns, short_ns)]
        yield Condition(
            id=breach_id(meter.budget.id, "burn_rate", _period_name(meter, period), speed),
            meter=meter,
            version=version,
            rule="burn_rate",
            period=period,
            holds=all(pace >= factor * even for pace in paces),
            over=False,
            spent=amount,
            spent_gpu_ns=spent.gpu_ns,
            unconverted_nano=spent.unconverted_nano,
            through_ns=sums.newest_end_ns,
            speed=speed,
            factor_nano=int(paces[0] / even * NANO_PER_UNIT),
            pending_ns=int(rule.parameters.get("pending_ns", "0")),
            forecast=_forecast(meter, period, amount, sums),
        )


def _period_name(meter: Meter, period: Period) -> int:
    """What names a period in an id; a rolling one has no start that stays."""
    return 0 if meter.budget.rolling_ns is not None else period.start_ns


def _spent(meter: Meter, period: Period, sums: Sums) -> Spent:
    rolling_ns = meter.budget.rolling_ns
    if rolling_ns is None:
        return sums.spent(meter.key, period.start_ns)
    length_ns = bucket_length_ns(rolling_ns)
    amount = sums.bucketed(meter.key, length_ns, period.end_ns - rolling_ns, period.end_ns)
    through_ns = sums.newest_end_ns
    return Spent(amount, 0, 0, through_ns) if meter.money else Spent(0, amount, 0, through_ns)


def _pace(meter: Meter, span_ns: int, sums: Sums) -> Fraction:
    """Amount a ns over the buckets of a span, the one under way included for as far as it has come."""
    now_ns = sums.newest_end_ns
    first_ns = (now_ns - 1) // BURN_BUCKET_NS * BURN_BUCKET_NS + BURN_BUCKET_NS - span_ns
    if span_ns == BURN_BUCKET_NS:
        first_ns -= BURN_BUCKET_NS  # a bucket that has just begun says nothing yet
    return Fraction(sums.bucketed(meter.key, BURN_BUCKET_NS, first_ns, now_ns), now_ns - first_ns)


def _forecast(meter: Meter, period: Period, amount: int, sums: Sums) -> tuple[int, int] | None:
    """Earliest and latest instant at which the amount is used up, by the period's pace and the recent one.

    None where it is used up, nothing is spent, or the period rolls.
    """
    now_ns, left = sums.newest_end_ns, meter.amount - amount
    if meter.budget.rolling_ns is not None or left <= 0 or now_ns <= period.start_ns:
        return None
    paces = [Fraction(amount, now_ns - period.start_ns)]
    if BURN_BUCKET_NS in meter.bucket_lengths_ns:
        paces.append(_pace(meter, min(RECENT_NS, max(BURN_BUCKET_NS, now_ns - period.start_ns)), sums))
    going = [pace for pace in paces if pace > 0]
    if not going:
        return None
    return now_ns + int(left / max(going)), now_ns + int(left / min(going))
