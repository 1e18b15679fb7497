"""`gpuledger spend` over a simulated fleet's ledger: sums to the nano, currencies and prices told apart."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gpuledger.cli import app
from gpuledger.contract.errors import UserError
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.windows import HOUR_NS, NS_PER_S
from gpuledger.simulate import FleetSpec, plan_node
from gpuledger.spend import DIMENSIONS, Question, Span, Spending, ask
from gpuledger.warehouse import Warehouse
from tests.support.charge_sets import charge_set, recent_window_ns
from tests.support.children import tied
from tests.support.simulated import charged, write

pytest_plugins = ["tests.support.warehouse"]

START = recent_window_ns(hours_ago=4)
CATEGORIES = ("used", "held_idle", "unallocated", "unobserved")


def instant(at_ns: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ns // NS_PER_S))


def spend(warehouse: Warehouse, *options: str) -> str:
    result = CliRunner().invoke(app, ["spend", "--url", str(warehouse.url), *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def answered(warehouse: Warehouse, by: str, start_ns: int, end_ns: int, **more: str) -> list[Spending]:
    question = Question(by, Span(start_ns // NS_PER_S, end_ns // NS_PER_S), **more)
    return ask(warehouse, question, time.time_ns() // NS_PER_S)


def of_team(sets: list[ChargeSet], team: str) -> int:
    return sum(
        int(getattr(s, f"{name}_nano")[row])
        for s in sets
        for row in range(len(s.device))
        for name in CATEGORIES
        if s.texts[s.team[row]] == team
    )


@pytest.fixture(scope="module")
def fleet() -> list[ChargeSet]:
    """Two nodes in two clusters, three hours, a window each quarter of an hour."""
    spec = FleetSpec(16, 3, start_ns=START, window_ns=60 * NS_PER_S, clusters=2, agent_crashes=0, node_ends=0)
    return charged(spec, [plan_node(spec, number) for number in range(2)], every_ns=900 * NS_PER_S)


@pytest.mark.parametrize("by", DIMENSIONS)
@pytest.mark.parametrize("stored", [False, True])
def test_spend_by_anything_is_the_whole_ledger(
    warehouse: Warehouse, fleet: list[ChargeSet], by: str, stored: bool
) -> None:
    """From 25 minutes past to 40 past, so that hours and windows both speak."""
    write(warehouse, fleet, store_hours=stored)
    start, end = START + 25 * 60 * NS_PER_S, START + 2 * HOUR_NS + 40 * 60 * NS_PER_S
    inside = [s for s in fleet if start <= s.window_start_ns < end]
    before = [s for s in fleet if s.window_start_ns < start]
    found = answered(warehouse, by, start, end)
    for name in CATEGORIES:
        whole = sum(int(getattr(s, f"{name}_nano").sum()) for s in inside)
        assert sum(one.nano[name] or 0 for one in found) == whole
        assert whole or name == "unobserved"
        assert sum(one.ns[name] for one in found) == sum(int(getattr(s, f"{name}_ns").sum()) for s in inside)
    assert sum(map(sum, (one.trend_nano for one in found))) == sum(one.total_nano for one in found)
    if by in ("team", "cluster", "model"):  # all that were there before are there still
        earlier = sum(int(getattr(s, f"{name}_nano").sum()) for s in before for name in CATEGORIES)
        assert sum(one.before_nano or 0 for one in found) == earlier > 0


def test_hours_and_windows_agree_on_a_long_span(warehouse: Warehouse, fleet: list[ChargeSet]) -> None:
    write(warehouse, fleet, store_hours=True)
    everybody = answered(warehouse, "team", START - 48 * HOUR_NS, START + 4 * HOUR_NS)
    (vision,) = [one for one in everybody if one.key == ("vision",)]
    assert vision.total_nano == of_team(fleet, "vision") > 0


def test_one_team_in_one_cluster_is_told_alone(warehouse: Warehouse, fleet: list[ChargeSet]) -> None:
    write(warehouse, fleet)
    mine = [s for s in fleet if s.cluster == "cluster-1"]
    found = answered(warehouse, "cluster", START, START + 3 * HOUR_NS, team="ads", cluster="cluster-1")
    assert [(one.key, one.total_nano) for one in found] == [(("cluster-1",), of_team(mine, "ads"))]


def test_one_name_in_two_clusters_is_two(warehouse: Warehouse, fleet: list[ChargeSet]) -> None:
    write(warehouse, fleet)
    keys = [one.key for one in answered(warehouse, "namespace", START, START + 3 * HOUR_NS)]
    assert {("cluster-0", "vision"), ("cluster-1", "vision")} <= set(keys)


def test_time_without_a_price_is_said_loudly_and_never_a_zero(warehouse: Warehouse) -> None:
    priced, unpriced = (
        charge_set(START, pods=["a"], nano=7),
        charge_set(START, pods=["b"], node="n2", priced=False),
    )
    priced.unpriced_ns[:] = 0
    unpriced.unpriced_ns[:] = 1800 * NS_PER_S
    write(warehouse, [priced, unpriced])
    options = ("--by", "pod", "--since", instant(START), "--until", instant(START + HOUR_NS))
    text = spend(warehouse, *options)
    assert "NO PRICE for 0.50 GPU-hours" in text
    assert "(no price)" in text
    rows = {row["pod"]: row for row in json.loads(spend(warehouse, *options, "--json"))["rows"]}
    assert rows["a"]["total_nano"] == 28
    assert (rows["b"]["total_nano"], rows["b"]["currency"]) == (None, None)
    assert rows["b"]["unpriced_ns"] == 1800 * NS_PER_S


def test_unpriced_time_of_a_team_stands_beside_its_money(warehouse: Warehouse) -> None:
    sets = [charge_set(START, pods=["a"], nano=7), charge_set(START, pods=["a"], node="n2", priced=False)]
    sets[0].unpriced_ns[:], sets[1].unpriced_ns[:] = 0, 5
    write(warehouse, sets)
    (team,) = answered(warehouse, "team", START, START + HOUR_NS)
    assert (team.total_nano, team.unpriced_ns, team.currency) == (28, 5, "USD")
    assert team.ns["used"] == int(sets[0].used_ns.sum() + sets[1].used_ns.sum())


def test_two_currencies_are_never_summed(warehouse: Warehouse) -> None:
    dollars, euros = charge_set(START, pods=["a"], nano=7), charge_set(START, pods=["a"], node="n2", nano=3)
    euros.texts = ["EUR" if text == "USD" else text for text in euros.texts]
    write(warehouse, [dollars, euros])
    report = json.loads(spend(warehouse, "--since", "8h", "--json"))
    assert {row["currency"]: row["total_nano"] for row in report["totals"]} == {"EUR": 12, "USD": 28}


def test_unused_commitments_are_no_ones_spend(warehouse: Warehouse) -> None:
    """They are outside the law: their row's money is in no total of GPU time."""
    sets = [charge_set(START, pods=["a"], nano=7), charge_set(START, pods=["b"], node="-", nano=9)]
    sets[1].texts = ["commitment" if text == "none" else text for text in sets[1].texts]
    write(warehouse, sets)
    assert sum(one.total_nano for one in answered(warehouse, "pod", START, START + HOUR_NS)) == 28


