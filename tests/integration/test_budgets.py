"""The budgets application on a real Kafka: killed, rebalanced, restated; and the rows that it asks for."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuledger.budgets import Replaced, Window, lines_of
from gpuledger.budgets.cli import budget_app
from gpuledger.budgets.replaced import replaced
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.budgets.topics_read import TopicsRead
from gpuledger.bus import BusSettings, PartitionReader, SchemaRegistry
from gpuledger.cli import app
from gpuledger.configuration.publish import Documents
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.records import Generation
from gpuledger.contract.topics import BREACHES, CHARGES
from gpuledger.pricing.yaml_documents import read_documents
from gpuledger.sink.batcher import Batch
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse
from tests.support.breaches import breach, publish_breaches
from tests.support.budget_workers import APPLICATION, WITHOUT_TAIL, BudgetWorkers, Ledger, spent
from tests.support.charge_sets import HOUR_NS, WINDOW_NS, arrival, charge_set, recent_window_ns
from tests.support.sink import committed, sink_process
from tests.support.waiting import PATIENCE_S

pytest_plugins = ["tests.support.warehouse"]

DOCUMENT = """
kind: budgets
budgets:
  - id: team-a
    name: Team A, the day
    scope: {team: team-a}
    period: fixed
    starts: 2020-01-01
    ends: 2100-01-01
    amount: 1000
    currency: USD
    counts: used
    thresholds: [50%, 100%]
