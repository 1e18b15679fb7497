"""`gpuledger explain`: the reason of a charge, computed again from the records in Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from gpuledger.archive.archiver import Archiver
from gpuledger.archive.store import Directory
from gpuledger.bus import BusSettings, PartitionReader
from gpuledger.cli import app
from gpuledger.contract import topics
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import GpuledgerError, exit_status
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import ChargeSet
from gpuledger.sink.tables import Arrival, charge_rows, charge_windows
from gpuledger.warehouse import Warehouse
from tests.support.fleet import WINDOW_NS, Node, Sender, ledger, recent_start
from tests.support.processors import Workers
from tests.support.waiting import PATIENCE_S

pytest_plugins = ["tests.support.warehouse"]
Explain = Callable[..., tuple[int, Any]]


@pytest.fixture
def explain(own_bus: BusSettings, warehouse: Warehouse, database_url: str) -> Explain:
    """Runs `gpuledger explain ...`: its exit code, and its JSON or text."""
    environment = {
        "GPULEDGER_KAFKA_BOOTSTRAP": own_bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": own_bus.registry_url,
        "GPULEDGER_WAREHOUSE_URL": database_url,
    }

    def run(*arguments: str) -> tuple[int, Any]:
        done = CliRunner(env=environment).invoke(app, ["explain", *arguments])
        if isinstance(done.exception, GpuledgerError):
            return exit_status(done.exception), str(done.exception)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, json.loads(done.stdout) if "--json" in arguments else done.stdout

    return run


def write(warehouse: Warehouse, sets: Sequence[ChargeSet]) -> None:
    """As the sink does."""
    arrivals = [Arrival(charges, topics.CHARGES, 0, 0, 0) for charges in sets]
    warehouse.insert_arrow("charge_rows", charge_rows(arrivals))
    warehouse.insert_arrow("charge_windows", charge_windows(arrivals))


def delete_all(bus: BusSettings) -> None:
    """As retention does."""
    with PartitionReader(bus, "test") as reader:
        _, end = reader.bounds(topics.TELEMETRY, 0)
    admin = AdminClient(dict(bus.client_config()))
    for deleted in admin.delete_records([TopicPartition(topics.TELEMETRY, 0, end)]).values():
        deleted.result(PATIENCE_S)


def at(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_the_reason_of_a_charge_is_computed_again_and_held_against_the_ledger(
    own_bus: BusSettings,
    sender: Sender,
    workers: Workers,
    warehouse: Warehouse,
    explain: Explain,
    tmp_path: Path,
) -> None:
    sender.prices()
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    keyframe, calls, samples = node.window(start)
    sender.telemetry([keyframe])
    refused = sender.unreadable(calls)
    sender.telemetry([samples, node.calls(start + WINDOW_NS, part=1, last=True)])
    sender.lifetime(node.lifetime(start, start + 3 * WINDOW_NS))
    workers.start()
    workers.await_that(lambda: workers.committed(0) == 4, PATIENCE_S, "acknowledged")
    message = sender.outgoing(calls)
    headers = RecordHeaders.from_kafka(message.key, message.headers)
    mended = tuple((name, b"1" if name.endswith("mend") else value) for name, value in headers.to_kafka())
    sender.send(message._replace(headers=mended))
    workers.await_that(lambda: workers.committed(0) == 5, PATIENCE_S, "the mended one is acknowledged")
    workers.await_that(lambda: len(ledger(own_bus).sets) >= 3, PATIENCE_S, "the silent window")
    write(warehouse, list(ledger(own_bus).sets.values()))

    pod = ("--pod", "research/train", "--at", at(start + 5_000_000_000))
    code, found = explain(*pod, "--json")
    assert code == 0, found["windows"][0]["differences"]
    (reason,) = found["windows"]
    assert (reason["state"], reason["agrees"]) == ("complete", True)
    places = [record["place"] for record in reason["inputs"]]
    assert places == [f"gpu.telemetry/0/{offset}" for offset in (0, refused.offset, 2, 4)]
    assert reason["inputs"][3]["calls"] == 40
    (device,) = reason["devices"].values()
    parts = [part for piece in device for part in piece["parts"]]
    assert sum(part["nano"] for part in parts) == sum(piece["cost_nano"] for piece in device)
    (row,) = reason["rows"]
    mine = [part for part in parts if part["consumer"] == "pod-n"]
    for category in ("used", "held_idle"):
        assert sum(p["nano"] for p in mine if p["category"] == category) == row[f"{category}_nano"]
    (price,) = device[0]["prices"]
    assert price["until_end_nano"] - price["until_start_nano"] == price["nano"] == device[0]["cost_nano"]
    why = [told["why"] for told in reason["revisions"]]
    assert why == ["closed with a record that can not be read", "mended: gpu.telemetry/0/4"]

    code, text = explain(*pod)
    assert code == 0
    assert "every column of every row of the window agrees" in text
    for later in (1, 2):  # one with a record and no keyframe, one without a record
        code, found = explain("--node", "n", "--at", at(start + later * WINDOW_NS), "--json")
        assert code == 0, found["windows"][0]["differences"]
        assert found["windows"][0]["rows"]

    store = Directory(tmp_path / "archive")
    archiver = Archiver(own_bus, store, SystemClock())
    archiver.run(lambda: False, once=True)
    archiver.close()
    delete_all(own_bus)
    code, text = explain(*pod)
    assert (code, "give an archive with --archive" in text) == (2, True)
    code, found = explain(*pod, "--archive", store.url, "--json")
    assert code == 0, found["windows"][0]["differences"]
    assert found["windows"][0] == reason


def test_a_ledger_that_says_something_else_is_found_out(
    own_bus: BusSettings, sender: Sender, workers: Workers, warehouse: Warehouse, explain: Explain
) -> None:
    sender.prices()
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    sender.lifetime(node.lifetime(start, start + WINDOW_NS))
    sender.telemetry(node.window(start))
    workers.start()
    workers.await_that(lambda: workers.committed(0) == 3, PATIENCE_S, "acknowledged")
    (charges,) = (charges for charges in ledger(own_bus).sets.values() if len(charges.device))
    charges.used_nano[0] += 1
    write(warehouse, [charges])
    when = ("--at", at(start))
    code, found = explain("--uid", "pod-n", *when, "--no-revisions", "--json")
    assert (code, found["windows"][0]["agrees"]) == (1, False)
    assert any(": used is" in difference for difference in found["windows"][0]["differences"])
    assert explain("--pod", "research/other", *when)[0] == 2
    assert explain("--pod", "train", *when)[0] == 2
    assert explain(*when)[0] == 2