def test_the_table_shows_parts_share_and_trend(warehouse: Warehouse, fleet: list[ChargeSet]) -> None:
    write(warehouse, fleet)
    text = spend(warehouse, "--since", instant(START), "--until", instant(START + 3 * HOUR_NS), "--top", "2")
    head = next(line for line in text.splitlines() if "held idle" in line)
    for name in ("team", "GPU-h", "used", "effective", "unobserved", "total USD", "share", "trend"):
        assert name in head
    assert "others" in text
    assert "100.0 %" in text
    assert "█" in text


def test_effective_use_that_is_known_in_part_is_a_lower_bound(warehouse: Warehouse) -> None:
    charges = charge_set(START, pods=["a", "b"], nano=4_000_000_000)
    charges.team[:] = 7
    charges.effective_known = np.array([1, 0], np.int64)
    charges.effectively_used_nano[:] = 3_000_000_000
    write(warehouse, [charges])
    assert "≥ 3.0000" in spend(warehouse, "--since", "8h")


def test_a_ledger_without_anything_says_so(warehouse: Warehouse) -> None:
    assert "nothing of this time" in spend(warehouse)
    report: dict[str, Any] = json.loads(spend(warehouse, "--json"))
    assert report["rows"] == report["totals"] == []


def test_money_keeps_every_digit(warehouse: Warehouse) -> None:
    write(warehouse, [charge_set(START, pods=["a"], nano=9_007_199_254_740_993)])
    (row,) = json.loads(spend(warehouse, "--since", "8h", "--json"))["rows"]
    assert row["used_nano"] == 9_007_199_254_740_993
    assert warehouse.rows("SELECT sum(used) FROM charges")[0][0] == Decimal("9007199.254740993")


def test_a_report_that_is_followed_takes_up_what_comes_later(warehouse: Warehouse) -> None:
    write(warehouse, [charge_set(START, pods=["a"], nano=7)])
    options = ["spend", "--url", str(warehouse.url), "--since", "8h", "--follow", "--every", "1", "--json"]
    command = tied([sys.executable, "-m", "gpuledger", *options])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        write(warehouse, [charge_set(START + 10 * NS_PER_S, pods=["a"], nano=7)])
        later = next(
            report for line in process.stdout if (report := json.loads(line))["totals"] != first["totals"]
        )
        process.terminate()
    assert [first["totals"][0]["total_nano"], later["totals"][0]["total_nano"]] == [28, 56]


def test_a_wrong_call_is_refused_in_words(warehouse: Warehouse) -> None:
    for options in (["--by", "moon"], ["--follow", "--until", "2026-12-01"], ["--since", "soon"]):
        with pytest.raises(UserError, match="--"):
            CliRunner().invoke(app, ["spend", "--url", str(warehouse.url), *options], catch_exceptions=False)
