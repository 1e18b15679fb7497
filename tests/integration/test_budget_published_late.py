"""A budget whose period has begun before it is published: worker, sink, warehouse and `budget status`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuledger.budgets.settings import BudgetSettings
from gpuledger.bus import (
    BusSettings,
    Outgoing,
    Producer,
    SchemaRegistry,
    framed,
)
from gpuledger.cli import app
from gpuledger.contract.records import BudgetsVersion
from gpuledger.contract.topics import BUDGETS, CHARGES
from gpuledger.contract.windows import DAY_NS, NS_PER_S
from gpuledger.pricing.yaml_documents import read_documents
from gpuledger.warehouse import Warehouse
from tests.support.budget_workers import APPLICATION, WITHOUT_TAIL, BudgetWorkers, Ledger, spent
from tests.support.charge_sets import WINDOW_NS
from tests.support.sink import committed, sink_process

pytest_plugins = ["tests.support.warehouse"]

PATIENCE_S = 240.0  # as everywhere: machines are busy
NANO = 1_000_000_000
NODES = ("n1", "n2", "n3", "n4")
BUDGET = """
  - id: {id}
    scope: {{team: {team}}}
    period: fixed
    starts: {starts}
    ends: {ends}
    amount: 1000
    currency: USD
    counts: used
    thresholds: [50%, 100%]
"""


@pytest.fixture
def partitions() -> int:
    return 2


@pytest.fixture
def ledger(own_bus: BusSettings) -> Iterator[Ledger]:
    ledger = Ledger(own_bus)
    yield ledger
    ledger.close()


def publish(bus: BusSettings, number: int, active_from_ns: int, **teams: str) -> None:
    """A version of the budgets that holds from a moment of the ledger's own time on."""
    starts, ends = (
        time.strftime("%Y-%m-%d", time.gmtime(time.time() + days * DAY_NS / NS_PER_S)) for days in (-2, 3)
    )
    listed = "".join(
        BUDGET.format(id=name.replace("_", "-"), team=team, starts=starts, ends=ends)
        for name, team in teams.items()
    )
    (found,) = read_documents(f"kind: budgets\nbudgets:{listed}", "budgets.yaml")
    assert isinstance(found, BudgetsVersion)
    version = replace(found, version=number, active_from_ns=active_from_ns)
    with SchemaRegistry(bus) as registry, Producer(bus, "test-budgets") as producer:
        producer.produce_all([Outgoing(BUDGETS, b"budgets", framed(registry, version), partition=0)])


def test_what_was_charged_before_a_budget_is_read_counted_and_told_once(
    own_bus: BusSettings,
    ledger: Ledger,
    tmp_path: Path,
    warehouse: Warehouse,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = time.time_ns() // WINDOW_NS * WINDOW_NS - 100 * WINDOW_NS
    active = start + 20 * WINDOW_NS
    publish(own_bus, 1, 0, other="team-b")
    workers = BudgetWorkers(own_bus, tmp_path, warehouse_url=database_url)

    def states() -> list[tuple[str, int, int, str]]:
        return [(b.budget_id, b.threshold_ppm // 10_000, b.change, b.state) for b in ledger.breaches()]

    def counted(records: int) -> bool:
        return committed(own_bus, CHARGES, APPLICATION, 2) == records

    try:
        first = workers.start(WITHOUT_TAIL)
        for number, nano in enumerate((150 * NANO, 0, 0)):  # the last of them are known without a question
            ledger.charge([spent(node, start + number * WINDOW_NS, nano) for node in NODES])
            workers.await_that(partial(counted, 4 + 4 * number), PATIENCE_S, "counted")
        publish(own_bus, 2, active, other="team-b", late="team-a")
        lacking = "count from their version on"
        workers.await_that(lambda: lacking in workers.logged(), PATIENCE_S, "it says what it lacks")
        ledger.charge([spent("n1", active, 100 * NANO), spent("n2", active, 0)])
        assert states() == []
        with sink_process(own_bus, database_url, CHARGES, BudgetSettings().sink_group):
            expected = [("late", 50, 1, "firing")]
            workers.await_that(lambda: states() == expected, PATIENCE_S, "50 %")
            told = ledger.breaches()[-1]
            assert start < told.since_ns <= active
            assert "before this version of the budgets" in told.why

            first.kill()
            first.wait()
            workers.start(WITHOUT_TAIL)
            ledger.charge([spent("n3", start, 0, inputs=2), spent("n4", start, 0, inputs=2)])
            expected.append(("late", 50, 2, "retracted"))
            workers.await_that(lambda: states() == expected, PATIENCE_S, "retracted")
            assert ledger.breaches()[-1].spent_nano == 400 * NANO
            ledger.charge([spent("n1", active + WINDOW_NS, 600 * NANO)])
            expected += [("late", 50, 3, "firing"), ("late", 100, 1, "firing")]
            workers.await_that(lambda: states() == expected, PATIENCE_S, "100 %")
            assert ledger.breaches()[-1].spent_nano == 1000 * NANO

            group = BudgetSettings().sink_group
            workers.await_that(lambda: committed(own_bus, CHARGES, group, 2) == 17, PATIENCE_S, "all written")
        monkeypatch.setenv("GPULEDGER_KAFKA_BOOTSTRAP", own_bus.kafka_bootstrap)
        monkeypatch.setenv("GPULEDGER_REGISTRY_URL", own_bus.registry_url)
        options = ["budget", "status", "--url", database_url, "--json"]
        rows = json.loads(CliRunner().invoke(app, options, catch_exceptions=False).stdout)
        assert {row["id"]: row["spent"] for row in rows} == {"other": 0, "late": 1000 * NANO}
    finally:
        workers.end()
