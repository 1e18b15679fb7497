"""A worker of the budgets that is started before its broker, and whose broker goes away and comes back."""

from __future__ import annotations

import time
from pathlib import Path

from gpuledger.bus import BusSettings, SchemaRegistry, apply_topics, register_all
from gpuledger.configuration.publish import Documents
from gpuledger.contract.clock import SystemClock
from gpuledger.localstack import Kafka, Registry
from gpuledger.pricing.yaml_documents import read_documents
from tests.support.budget_workers import BudgetWorkers, Ledger, spent
from tests.support.charge_sets import WINDOW_NS
from tests.support.waiting import PATIENCE_S

NANO = 1_000_000_000
DOCUMENT = """
kind: budgets
budgets:
  - {id: b, scope: {team: team-a}, period: fixed, starts: 2020-01-01, ends: 2100-01-01, amount: 1000,
     currency: USD, counts: used, thresholds: [50%]}
"""


def told(ledger: Ledger) -> list[tuple[int, str]]:
    return [(breach.threshold_ppm, breach.state) for breach in ledger.breaches()]


def test_a_worker_waits_for_kafka_at_its_start_and_in_its_course(
    new_kafka: Kafka, registry: Registry, tmp_path: Path
) -> None:
    new_kafka.start()
    bus = BusSettings(kafka_bootstrap=new_kafka.bootstrap, registry_url=registry.url)
    with SchemaRegistry(bus) as schemas:
        register_all(schemas)
    apply_topics(bus, partitions=2, replication=1)
    (document,) = read_documents(DOCUMENT, "budgets.yaml")
    Documents(bus, SystemClock()).apply(document)
    start = time.time_ns() // WINDOW_NS * WINDOW_NS - 100 * WINDOW_NS
    new_kafka.stop()
    workers = BudgetWorkers(bus, tmp_path)
    try:
        worker = workers.start()
        workers.await_that(lambda: "waiting " in workers.logged(), PATIENCE_S, "it waits at its start")
        new_kafka.start()
        ledger = Ledger(bus)
        ledger.charge([spent("n1", start, 500 * NANO)])
        expected = [(500_000, "firing")]
        workers.await_that(lambda: told(ledger) == expected, PATIENCE_S, "50 %")
        ledger.close()
        new_kafka.stop()
        again = "all is taken over anew"
        workers.await_that(lambda: again in workers.logged(), PATIENCE_S, "it waits in its course")
        new_kafka.start()
        ledger = Ledger(bus)
        ledger.charge([spent("n1", start + WINDOW_NS, 500 * NANO)])
        expected.append((1_000_000, "firing"))
        workers.await_that(lambda: told(ledger) == expected, PATIENCE_S, "100 %")
        ledger.close()
        assert worker.poll() is None
    finally:
        workers.end()
