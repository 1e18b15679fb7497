"""`gpuledger budget status` from the ledger: what the budgets application counts, to the nano-unit."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.contribution import contribution
from gpuledger.budgets.lines import lines_of
from gpuledger.budgets.rates import Rates
from gpuledger.budgets.standing import Standing, standings
from gpuledger.cli import app
from gpuledger.contract.records import BudgetsVersion, ChargeSet, CurrencyRate
from gpuledger.contract.windows import DAY_NS, HOUR_NS, NS_PER_S
from gpuledger.pricing.yaml_documents import read_documents
from gpuledger.warehouse import Warehouse
from tests.support.charge_sets import WINDOW_NS, charge_set, recent_window_ns
from tests.support.simulated import write

pytest_plugins = ["tests.support.warehouse"]

NOW = recent_window_ns(0) + 25 * 60 * NS_PER_S
BUDGETS = """
kind: budgets
budgets:
  - {id: everything, period: month, amount: 100, currency: USD, counts: all}
  - {id: team-a, scope: {team: team-a}, period: week, amount: 5, currency: USD, time_zone: Asia/Kolkata}
  - {id: used, scope: {gpu_model: H100, cluster: c1}, period: day, gpu_hours: 1, counts: used}
  - {id: rolling, scope: {team: team-b}, period: rolling, rolling: 6h, gpu_hours: 3, counts: held_idle}
  - {id: euros, period: month, amount: 40, currency: EUR, counts: all}
  - {id: others, scope: {team: nobody}, period: month, amount: 1, currency: USD}
"""


def document(text: str = BUDGETS) -> BudgetsVersion:
    (found,) = read_documents(text, "budgets.yaml")
    assert isinstance(found, BudgetsVersion)
    return replace(found, version=1, active_from_ns=0)


def at(hours_ago: float, **more: Any) -> ChargeSet:
    start = NOW - round(hours_ago * HOUR_NS)
    return charge_set(start - start % WINDOW_NS, **more)


def asked(warehouse: Warehouse, text: str = BUDGETS, rates: Rates | None = None) -> dict[str, Standing]:
    plan = Catalog([document(text)]).plan_at(NOW)
    found = standings(warehouse, plan, rates or Rates(), NOW)
    return {one.meter.budget.id: one for one in found}


@pytest.mark.parametrize("stored", [False, True])
def test_what_is_spent_is_what_the_budgets_application_counts(warehouse: Warehouse, stored: bool) -> None:
    sets = [at(hours) for hours in (0.1, 0.9, 1.1, 3, 5.99, 6.01, 20, 30, 90, 300, 700)]
    write(warehouse, sets, store_hours=stored)
    catalog = Catalog([document()])
    found = asked(warehouse)
    for one in found.values():
        counted = 0
        for charges in sets:
            if one.period.start_ns <= charges.window_start_ns < one.period.end_ns:
                start_ns = charges.window_start_ns
                plan, rates = catalog.plan_at(start_ns), catalog.rates(1)
                part = contribution(plan, rates, "c1", start_ns, lines_of(charges))
                amounts = part.counted.get(one.meter.key)
                counted += (amounts.nano if one.meter.money else amounts.gpu_ns) if amounts else 0
        assert one.spent == counted, one.meter.budget.id
    assert found["rolling"].spent > 0
    assert found["others"].spent == 0


def test_money_of_another_currency_is_converted_or_said_to_be_missing(warehouse: Warehouse) -> None:
    write(warehouse, [at(0.1, pods=["a"], nano=1_000_000_000)])
    without = asked(warehouse)["euros"]
    assert (without.spent, without.unconverted_nano) == (0, 4_000_000_000)
    rates = Rates(
        [CurrencyRate(from_currency="USD", to_currency="EUR", rate_nano=900_000_000, effective_from_ns=0)]
    )
    with_rate = asked(warehouse, rates=rates)["euros"]
    assert (with_rate.spent, with_rate.unconverted_nano) == (3_600_000_000, 0)


def test_burn_is_a_multiple_of_the_even_pace(warehouse: Warehouse) -> None:
    """A day's budget of 24: even is 1 an hour. 3 in the last hour, 6 in the last six."""
    text = (
        "kind: budgets\nbudgets: [{id: d, period: rolling, rolling: 24h, amount: 24,"
        " currency: USD, counts: used}]"
    )
    write(warehouse, [at(hours, pods=["a"], nano=3_000_000_000) for hours in (0.5, 5, 10)])
    found = asked(warehouse, text)["d"]
    assert found.burn == (3.0, 1.0)
    assert found.spent == 9_000_000_000
    assert (found.forecast, found.used_up_ns) == (None, None)  # a rolling period does not end


