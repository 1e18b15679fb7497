"""What `gpuledger budget status --json` says of one budget, field by field."""

from __future__ import annotations

from dataclasses import replace

from gpuledger.budgets import Meter
from gpuledger.budgets.history import Expected
from gpuledger.budgets.periods import Period
from gpuledger.budgets.standing import Standing
from gpuledger.budgets.standing_show import as_json
from gpuledger.contract.columns import longs
from gpuledger.contract.records import Budget
from gpuledger.contract.windows import DAY_NS

DAY = 20_000 * DAY_NS
NOW = DAY + 3 * DAY_NS
STANDING = Standing(
    meter=Meter(
        Budget(
            id="b",
            period="week",
            amount_nano=1_000,
            currency="EUR",
            thresholds_ppm=longs([500_000, 600_000, 1_000_000]),
            counts=["used"],
        )
    ),
    period=Period(DAY, DAY + 7 * DAY_NS),
    counted_from_ns=DAY + DAY_NS,
    spent=600,
    burn=(2.00004, 1.5),
    forecast=Expected(1_399.6, 1_400.4, 1_500.0),
    by_history=True,
    used_up_ns=NOW + DAY_NS * 3 // 2,
    unconverted_nano=7,
    unpriced_ns=9,
)


def test_all_that_is_known_of_a_budget_is_in_its_row() -> None:
    row = as_json(STANDING, NOW)
    assert row["spent_ratio"] == 0.6
    assert row["thresholds_crossed_ppm"] == [500_000, 600_000]
    assert (row["burn_1h"], row["burn_6h"]) == (2.0, 1.5)
    assert row["forecast"] == {"low": 1_400, "mean": 1_400, "high": 1_500}
    assert row["forecast_by_history"] is True
    assert (row["used_up_ns"], row["days_left"]) == (NOW + DAY_NS * 3 // 2, 1.5)
    assert (row["unconverted_nano"], row["unpriced_ns"]) == (7, 9)
    assert (row["counted_from_ns"], row["period_end_ns"]) == (DAY + DAY_NS, DAY + 7 * DAY_NS)


def test_what_lasts_has_no_days_left_and_a_rolling_budget_no_forecast() -> None:
    row = as_json(replace(STANDING, used_up_ns=None, forecast=None, by_history=False), NOW)
    assert row["days_left"] is None
    assert row["used_up_ns"] is None
    assert row["forecast"] is None
