"""What the sink says of itself: /metrics, and log lines."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from gpuledger.bus import BusSettings, Outgoing, Producer
from gpuledger.contract.avro.reasons import BAD_FRAME
from gpuledger.contract.errors import WarehouseUnavailable
from gpuledger.localstack import Kafka
from gpuledger.localstack.server import free_port
from gpuledger.sink import SinkOptions, metrics, run
from gpuledger.warehouse import Warehouse
from tests.support.charge_sets import WINDOW_NS, charge_set, recent_window_ns
from tests.support.children import tied
from tests.support.kafka import create_topic
from tests.support.sink import committed, publish
from tests.support.waiting import PATIENCE_S, until

pytest_plugins = ["tests.support.warehouse"]

START = recent_window_ns()
Unique = Callable[[str], str]


def value(name: str, **labels: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(f"gpuledger_sink_{name}", labels)


def test_metrics_tell_what_came_in_what_was_refused_and_what_waits(
    kafka: Kafka,
    bus: BusSettings,
    warehouse: Warehouse,
    database_url: str,
    dead_letter_topic: str,
    unique: Unique,
) -> None:
    topic, group = create_topic(kafka, unique("charges")), unique("sink")
    names = ("sets_total", "rows_total", "insert_seconds_count", "read_bytes_total")
    before = {name: value(name) or 0 for name in names}
    refused_before = value("refused_total", reason=BAD_FRAME) or 0
    publish(bus, topic, [charge_set(START + n * WINDOW_NS, 3) for n in range(23)])
    with Producer(bus, "test") as producer:
        producer.produce_all([Outgoing(topic, b"c1/n1", b"\0")])
    stop = threading.Event()
    worker = threading.Thread(
        target=run, args=(SinkOptions(bus, database_url, topic, group),), kwargs={"stop": stop}
    )
    worker.start()
    try:
        until(lambda: committed(bus, topic, group, 1) == 24)
        until(lambda: value("committed_offset", partition="0") == 24)
        until(lambda: value("lag_records", partition="0") == 0 and value("lag_seconds") == 0)
    finally:
        stop.set()
        worker.join()
    gained = {name: (value(name) or 0) - before[name] for name in names}
    assert (gained["sets_total"], gained["rows_total"]) == (23, 69)
    assert gained["insert_seconds_count"] > 0
    assert gained["read_bytes_total"] > 23 * 100
    assert (value("refused_total", reason=BAD_FRAME) or 0) - refused_before == 1
    assert value("warehouse_away") == 0


def test_what_waits_for_a_warehouse_that_is_away_is_counted_and_has_an_age(
    kafka: Kafka, bus: BusSettings, unique: Unique
) -> None:
    topic, group = create_topic(kafka, unique("charges")), unique("sink")
    retries_before = value("insert_retries_total") or 0
    publish(bus, topic, [charge_set(START + n * WINDOW_NS) for n in range(7)])
    away = f"clickhouse://127.0.0.1:{free_port()}/ledger"
    stop = threading.Event()

    def work() -> None:
        with contextlib.suppress(WarehouseUnavailable):  # stopped with rows that it could not write
            run(SinkOptions(bus, away, topic, group), stop=stop)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        until(lambda: value("warehouse_away") == 1 and value("lag_records", partition="0") == 7)
        until(lambda: (value("lag_seconds") or 0) > 0)
        until(lambda: (value("insert_retries_total") or 0) > retries_before + 1)
    finally:
        stop.set()
        worker.join()


def test_every_line_of_the_log_is_json_also_those_of_the_kafka_client(bus: BusSettings) -> None:
    environment = os.environ | {
        "GPULEDGER_KAFKA_BOOTSTRAP": f"127.0.0.1:{free_port()}",
        "GPULEDGER_REGISTRY_URL": bus.registry_url,
    }
    sink = subprocess.Popen(
        tied([sys.executable, "-m", "gpuledger.sink", "--group", "nobody"]),
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert sink.stderr is not None
    deadline = time.monotonic() + PATIENCE_S
    said = ""
    try:
        while "Connect to" not in said and time.monotonic() < deadline:  # the warehouse is away as well
            said = json.loads(sink.stderr.readline())["event"]
    finally:
        sink.kill()
        sink.wait()
        sink.stderr.close()
    assert "Connect to" in said