def test_a_forecast_goes_by_the_budgets_history(warehouse: Warehouse) -> None:
    """1 an hour since ever, in a period of 40 days of which 20 are over: 960 in all, 500 of it is reached."""
    write(warehouse, [at(hour + 0.2, pods=["a"], nano=1_000_000_000) for hour in range(24 * 20)])
    start, end = (time.strftime("%Y-%m-%dT%H:00:00Z", time.gmtime(s // NS_PER_S))
                  for s in (NOW - 20 * DAY_NS, NOW + 20 * DAY_NS))  # fmt: skip
    text = (
        f'kind: budgets\nbudgets: [{{id: f, period: fixed, starts: "{start}", ends: "{end}", amount: 500,'
        " currency: USD, counts: used}]"
    )
    found = asked(warehouse, text)["f"]
    assert found.by_history
    assert found.forecast is not None
    assert found.forecast.mean / NS_PER_S == pytest.approx(960, rel=0.01)
    assert found.forecast.low <= found.forecast.mean <= found.forecast.high
    assert found.used_up_ns is not None
    assert (found.used_up_ns - NOW) / HOUR_NS == pytest.approx(500 - found.spent / NS_PER_S, abs=3)


def test_without_a_history_it_goes_by_the_pace_of_the_period(warehouse: Warehouse) -> None:
    start, end = (time.strftime("%Y-%m-%dT%H:00:00Z", time.gmtime(s // NS_PER_S))
                  for s in (NOW - 10 * HOUR_NS, NOW + 30 * HOUR_NS))  # fmt: skip
    text = (
        f'kind: budgets\nbudgets: [{{id: p, period: fixed, starts: "{start}", ends: "{end}", amount: 10,'
        " currency: USD, counts: used}]"
    )
    write(warehouse, [at(hour + 0.2, pods=["a"], nano=500_000_000) for hour in range(10)])
    found = asked(warehouse, text)["p"]
    assert not found.by_history
    assert found.forecast is not None
    passed, whole = NOW - found.period.start_ns, found.period.end_ns - found.period.start_ns
    assert found.forecast.mean == pytest.approx(5e9 * whole / passed)
    assert found.used_up_ns == pytest.approx(NOW + passed, abs=10 * NS_PER_S)


ROLLING = """
kind: budgets
budgets:
  - {id: everything, period: rolling, rolling: 24h, amount: 100, currency: USD, counts: all}
  - {id: team-a, scope: {team: team-a}, period: rolling, rolling: 24h, amount: 500, currency: USD}
  - {id: euros, period: rolling, rolling: 24h, amount: 40, currency: EUR, counts: all}
  - {id: hours, period: rolling, rolling: 24h, gpu_hours: 1, counts: used}
"""


def test_the_command_shows_bars_and_says_what_is_missing(warehouse: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "budgets.yaml"
    path.write_text(ROLLING)
    start = recent_window_ns(2)
    unpriced = charge_set(start, pods=["x"], node="n2", priced=False)
    unpriced.unpriced_ns[:] = 7200 * NS_PER_S
    over = charge_set(start, pods=["a"], nano=30_000_000_000)
    write(warehouse, [over, unpriced])
    options = ["budget", "status", "--url", str(warehouse.url), "--file", str(path)]
    told = CliRunner().invoke(app, options, catch_exceptions=False).output
    for text in ("everything", "█", "░", "used up", "NO PRICE for up to 2.00 GPU-hours", "NO RATE", "GPU-h"):
        assert text in told
    rows = json.loads(CliRunner().invoke(app, [*options, "--json"], catch_exceptions=False).output)
    by_id = {row["id"]: row for row in rows}
    assert by_id["everything"]["spent"] == 120_000_000_000
    assert by_id["everything"]["thresholds_crossed_ppm"] == [1_000_000]
    assert (by_id["everything"]["burn_1h"], by_id["everything"]["burn_6h"] > 0.0) == (0.0, True)
    assert (by_id["everything"]["forecast"], by_id["everything"]["days_left"]) == (None, None)  # it rolls
    assert by_id["team-a"]["thresholds_crossed_ppm"] == []
    assert by_id["hours"]["unit"] == "gpu_ns"
    only = json.loads(CliRunner().invoke(app, [*options, "--json", "--team", "team-a"]).output)
    assert [row["id"] for row in only] == ["team-a"]
