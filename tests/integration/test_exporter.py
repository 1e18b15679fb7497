"""The exporter over the real engine: what it tells is what the ledger says, and a hole is a hole."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpuledger.contract.clock import NS_PER_S, ManualClock, SystemClock
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.rows import Flag
from gpuledger.exporter import Exporter, Limits, metrics
from gpuledger.exporter.families import LAST_XID
from gpuledger.exporter.question import ask
from gpuledger.localstack import free_port
from gpuledger.sink.batcher import Batch
from gpuledger.sink.breaches import write as write_breaches
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse, connect, migrate
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.support.breaches import breach
from tests.support.charge_sets import HOUR_NS, WINDOW_NS, arrival, charge_set
from tests.support.waiting import until

pytest_plugins = ["tests.support.warehouse"]

NOW_NS = (time.time_ns() // HOUR_NS) * HOUR_NS - HOUR_NS // 2  # half past: hour and month are one
START = NOW_NS - 600 * NS_PER_S
PARTS = ("used", "held_idle", "unallocated", "unobserved")


def write(warehouse: Warehouse, *sets: ChargeSet) -> None:
    Writer(warehouse, SystemClock()).write(
        Batch([arrival(charges, offset) for offset, charges in enumerate(sets)])
    )


def scraped(collector: Any) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by name, and by the label values in the order of the labels' names."""
    registry = CollectorRegistry()
    registry.register(collector)
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            key = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name.removeprefix("gpuledger_"), {})[key] = sample.value
    return found


def exporter(url: str, limits: Limits | None = None, clock: Any = None) -> Exporter:
    return Exporter(lambda: connect(url), clock or ManualClock(NOW_NS), 60.0, limits or Limits())


def told(url: str, limits: Limits | None = None) -> dict[str, dict[tuple[str, ...], float]]:
    one = exporter(url, limits)
    one.refresh()
    return scraped(one)


def ten_minutes(node: str = "n1", **options: Any) -> list[ChargeSet]:
    return [charge_set(START + n * WINDOW_NS, node=node, **options) for n in range(60)]


def test_money_gpus_and_shares_are_those_of_the_ledger(warehouse: Warehouse, database_url: str) -> None:
    sets = ten_minutes()
    write(warehouse, *sets)
    found = told(database_url)
    for team, rows in (("team-a", slice(0, None, 2)), ("team-b", slice(1, None, 2))):
        for part in PARTS:
            nano = sum(int(getattr(one, f"{part}_nano")[rows].sum()) for one in sets)
            ns = sum(int(getattr(one, f"{part}_ns")[rows].sum()) for one in sets)
            assert found["spend_month"]["c1", "USD", part, team] == pytest.approx(nano / 1e9)
            assert found["spend_per_hour"]["c1", "USD", part, team] == pytest.approx(nano / 1e9 * 6)
            assert found["gpus"]["c1", part, team] == pytest.approx(ns / (600 * NS_PER_S))
            assert found["gpu_hours_month"]["c1", part, team] == pytest.approx(ns / HOUR_NS)
        assert found["evidence_ratio"]["c1", "busy_estimated", team] == 1
        assert 0 < found["completeness_ratio"]["c1", team] < 1
    assert found["ledger_age_seconds"]["c1",] == 0
    idle = sum(int(one.held_idle_nano[0]) for one in sets) / 1e9 * 6
    assert found["pod_held_idle_per_hour"]["c1", "USD", "", "pod-0", "team-a"] == pytest.approx(idle)
    assert found["pod_present_ratio"]["c1", "", "pod-0", "team-a"] == pytest.approx(1 / 6)
    assert 0 < found["node_unobserved_ratio"]["c1", "n1"] < 1


def test_what_has_no_price_has_gpus_and_no_money(warehouse: Warehouse, database_url: str) -> None:
    write(warehouse, *ten_minutes(priced=False))
    found = told(database_url)
    assert not {"spend_month", "spend_per_hour", "pod_held_idle_per_hour"} & set(found)
    assert found["gpus"]["c1", "used", "team-a"] > 0
    assert found["unpriced_gpus"]["c1", "team-a"] > 0


