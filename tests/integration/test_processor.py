"""Processor workers on a real Kafka: killed, rebalanced, fed with what can not be read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.bus import (
    BusSettings,
    SchemaRegistry,
    TransactionalProducer,
    apply_topics,
    partition_for_node,
    register_all,
)
from gpuledger.contract import topics
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import DeadLetter, decode
from gpuledger.contract.wire import unframe
from gpuledger.localstack import Kafka, Registry
from tests.support.expected_ledger import expected
from tests.support.fleet import (
    WINDOW_NS,
    Node,
    Sender,
    differences,
    ledger,
    read_all,
    recent_start,
)
from tests.support.processors import Workers
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def own_bus(new_kafka: Kafka, registry: Registry) -> BusSettings:
    """A Kafka of this test alone, not yet with topics, and the run's registry."""
    new_kafka.start()
    return BusSettings(kafka_bootstrap=new_kafka.bootstrap, registry_url=registry.url)


@pytest.fixture
def sender(own_bus: BusSettings) -> Iterator[Sender]:
    with SchemaRegistry(own_bus) as schemas:
        register_all(schemas)
    sender = Sender(own_bus)
    yield sender
    sender.close()


def assert_exact(bus: BusSettings, lives: dict[NodeKey, tuple[int, int]]) -> None:
    """The ledger is what follows from the log, to the byte, and no revision has two contents."""
    got, wanted = ledger(bus), expected(bus, lives)
    assert {key: n for key, n in got.contents.items() if len(n) > 1} == {}
    assert wanted.keys() <= got.sets.keys()
    wrong = {key: found for key in wanted if (found := differences(got.sets[key], wanted[key]))}
    assert not wrong
    beyond = {key: got.sets[key].state for key in got.sets.keys() - wanted.keys()}
    assert set(beyond.values()) <= {"ended"}, beyond


