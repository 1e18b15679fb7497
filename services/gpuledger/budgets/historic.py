"""The rules that look back: what is expected by the period's end, and a change against the own history."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuledger.budgets.catalog import Meter
from gpuledger.budgets.condition import Condition, line_of
from gpuledger.budgets.history import BUCKET_NS, BUCKETS_A_DAY, HISTORY_DAYS, deviation, expected
from gpuledger.budgets.paces import spent_in
from gpuledger.budgets.periods import Period
from gpuledger.budgets.sums import Sums
from gpuledger.contract.columns import Doubles
from gpuledger.contract.money import NANO_PER_UNIT, format_nano
from gpuledger.contract.records import BudgetRule
from gpuledger.contract.windows import DAY_NS, HOUR_NS

WHOLE_PPM = 1_000_000
MONEY_DIGITS = 2


def of_history(
    meter: Meter, version: int, period: Period, sums: Sums, rule: BudgetRule
) -> Iterator[Condition]:
    """The line of a rule ``forecast`` or ``anomaly``; none while there is too little history."""
    yield from (_forecast if rule.kind == "forecast" else _anomaly)(meter, version, period, sums, rule)


def _forecast(
    meter: Meter, version: int, period: Period, sums: Sums, rule: BudgetRule
) -> Iterator[Condition]:
    boundary_ns = sums.newest_end_ns // BUCKET_NS * BUCKET_NS
    history = _history(meter, boundary_ns, sums)
    first_ns = boundary_ns - history.size * BUCKET_NS
    ahead = expected(history, first_ns, period.end_ns)
    if ahead is None:
        return
    spent = spent_in(meter, period, sums)
    now = spent.nano if meter.money else spent.gpu_ns
    at_boundary = now - sums.bucketed(meter.key, BUCKET_NS, boundary_ns, boundary_ns + BUCKET_NS)
    low, high = (max(now, at_boundary + int(value)) for value in (ahead.low, ahead.high))
    reaches = int(rule.parameters["reaches_ppm"])
    yield line_of(
        "forecast",
        str(reaches),
        meter,
        version,
        period,
        sums,
        low * WHOLE_PPM >= meter.amount * reaches,
        pending_ns=int(rule.parameters["pending_ns"]),
        told=f"{_said(meter, low)} to {_said(meter, high)} expected by the end of the period",
    )


def _anomaly(meter: Meter, version: int, period: Period, sums: Sums, rule: BudgetRule) -> Iterator[Condition]:
    boundary_ns = sums.newest_end_ns // BUCKET_NS * BUCKET_NS
    history = _history(meter, boundary_ns, sums)
    if not history.size:
        return
    by_day = history.reshape(-1, BUCKETS_A_DAY)[:, -1]  # rows end where the newest whole bucket ends
    newest, same = float(by_day[-1]), by_day[:-1]
    found = deviation(newest, same)
    if found is None:
        return
    usual = int(np.median(same))
    far = found >= int(rule.parameters["deviations_nano"]) / NANO_PER_UNIT
    much = (newest - usual) * WHOLE_PPM >= meter.amount * int(rule.parameters["least_ppm"])
    yield line_of(
        "anomaly",
        "",
        meter,
        version,
        period,
        sums,
        far and much,
        factor_nano=int(found * NANO_PER_UNIT),
        told=f"{_said(meter, int(newest))} in two hours, usually {_said(meter, usual)}",
    )


def _history(meter: Meter, boundary_ns: int, sums: Sums) -> Doubles:
    """Whole days of buckets up to an instant, from the first day in which anything was spent."""
    first_ns = boundary_ns - HISTORY_DAYS * DAY_NS
    history = sums.buckets(meter.key, BUCKET_NS, first_ns, HISTORY_DAYS * BUCKETS_A_DAY).astype(np.float64)
    spent = np.flatnonzero(history)
    if not spent.size:
        return history[:0]
    days = (history.size - int(spent[0])) // BUCKETS_A_DAY
    return history[history.size - days * BUCKETS_A_DAY :]


def _said(meter: Meter, amount: int) -> str:
    if meter.money:
        return f"{format_nano(amount, MONEY_DIGITS)} {meter.budget.currency}"
    return f"{amount / HOUR_NS:.1f} GPU-hours"