def test_a_device_is_named_with_each_xid_error_and_others_are_not(
    warehouse: Warehouse, database_url: str
) -> None:
    """79 says that the device fell off the bus; 154, which follows it, does not hide that."""
    sets = [_without_xid(one) for one in ten_minutes()]
    sets[7].xid[1] = sets[9].xid[1] = 79
    sets[8].xid[1] = 154
    others = [_without_xid(one) for one in ten_minutes(node="n2")]
    write(warehouse, *sets, *others)
    assert told(database_url)["device_xid"] == {
        ("c1", "GPU-0", "n1", "79"): 1, ("c1", "GPU-0", "n1", "154"): 1,
    }  # fmt: skip


def test_devices_above_the_limit_are_together_by_their_code(warehouse: Warehouse, database_url: str) -> None:
    """So that the limit hides no hardware error."""
    nodes = {
        f"n{number}": [_without_xid(one) for one in ten_minutes(node=f"n{number}")] for number in range(4)
    }
    for sets, code in zip(nodes.values(), (13, 13, 79, LAST_XID + 1), strict=True):
        sets[0].xid[0] = code
    write(warehouse, *[one for sets in nodes.values() for one in sets])
    assert told(database_url, Limits(devices=1))["device_xid"] == {
        ("c1", "GPU-0", "n0", "13"): 1, ("c1", "other", "other", "13"): 1, ("c1", "other", "other", "79"): 1,
        ("c1", "other", "other", "other"): 1,
    }  # fmt: skip


def _without_xid(charges: ChargeSet) -> ChargeSet:
    charges.xid = np.zeros(len(charges.xid), np.int64)
    charges.flags = np.full(len(charges.flags), int(Flag.EVENTS_LOST), np.int64)
    return charges


def test_what_is_above_a_limit_is_together_and_sums_stay(warehouse: Warehouse, database_url: str) -> None:
    sets = [_without_xid(one) for node in ("n1", "n2") for one in ten_minutes(node=node, rows=23)]
    sets[0].xid[0] = sets[-1].xid[0] = 13
    write(warehouse, *sets)
    whole, cut = told(database_url), told(database_url, Limits(teams=1, pods=5, nodes=1, devices=1))
    assert {key[-1] for key in cut["gpus"]} == {"team-a", "other"}
    assert len({key[1:] for key in cut["pod_used_ratio"] if "other" not in key}) <= 5
    for name in ("spend_month", "spend_per_hour", "gpus", "gpu_hours_month", "pod_held_idle_per_hour"):
        assert sum(cut[name].values()) == pytest.approx(sum(whole[name].values()))
    folded = {of: count for (of,), count in cut["exporter_folded_groups"].items()}
    assert folded == {"team": 1, "pod": 18, "node": 1, "device": 1}
    assert set(whole["exporter_folded_groups"].values()) == {0}