def test_held_records_of_a_silent_node_survive_kill_9(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    apply_topics(own_bus, partitions=1, replication=1)
    sender.prices()
    start = recent_start(30)
    silent, lively = Node(NodeKey("c", "silent")), Node(NodeKey("c", "lively"))
    sender.telemetry([silent.holdings(start), silent.calls(start)])
    for i in range(5):
        sender.telemetry(lively.window(start + i * WINDOW_NS))
    first = workers.start(silence_s=600)  # however slow the machine: it holds the silent node's records
    workers.await_that(
        lambda: sum(node.node == "lively" for node, _ in ledger(own_bus).sets) >= 5, PATIENCE_S, "charged"
    )
    workers.kill(first)
    assert workers.committed(0) in (None, 0)
    ended = start + 5 * WINDOW_NS
    for node in (silent, lively):
        sender.lifetime(node.lifetime(start, ended))
    workers.start()
    workers.await_that(lambda: workers.committed(0) == 17, PATIENCE_S, "all acknowledged")
    lives = {node.key: (start, ended) for node in (silent, lively)}
    workers.await_that(
        lambda: expected(own_bus, lives).keys() <= ledger(own_bus).sets.keys(), PATIENCE_S, "all charged"
    )
    assert_exact(own_bus, lives)
    assert ledger(own_bus).sets[silent.key, start].state == "incomplete"


def test_ledger_is_exact_after_a_rebalance_and_kill_9(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    apply_topics(own_bus, partitions=4, replication=1)
    sender.prices()
    windows, start = 30, recent_start(60)
    nodes = [Node(NodeKey("c", f"node{i}")) for i in range(8)]
    assert len({partition_for_node(node.key.key, 4) for node in nodes}) == 4
    for node in nodes:
        sender.lifetime(node.lifetime(start + 1_234_567_891, start + windows * WINDOW_NS - 2_345_678_912))

    def send() -> None:
        for i in range(windows):
            for node in nodes:
                sender.telemetry(node.window(start + i * WINDOW_NS))
            time.sleep(0.3)

    sending = threading.Thread(target=send)
    sending.start()
    first = workers.start()
    workers.await_that(lambda: len(ledger(own_bus).sets) >= 16, PATIENCE_S, "first charges")
    second = workers.start()
    workers.await_that(lambda: len(ledger(own_bus).sets) >= 100, PATIENCE_S, "charges of both")
    workers.kill(first)
    sending.join()
    workers.await_that(
        lambda: sum(workers.committed(p) or 0 for p in range(4)) == windows * 8 * 3, PATIENCE_S, "done"
    )
    assert second.poll() is None
    lives = {node.key: (start + 1_234_567_891, start + windows * WINDOW_NS - 2_345_678_912) for node in nodes}
    assert_exact(own_bus, lives)
    assert workers.stop(second) == 0


def test_unreadable_record_ends_in_dead_letters_and_its_window_is_refused(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    apply_topics(own_bus, partitions=1, replication=1)
    sender.prices()
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    keyframe, calls, samples = node.window(start + WINDOW_NS)
    sender.telemetry(Node(node.key, epoch_ns=4).window(start))
    sender.telemetry([keyframe])
    refused = sender.unreadable(calls)
    sender.telemetry([samples])
    ended = start + 2 * WINDOW_NS
    sender.lifetime(node.lifetime(start, ended))
    workers.start()
    workers.await_that(lambda: workers.committed(0) == 6, PATIENCE_S, "acknowledged")
    letters = [decode(DeadLetter, unframe(m.value or b"")[1]) for m in read_all(own_bus, topics.DEAD_LETTERS)]
    assert [(letter.source_offset, letter.window_start_ns) for letter in letters] == [
        (refused.offset, start + WINDOW_NS)
    ]
    assert letters[0].value is not None
    assert_exact(own_bus, {node.key: (start, ended)})
    charged = ledger(own_bus).sets[node.key, start + WINDOW_NS]
    assert charged.state == "refused"
    assert int(charged.unobserved_ns.sum()) == WINDOW_NS
    assert {charged.texts[i] for i in charged.reason.tolist()} == {"refused"}


def test_late_records_of_a_closed_window_restate_it(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    apply_topics(own_bus, partitions=1, replication=1)
    sender.prices()
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    sender.lifetime(node.lifetime(start, start + 2 * WINDOW_NS))
    keyframe, calls, samples = node.window(start)
    sender.telemetry([keyframe])
    sender.telemetry(node.window(start + WINDOW_NS))
    workers.start()
    workers.await_that(lambda: workers.committed(0) == 4, PATIENCE_S, "acknowledged")
    assert ledger(own_bus).sets[node.key, start].state == "incomplete"
    sender.telemetry([calls, samples, keyframe])
    workers.await_that(lambda: workers.committed(0) == 7, PATIENCE_S, "acknowledged again")
    assert ledger(own_bus).sets[node.key, start].state == "complete"
    assert_exact(own_bus, {node.key: (start, start + 2 * WINDOW_NS)})


def test_worker_that_another_owner_fenced_stops_and_a_new_one_goes_on(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    apply_topics(own_bus, partitions=1, replication=1)
    sender.prices()
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    sender.lifetime(node.lifetime(start, start + 2 * WINDOW_NS))
    sender.telemetry(node.window(start))
    zombie = workers.start()
    workers.await_that(lambda: workers.committed(0) == 3, PATIENCE_S, "acknowledged")
    TransactionalProducer(own_bus, "other", f"{workers.application}-0").close()
    sender.telemetry(node.window(start + WINDOW_NS))
    workers.await_that(lambda: zombie.poll() is not None, PATIENCE_S, "stopped")
    assert zombie.returncode != 0
    assert workers.committed(0) == 3
    workers.start()
    workers.await_that(lambda: workers.committed(0) == 6, PATIENCE_S, "acknowledged by the new owner")
    assert_exact(own_bus, {node.key: (start, start + 2 * WINDOW_NS)})


def test_worker_waits_for_a_registry_that_is_away(
    new_kafka: Kafka, new_registry: Registry, tmp_path: Path
) -> None:
    new_kafka.start()
    new_registry.start()
    bus = BusSettings(kafka_bootstrap=new_kafka.bootstrap, registry_url=new_registry.url)
    apply_topics(bus, partitions=1, replication=1)
    with SchemaRegistry(bus) as schemas:
        register_all(schemas)
    sender = Sender(bus)
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    sender.lifetime(node.lifetime(start, start + WINDOW_NS))
    sender.prices()
    sender.telemetry(node.window(start))
    sender.close()
    new_registry.stop()
    workers = Workers(bus, "processor-under-test", tmp_path)
    try:
        worker = workers.start()
        time.sleep(8)
        assert worker.poll() is None
        assert not ledger(bus).sets
        new_registry.restart()
        workers.await_that(lambda: workers.committed(0) == 3, PATIENCE_S, "acknowledged")
        assert_exact(bus, {node.key: (start, start + WINDOW_NS)})
    finally:
        workers.end()


WITHOUT_WAITING_FOR_THE_TOPIC = """
import faust
from gpuledger.bus import BusSettings
from gpuledger.processor.app import make_app
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.serving.watch import Watch
app = make_app(BusSettings.load(), ProcessorSettings(), Watch())
faust.Worker(app, loglevel="WARNING", quiet=True, redirect_stdouts=False).execute_from_commandline()
"""


def test_a_group_whose_leader_did_not_know_the_topic_gets_its_partitions_within_seconds(
    own_bus: BusSettings, sender: Sender, workers: Workers
) -> None:
    workers.start(code=WITHOUT_WAITING_FOR_THE_TOPIC)
    # as after a restart of the broker, which answers before it knows its topics
    workers.await_that(lambda: "Ignoring missing topic" in workers.logs(), PATIENCE_S, "an empty assignment")
    apply_topics(own_bus, partitions=1, replication=1)
    sender.prices()
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    sender.lifetime(node.lifetime(start, start + WINDOW_NS))
    sender.telemetry(node.window(start))
    workers.await_that(lambda: workers.committed(0) == 3, PATIENCE_S, "acknowledged")
    assert_exact(own_bus, {node.key: (start, start + WINDOW_NS)})
