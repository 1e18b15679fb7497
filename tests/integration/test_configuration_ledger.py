"""What configuration asks of the ledger, and what the ledger shows where there is no price: real windows in
the embedded warehouse, against the same windows charged again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal

import pytest
from typer.testing import CliRunner

from gpuledger.attribution import charge_window
from gpuledger.configuration import teams_cli
from gpuledger.configuration.effect import Effect
from gpuledger.configuration.foresight import foresee
from gpuledger.configuration.ledger import minutes_of
from gpuledger.configuration.plan import Applied
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import Refused
from gpuledger.contract.records import (
    ChargeSet,
    Holder,
    NodeLayout,
    Pod,
    PriceBookVersion,
    PriceEntry,
    TeamMapVersion,
    TeamRule,
)
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.pricing import Prices, Teams
from gpuledger.pricing.commitments import unused_rows
from gpuledger.pricing.yaml_documents import Version
from gpuledger.sink.batcher import Batch
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import NAMED, Grain, Warehouse, period
from tests.e2e.demo.report import BY_TEAM
from tests.support.charge_sets import HOUR_NS, arrival, recent_window_ns
from tests.support.charging import WINDOW, Calls, gpu, state, window

pytest_plugins = ["tests.support.warehouse"]

START = recent_window_ns()
WINDOWS = 23
DOLLAR = 1_000_000_000
PODS = [
    Pod("uid-web", "shop", "web-1", workload="web", workload_kind="Deployment"),
    Pod("uid-train", "lab", "train-1", workload="train", workload_kind="Job"),
]


def charged(prices: Version | None, teams: Version | None = None) -> list[ChargeSet]:
    """23 windows of a node of two GPUs that two pods hold, one of them busy."""
    books = Prices([prices] if isinstance(prices, PriceBookVersion) else [])
    maps = Teams([teams] if isinstance(teams, TeamMapVersion) else [])
    layout = NodeLayout(
        instance_type="p5", region="r", node_pool="gold", gpu_count=2, devices=[gpu(0), gpu(1)]
    )
    sets = []
    for start in range(START, START + WINDOWS * WINDOW, WINDOW):
        holders = [Holder("uid-web", 0), Holder("uid-train", 1)]
        records = window(
            [state(layout, holders, pods=PODS, start=start)], [Calls([]).batch(start=start)], start=start
        )
        charges = charge_window(records, books, maps)
        assert charges.conservation_error_nano == 0
        sets.append(charges.record)
    return sets


def write(warehouse: Warehouse, sets: Sequence[ChargeSet]) -> None:
    batch = Batch([arrival(one, offset) for offset, one in enumerate(sets)])
    Writer(warehouse, SystemClock()).write(batch)


def by_team(warehouse: Warehouse) -> dict[str, Decimal | None]:
    return dict(warehouse.rows("SELECT team, sum(total) FROM charges GROUP BY team"))


def foreseen(url: str, new: Version, *known: Version) -> Effect:
    planned = Applied("", new, unchanged=False, known=known)
    return foresee(planned, (), url)


def book(*entries: PriceEntry, version: int = 1) -> PriceBookVersion:
    return PriceBookVersion(version, 0 if version == 1 else START + 2 * HOUR_NS, entries=list(entries))


NODE = PriceEntry("n", "node", 16 * DOLLAR, "USD", instance_type="p5")
GOLD = PriceEntry("g", "gpu", 7 * DOLLAR, "USD", node_pool="gold", priority=1)
HALF = PriceEntry("n", "node", 16 * DOLLAR, "USD", instance_type="p5", gpu_share_ppb=500_000_000)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([NODE], [PriceEntry("n", "node", 24 * DOLLAR, "USD", instance_type="p5")]),
        ([NODE], [HALF]),
        ([HALF], [NODE]),
        ([GOLD], [PriceEntry("g", "gpu", 3 * DOLLAR, "USD", node_pool="gold", priority=1)]),
        ([], [NODE]),
        ([NODE], []),
    ],
    ids=["dearer", "less of it is GPU", "all of it is GPU", "a node pool", "a first price", "no price left"],
)
def test_the_effect_that_is_foretold_is_what_charging_again_gives(
    warehouse: Warehouse, database_url: str, old: list[PriceEntry], new: list[PriceEntry]
) -> None:
    """To a nano for each row of each window: amounts are floored there, and once by hour here."""
    first, second = book(*old), book(*new, version=2)
    write(warehouse, charged(first))
    effect = foreseen(database_url, second, first)
    again = charged(PriceBookVersion(1, 0, entries=second.entries))
    write(warehouse, [_raised(one) for one in again])
    truth = by_team(warehouse)
    assert effect.windows == WINDOWS
    for (team, currency), nano in effect.after.items():
        assert currency == "USD"
        assert abs(nano - int((truth.get(team) or Decimal(0)).scaleb(9))) <= 4 * WINDOWS
    assert {team for (team, _), nano in effect.after.items() if nano} == {
        team for team in truth if truth[team]
    }
    assert effect.unpriced_after_ns == sum(int(one.unpriced_ns.sum()) for one in again)


def _raised(charges: ChargeSet) -> ChargeSet:
    charges.generation = 1
    return charges


def test_the_teams_that_are_foretold_are_what_charging_again_gives(
    warehouse: Warehouse, database_url: str
) -> None:
    prices = book(PriceEntry("p", "gpu", 2 * DOLLAR, "USD"))
    old = TeamMapVersion(1, 0, rules=[TeamRule("all", "everyone")])
    new = TeamMapVersion(
        2,
        START + 2 * HOUR_NS,
        rules=[TeamRule("web", "web", owner_kind="Deployment"), TeamRule("lab", "science", namespace="lab")],
    )
    write(warehouse, charged(prices, old))
    effect = foreseen(database_url, new, old)
    write(warehouse, [_raised(one) for one in charged(prices, TeamMapVersion(1, 0, rules=new.rules))])
    truth = {team: int((money or Decimal(0)).scaleb(9)) for team, money in by_team(warehouse).items()}
    after = {team: nano for (team, _), nano in effect.after.items() if nano}
    assert after == {team: nano for team, nano in truth.items() if nano}
    assert set(after) == {"web", "science"}
    assert not effect.uncertain


def test_a_pod_s_row_says_what_teams_explain_knows_of_it(
    warehouse: Warehouse, database_url: str, tmp_path
) -> None:
    teams = tmp_path / "teams.yaml"
    teams.write_text("kind: teams\nrules: [{id: web, team: web, match: {owner_kind: Deployment}}]\n")
    write(warehouse, charged(book()))
    arguments = ["explain", "--file", str(teams), "--url", database_url, "--json"]
    for name in ("uid-web", "web-1", "shop/web-1"):
        answer = json.loads(CliRunner().invoke(teams_cli.app, [*arguments, name]).stdout)
        assert (answer["team"], answer["rule"], answer["where"]) == ("web", "web", f"{teams}:2")
        assert answer["ledger"]["team"] == "shop"
        assert answer["consumer"]["cluster"] == "c"
    unknown = CliRunner().invoke(teams_cli.app, [*arguments, "shop/other"])
    assert isinstance(unknown.exception, Refused)


def test_what_has_no_price_is_null_in_the_views_and_its_time_stands_in_a_column(warehouse: Warehouse) -> None:
    """46 GPU-windows of 10 s: no money, all of the time without a price, by window, by hour and by team."""
    write(warehouse, charged(book(PriceEntry("other", "gpu", DOLLAR, "USD", gpu_model="another"))))
    time_ns = 2 * WINDOWS * WINDOW
    for view in ("charges", "charges_hourly"):
        (row,) = warehouse.rows(f"SELECT sum(v.total), sum(v.total_ns), sum(v.unpriced_ns) FROM {view} AS v")
        assert tuple(row) == (None, time_ns, time_ns)
        (rows,) = warehouse.rows(f"SELECT countIf(total = 0 AND total_ns > 0) FROM {view}")[0]
        assert rows == 0
    named = warehouse.rows(
        f"SELECT sum(unpriced_gpu_hours), max(total) FROM ({NAMED['by_team'].sql(Grain.WINDOW)})",
        period(START // 10**9, START // 10**9 + 3600),
    )
    assert named[0][0] == pytest.approx(time_ns / 3600e9, abs=1e-3)
    assert named[0][1] is None
    demo = {row[0]: row[-2:] for row in warehouse.rows(BY_TEAM)}
    assert {team: tuple(told) for team, told in demo.items()} == {
        "shop": (None, time_ns // 2),
        "lab": (None, time_ns // 2),
    }


def test_a_commitment_sums_to_its_own_total_over_what_was_used_and_what_was_not(warehouse: Warehouse) -> None:
    """Three nodes at 48 an hour are committed to; one ran in three minutes and 50 s of the fourth. Used and
    unused are 3 x 48 x 4 / 60 = 9.60, to the nano, by whichever minutes."""
    rate = PriceEntry(
        "three",
        "node",
        48 * DOLLAR,
        "USD",
        node_pool="gold",
        kind="commitment",
        commitment="three",
        commitment_quantity=3,
        gpu_share_ppb=900_000_000,
        priority=10,
    )
    prices = book(rate)
    write(warehouse, charged(prices))
    minutes, versions = minutes_of(warehouse, START, START + 4 * MINUTE_NS, ["three"])
    assert [minute.inputs for minute in minutes] == [6 * 3, 6 * 3, 6 * 3, 5 * 3]
    assert set(versions.values()) == {1}
    sets = [unused_rows(prices, minute) for minute in minutes]
    write(warehouse, sets)
    write(warehouse, sets)  # safe to repeat
    total = warehouse.rows("SELECT sum(total) FROM charges WHERE price_ids = 'three'")[0][0]
    assert total == Decimal("9.6")
    unused = warehouse.rows("SELECT count(), sum(total_ns) FROM charges WHERE reason = 'commitment'")[0]
    assert tuple(unused) == (4, 0)
