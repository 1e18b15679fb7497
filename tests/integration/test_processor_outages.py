"""Processor workers while Kafka is away, and after it has forgotten what nobody had read."""

from __future__ import annotations

import urllib.request

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from gpuledger.bus import BusSettings
from gpuledger.contract import topics
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import DeadLetter, decode
from gpuledger.contract.wire import unframe
from gpuledger.localstack import Kafka, free_port
from tests.support.children import asked_to_end
from tests.support.fleet import WINDOW_NS, Node, Sender, ledger, read_all, recent_start
from tests.support.processors import Workers
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("priced")


def test_a_worker_ends_on_sigterm_while_kafka_is_gone(
    own_bus: BusSettings, sender: Sender, workers: Workers, new_kafka: Kafka
) -> None:
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    sender.lifetime(node.lifetime(start, start + WINDOW_NS))
    sender.telemetry(node.window(start))
    worker = workers.start()
    workers.await_that(lambda: workers.committed(0) == 3, PATIENCE_S, "acknowledged")
    new_kafka.stop()
    asked_to_end(worker, within_s=45)  # one that waits for its clients needs a minute and more


def test_a_worker_that_waits_for_kafka_answers_a_probe_of_its_metrics(
    own_bus: BusSettings, workers: Workers, new_kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deployments end who does not answer for minutes."""
    port = free_port()
    monkeypatch.setenv("GPULEDGER_PROCESSOR_METRICS_PORT", str(port))
    new_kafka.stop()
    workers.start()
    workers.await_that(lambda: "waiting" in workers.logs(), PATIENCE_S, "said that it waits")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        assert answer.status == 200


def test_what_retention_took_unread_is_told_and_its_windows_are_charged_as_unobserved(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    sender.lifetime(node.lifetime(start, start + 4 * WINDOW_NS))
    sender.telemetry(node.window(start))
    first = workers.start()
    workers.await_that(lambda: workers.committed(0) == 3, PATIENCE_S, "acknowledged")
    workers.kill(first)
    for i in (1, 2, 3):
        sender.telemetry(node.window(start + i * WINDOW_NS))
    client = AdminClient(dict(own_bus.client_config()))
    for future in client.delete_records([TopicPartition(topics.TELEMETRY, 0, 9)]).values():
        future.result(PATIENCE_S)
    workers.start()
    workers.await_that(lambda: workers.committed(0) == 12, PATIENCE_S, "acknowledged after the gap")
    letters = [decode(DeadLetter, unframe(m.value or b"")[1]) for m in read_all(own_bus, topics.DEAD_LETTERS)]
    assert [(one.reason, one.source_offset) for one in letters] == [("retention", 3)]
    assert "3 to 8" in letters[0].detail
    states = {at: found.state for (_, at), found in ledger(own_bus).sets.items()}
    assert [states[start + i * WINDOW_NS] for i in range(4)] == [
        "complete", "unobserved", "unobserved", "complete",
    ]  # fmt: skip


def test_a_launch_stated_months_ago_holds_up_no_live_window(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    months_ago = start - 100 * 8640 * WINDOW_NS
    sender.lifetime(node.lifetime(months_ago))
    sender.telemetry(node.window(start))
    workers.start()
    workers.await_that(
        lambda: (NodeKey("c", "n"), start) in ledger(own_bus).sets, PATIENCE_S, "the live window"
    )
    workers.await_that(lambda: "windows too old to be charged" in workers.logs(), PATIENCE_S, "told")