"""
DAY_START = recent_window_ns()
NANO = 1_000_000_000


@pytest.fixture
def partitions() -> int:
    return 2


@pytest.fixture
def budgeted(own_bus: BusSettings) -> BusSettings:
    """A Kafka of this test alone with all topics and one budget."""
    (document,) = read_documents(DOCUMENT, "budgets.yaml")
    assert not Documents(own_bus, SystemClock()).apply(document).unchanged
    return own_bus


@pytest.fixture
def ledger(budgeted: BusSettings) -> Iterator[Ledger]:
    ledger = Ledger(budgeted)
    yield ledger
    ledger.close()


@pytest.fixture
def workers(budgeted: BusSettings, tmp_path: Path) -> Iterator[BudgetWorkers]:
    workers = BudgetWorkers(budgeted, tmp_path)
    yield workers
    workers.end()


def states(ledger: Ledger) -> list[tuple[int, int, str]]:
    return [(b.threshold_ppm // 10_000, b.change, b.state) for b in ledger.breaches()]


def test_breaches_are_told_once_across_kill_9_and_retracted_by_a_restatement(
    budgeted: BusSettings, ledger: Ledger, workers: BudgetWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = time.time_ns() // WINDOW_NS * WINDOW_NS - 100 * WINDOW_NS
    nodes = ["n1", "n2", "n3", "n4"]
    first, _ = workers.start(), workers.start()
    ledger.charge([spent(node, start, 100 * NANO) for node in nodes])
    assert states(ledger) == []
    ledger.charge([spent("n1", start + WINDOW_NS, 100 * NANO)])  # exactly 50 %
    workers.await_that(lambda: states(ledger) == [(50, 1, "firing")], PATIENCE_S, "50 %")
    first.kill()
    first.wait()
    ledger.charge([spent(node, start, 100 * NANO) for node in nodes])  # once more, as after a restart
    ledger.charge([spent("n2", start + WINDOW_NS, 500 * NANO)])
    expected = [(50, 1, "firing"), (100, 1, "firing")]
    workers.await_that(lambda: states(ledger) == expected, PATIENCE_S, "100 %")
    told = ledger.breaches()[-1]
    assert told.spent_nano == told.amount_nano == 1000 * NANO
    assert told.since_ns == start + 2 * WINDOW_NS
    assert [(driver.kind, driver.name, driver.nano) for driver in told.drivers] == [
        ("pod", "pod-0", 1000 * NANO)
    ]
    ledger.charge([spent("n2", start + WINDOW_NS, 499 * NANO, inputs=2)])
    expected += [(100, 2, "retracted")]
    workers.await_that(lambda: states(ledger) == expected, PATIENCE_S, "retracted")

    monkeypatch.setenv("GPULEDGER_KAFKA_BOOTSTRAP", budgeted.kafka_bootstrap)
    monkeypatch.setenv("GPULEDGER_REGISTRY_URL", budgeted.registry_url)
    breach_id = ledger.breaches()[0].id
    answer = CliRunner().invoke(budget_app, ["silence", breach_id, "--for", "2h"])
    assert answer.exit_code == 0, answer.output
    expected += [(50, 2, "firing")]
    workers.await_that(lambda: states(ledger) == expected, PATIENCE_S, "silenced")
    assert ledger.breaches()[-1].silenced_by == getpass.getuser()
    assert (ledger.breaches()[-1].silenced_until_ns or 0) > time.time_ns()
    for arguments, by, silenced in (
        (["ack", breach_id, "--who", "on-call", "--for", "1h"], "on-call", getpass.getuser()),
        (["clear", breach_id], "", ""),
        (["ack", "team-a", "--budget", "--who", "lead"], "lead", ""),
    ):
        answer = CliRunner().invoke(budget_app, arguments)
        assert answer.exit_code == 0, answer.output
        expected.append((50, len(expected) - 1, "firing"))
        workers.await_that(lambda: states(ledger) == expected, PATIENCE_S, " ".join(arguments))
        told = ledger.breaches()[-1]
        assert (told.acknowledged_by, told.silenced_by) == (by, silenced)
    assert told.acknowledged_until_ns is None


def test_a_restatement_beyond_the_tail_waits_for_the_sink_and_asks_the_warehouse(
    budgeted: BusSettings, ledger: Ledger, tmp_path: Path, warehouse: Warehouse, database_url: str
) -> None:
    start = time.time_ns() // WINDOW_NS * WINDOW_NS - 100 * WINDOW_NS
    workers = BudgetWorkers(budgeted, tmp_path, state_interval_s=600.0, warehouse_url=database_url)
    try:
        workers.start(WITHOUT_TAIL)
        ledger.charge([spent("n1", start, 600 * NANO)])
        expected = [(50, 1, "firing")]
        workers.await_that(lambda: states(ledger) == expected, PATIENCE_S, "50 %")
        ledger.charge([spent("n1", start + WINDOW_NS, 400 * NANO)])
        expected.append((100, 1, "firing"))
        workers.await_that(lambda: states(ledger) == expected, PATIENCE_S, "100 %")
        ledger.charge([spent("n1", start, 450 * NANO, inputs=2)])
        workers.await_that(lambda: "is the sink" in workers.logged(), PATIENCE_S, "waiting for the sink")
        assert states(ledger) == expected
        with sink_process(budgeted, database_url, CHARGES, BudgetSettings().sink_group):
            expected.append((100, 2, "retracted"))
            workers.await_that(lambda: states(ledger) == expected, PATIENCE_S, "retracted")
        assert ledger.breaches()[-1].spent_nano == 850 * NANO
        # All three are counted and told. A state is written at first, and then every ten minutes: what came
        # since is in none, and may not be acknowledged.
        assert committed(budgeted, CHARGES, APPLICATION, 2) < 3
    finally:
        workers.end()


def test_a_note_on_a_breach_that_is_not_there_is_refused(
    budgeted: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPULEDGER_KAFKA_BOOTSTRAP", budgeted.kafka_bootstrap)
    monkeypatch.setenv("GPULEDGER_REGISTRY_URL", budgeted.registry_url)
    answer = CliRunner().invoke(app, ["budget", "ack", "nothing"])
    assert "there is no breach nothing" in str(answer.exception)


def test_a_word_without_an_end_is_for_the_life_under_way_and_refused_where_that_is_over(
    own_bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPULEDGER_KAFKA_BOOTSTRAP", own_bus.kafka_bootstrap)
    monkeypatch.setenv("GPULEDGER_REGISTRY_URL", own_bus.registry_url)
    told = [breach("over"), breach("over", 2, "resolved"), breach("lives"), breach("lives", 2)]
    publish_breaches(own_bus, BREACHES, told)
    refused = CliRunner().invoke(app, ["budget", "ack", "over"])
    assert "over is over (resolved); with --for" in str(refused.exception)
    for arguments in (["ack", "over", "--for", "2h"], ["ack", "lives"], ["clear", "over"]):
        answer = CliRunner().invoke(app, ["budget", *arguments])
        assert answer.exit_code == 0, answer.output
    with PartitionReader(own_bus, "test") as reader, SchemaRegistry(own_bus) as registry:
        notes = TopicsRead(reader, registry).notes()
    said = [(note.kind, note.breach_id, note.change) for note in notes if note.breach_id in ("over", "lives")]
    assert said == [("acknowledged", "over", 2), ("acknowledged", "lives", 2), ("cleared", "over", 2)]


def test_the_rows_that_are_replaced_are_those_that_were_counted(warehouse: Warehouse) -> None:
    old, new = charge_set(DAY_START, 3, inputs=1), charge_set(DAY_START, 4, inputs=2)
    first, second = arrival(old, 0), arrival(replace(new, price_version=2), 1)
    writer = Writer(warehouse, SystemClock())
    writer.write(Batch([first]))
    writer.write(Batch([second]))
    window = Window(old.cluster, old.node, DAY_START)
    by_revision = replaced(warehouse, {window: first.revision}, 0)[window]
    assert by_revision == Replaced(first.revision, 1, lines_of(old))
    by_time = replaced(warehouse, {window: None}, second.received_ms + 1)[window]
    assert by_time == Replaced(second.revision, 2, lines_of(new))
    assert replaced(warehouse, {window: None}, first.received_ms) == {}
    assert replaced(warehouse, {window._replace(node="other"): None}, second.received_ms + 1) == {}


def test_a_set_that_comes_again_unchanged_keeps_the_time_at_which_it_came_first(warehouse: Warehouse) -> None:
    writer = Writer(warehouse, SystemClock())
    rows, none = charge_set(DAY_START, 3), charge_set(DAY_START + WINDOW_NS, 0)
    firsts = [arrival(rows, 0), arrival(none, 1)]
    again = [replace(one, offset=one.offset + 2, received_ms=one.received_ms + 600_000) for one in firsts]
    writer.write(Batch(firsts))
    writer.write(Batch(again))
    warehouse.command("OPTIMIZE TABLE charge_rows FINAL")
    warehouse.command("OPTIMIZE TABLE charge_revisions FINAL")
    windows = [Window("c1", "n1", one.charges.window_start_ns) for one in firsts]
    found = replaced(warehouse, dict.fromkeys(windows), again[0].received_ms)
    assert found == {
        windows[0]: Replaced(firsts[0].revision, 1, lines_of(rows)),
        windows[1]: Replaced(firsts[1].revision, 1, ()),  # withdrawn
    }


def test_a_revision_whose_head_waits_for_its_hour_is_known(warehouse: Warehouse) -> None:
    announced = Generation(1, 0, DAY_START, DAY_START + HOUR_NS, price_version=2, team_version=0)
    writer = Writer(warehouse, SystemClock(), generation_of={1: announced}.get)
    old = [arrival(charge_set(DAY_START + place * WINDOW_NS), place) for place in range(2)]
    writer.write(Batch(old))
    one = arrival(replace(charge_set(DAY_START, generation=1), price_version=2), 2)
    writer.write(Batch([one]))  # of two windows, so it waits
    window = Window("c1", "n1", DAY_START)
    head = warehouse.rows("SELECT max(generation) FROM charge_windows FINAL")
    assert head == [(0,)]
    assert replaced(warehouse, {window: None}, one.received_ms + 1)[window] == Replaced(
        one.revision, 2, lines_of(one.charges)
    )
    assert replaced(warehouse, {window: old[0].revision}, 0)[window].price_version == 1
