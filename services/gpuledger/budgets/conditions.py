"""Which lines are crossed: the rules of every budget, asked of the sums at the ledger's own time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuledger.budgets.catalog import IDLE, Catalog, Meter
from gpuledger.budgets.condition import WHOLE_PPM, Condition, line_of
from gpuledger.budgets.historic import of_history
from gpuledger.budgets.idle import of_idle
from gpuledger.budgets.paces import burnt, spent_in
from gpuledger.budgets.periods import Period, period_of
from gpuledger.budgets.reaches import Reach
from gpuledger.budgets.sums import Sums, Touched
from gpuledger.contract.money import NANO_PER_UNIT
from gpuledger.contract.records import BudgetRule

SPEEDS = ("fast", "slow")


def conditions(
    catalog: Catalog, sums: Sums, touched: Touched | None = None, judged_ns: int = 0
) -> Iterator[Condition]:
    """Every line of the budgets in effect at the end of the newest window. With ``touched``, which changed
    since all was judged at ``judged_ns``, without those that are as they were."""
    now_ns = sums.newest_end_ns
    if not now_ns:
        return
    plan = catalog.plan_at(now_ns - 1)
    keys = {key for key, _ in touched} if touched is not None and judged_ns == now_ns else None
    for key, meter in plan.meters.items():
        if (keys is not None and key not in keys) or not meter.is_effective(now_ns - 1):
            continue
        present = meter.period(now_ns - 1)
        if present is not None:
            yield from _of_period(meter, plan.version, present, sums, catalog.brought)
        if meter.budget.rolling_ns is None:
            present_ns = present.start_ns if present is not None else now_ns
            yield from _of_ended(catalog, meter, sums, present_ns, touched, judged_ns)


def _of_ended(
    catalog: Catalog, meter: Meter, sums: Sums, before_ns: int, touched: Touched | None, judged_ns: int
) -> Iterator[Condition]:
    """The lines of periods that have ended, each by the budget as it was at its end."""
    starts = [start_ns for start_ns in sums.starts(meter.key) if start_ns < before_ns]
    for start_ns in starts:
        as_it_was = touched is not None and (meter.key, start_ns) not in touched
        if as_it_was and (judged_ns > before_ns or start_ns != starts[-1]):
            continue  # it had ended already, or what was told of it ends with its period
        period = period_of(meter.budget, start_ns)
        if period is None or period.end_ns > sums.newest_end_ns - 1:
            continue
        plan = catalog.plan_at(period.end_ns - 1)
        then = plan.meters.get(meter.key)
        if then is not None:
            yield from _thresholds(then, plan.version, period, sums, catalog.brought, over=True)


def _of_period(
    meter: Meter, version: int, period: Period, sums: Sums, brought: Mapping[str, Reach]
) -> Iterator[Condition]:
    yield from _thresholds(meter, version, period, sums, brought, over=False)
    for rule in meter.budget.rules:
        if rule.kind == "burn_rate":
            yield from _burn(meter, version, period, sums, rule)
        elif rule.kind == IDLE:
            yield of_idle(meter, version, period, sums, rule)
        else:
            yield from of_history(meter, version, period, sums, rule)


def _thresholds(
    meter: Meter, version: int, period: Period, sums: Sums, brought: Mapping[str, Reach], over: bool
) -> Iterator[Condition]:
    spent = spent_in(meter, period, sums)
    amount = spent.nano if meter.money else spent.gpu_ns
    reach = brought.get(meter.key)
    if reach is not None and (meter.budget.rolling_ns is not None or not _in(period, reach)):
        reach = None
    for ppm in meter.budget.thresholds_ppm.tolist():
        holds = amount * WHOLE_PPM >= meter.amount * ppm
        line = ("threshold", str(ppm))
        yield line_of(*line, meter, version, period, sums, holds, over=over, threshold_ppm=ppm, brought=reach)


def _in(period: Period, reach: Reach) -> bool:
    return period.start_ns <= reach.from_ns < period.end_ns


def _burn(meter: Meter, version: int, period: Period, sums: Sums, rule: BudgetRule) -> Iterator[Condition]:
    period_ns = period.end_ns - period.start_ns
    for speed in SPEEDS:
        if speed not in rule.parameters:
            continue
        factor_nano, long_ns, short_ns = map(int, rule.parameters[speed].split())
        factors = []
        for span_ns in (long_ns, short_ns):
            amount, over_ns = burnt(meter, span_ns, sums)
            factors.append(amount * period_ns * NANO_PER_UNIT // (over_ns * meter.amount))
        yield line_of(
            "burn_rate",
            speed,
            meter,
            version,
            period,
            sums,
            min(factors) >= factor_nano,
            speed=speed,
            factor_nano=factors[0],
            pending_ns=int(rule.parameters.get("pending_ns", "0")),
        )