def test_budgets_are_told_as_their_last_breach_told_of_them(warehouse: Warehouse, database_url: str) -> None:
    period = {"period_start_ns": NOW_NS - HOUR_NS, "period_end_ns": NOW_NS + HOUR_NS}
    money = {"budget_id": "money", **period}
    in_time = {"spent_nano": None, "amount_nano": None, "currency": "", "amount_gpu_ns": 8 * HOUR_NS}
    changes = [
        breach("m1", 1, spent_nano=80 * 10**9, at_ns=NOW_NS - 9 * NS_PER_S, **money),
        breach("m2", 1, spent_nano=120 * 10**9, at_ns=NOW_NS - 5 * NS_PER_S, **money),
        breach("m1", 2, "resolved", spent_nano=130 * 10**9, at_ns=NOW_NS - 7 * NS_PER_S, **money),
        breach("t1", 1, "pending", budget_id="time", spent_gpu_ns=2 * HOUR_NS, **in_time, **period),
        breach("i1", 1, rule="idle", spent_nano=3 * 10**9, at_ns=NOW_NS, **money),
        breach("o1", 1, "firing", budget_id="old", period_start_ns=0, period_end_ns=HOUR_NS),
        breach("o1", 2, "resolved", budget_id="old", period_start_ns=0, period_end_ns=HOUR_NS),
    ]
    write_breaches(warehouse, [(change, NOW_NS // 10**6) for change in changes])
    found = told(database_url)
    assert found["budget_spent"] == {("money", "EUR"): 120, ("time", "gpu_hours"): 2}
    assert found["budget_remaining"] == {("money", "EUR"): -20, ("time", "gpu_hours"): 6}
    assert found["breaches_firing"] == {
        ("money", "idle"): 1, ("money", "threshold"): 1, ("time", "threshold"): 0,
    }  # fmt: skip
    few = told(database_url, Limits(budgets=1))["budget_amount"]
    assert few == {("money", "EUR"): 100, ("other", "gpu_hours"): 8}


def test_a_warehouse_without_the_table_of_breaches_has_no_budgets(
    warehouse: Warehouse, database_url: str
) -> None:
    write(warehouse, *ten_minutes())
    warehouse.command("DROP TABLE breaches")
    found = told(database_url)
    assert "spend_month" in found
    assert not [name for name in found if "budget" in name or "breach" in name]


def test_an_empty_ledger_has_no_values(warehouse: Warehouse, database_url: str) -> None:
    assert set(told(database_url)) == {"exporter_folded_groups"}


def test_a_month_is_its_closed_hours_and_the_running_one_each_once(
    warehouse: Warehouse, database_url: str
) -> None:
    write(warehouse, *ten_minutes())
    later_ns = NOW_NS + HOUR_NS
    running = [charge_set(later_ns - n * WINDOW_NS) for n in range(1, 8)]
    write(warehouse, *running)
    months = [datetime.fromtimestamp(ns / 1e9, UTC).month for ns in (NOW_NS, later_ns)]
    of_month = running if months[0] != months[1] else [*ten_minutes(), *running]
    rows = [row for row in ask(warehouse, later_ns) if row.scope == "month"]
    assert sum(row.ns.used for row in rows) == sum(int(one.used_ns.sum()) for one in of_month)


def test_a_month_begins_at_its_first_hour_in_utc(warehouse: Warehouse, database_url: str) -> None:
    sets = ten_minutes()
    write(warehouse, *sets)
    later_ns = NOW_NS + 32 * 86_400 * NS_PER_S
    assert not [row for row in ask(warehouse, later_ns) if row.scope == "month"]


def test_one_query_an_interval_however_often_it_is_scraped(warehouse: Warehouse, database_url: str) -> None:
    write(warehouse, *ten_minutes())
    asked = []

    def connected() -> Warehouse:
        asked.append(1)
        return connect(database_url)

    one = Exporter(connected, ManualClock(NOW_NS), 60.0, Limits())
    assert not asked
    one.refresh()
    first = scraped(one)
    warehouse.command("TRUNCATE TABLE charge_windows")
    assert scraped(one) == first
    assert len(asked) == 1


def test_a_warehouse_that_is_away_is_a_metric_and_a_hole_never_zeros(
    new_embedded: EmbeddedWarehouse,
) -> None:
    new_embedded.start()
    url = new_embedded.url
    with_tables = connect(url, create_database=True)
    migrate(with_tables)
    write(with_tables, *ten_minutes())
    with_tables.close()
    clock = ManualClock(NOW_NS)
    one = exporter(url, clock=clock)
    one.refresh()
    assert "spend_month" in scraped(one)
    new_embedded.stop()
    one.refresh()
    assert metrics.REGISTRY.get_sample_value("gpuledger_exporter_warehouse_up") == 0
    assert "spend_month" in scraped(one)  # one lost answer is no hole
    clock.advance(181 * NS_PER_S)
    one.refresh()
    assert not scraped(one)


@pytest.fixture
def served(warehouse: Warehouse, database_url: str) -> Iterator[str]:
    now = time.time_ns() // WINDOW_NS  # it asks by the real clock
    write(warehouse, *(charge_set((now - n) * WINDOW_NS) for n in range(1, 8)))
    registry, port, stop = CollectorRegistry(), free_port(), threading.Event()
    one = Exporter(lambda: connect(database_url), SystemClock(), 1.0, Limits())
    registry.register(one)
    server, thread = start_http_server(port, "127.0.0.1", registry)
    worker = threading.Thread(target=one.run, args=(stop,))
    worker.start()
    yield f"http://127.0.0.1:{port}/metrics"
    stop.set()
    worker.join()
    server.shutdown()
    server.server_close()
    thread.join()


def test_it_is_served_for_prometheus(served: str) -> None:
    def body() -> str:
        try:
            with urllib.request.urlopen(served, timeout=60) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    until(lambda: "gpuledger_spend_per_hour{" in body())
