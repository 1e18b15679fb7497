"""The queue against a real Kafka and a real registry that go away: order is kept and nothing is lost."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gpuledger.agent.lifetime import lifetime, lifetime_key
from gpuledger.agent.publisher import MAX_FLYING_BYTES, POLL_S, Publisher
from gpuledger.agent.settings import AgentSettings
from gpuledger.agent.spool import Entry, Journal, NodeQueue
from gpuledger.bus import BusSettings, apply_topics, partition_for_node
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import Header, NodeLayout, SampleBatch, decode, encode
from gpuledger.localstack import SOON_LET_IN_AGAIN, Kafka, Registry, free_port
from tests.support.kafka import STACK_DIRECTORY
from tests.support.telemetry import agent_command, lifetimes, running_agent, telemetry
from tests.support.waiting import PATIENCE_S, until

S = 1_000_000_000
WINDOW_NS = 10 * S
START_NS = 1_700_000_000 * S
QUEUED = "gpuledger_agent_records_queued_total{"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker that these tests may kill; each of them leaves it running."""
    with Kafka(tmp_path_factory.mktemp("kafka"), STACK_DIRECTORY, SOON_LET_IN_AGAIN) as server:
        apply_topics(BusSettings.load(kafka_bootstrap=server.bootstrap), partitions=3, replication=1)
        yield server


@pytest.fixture
def bus(broker: Kafka, registry: Registry) -> BusSettings:
    return BusSettings.load(kafka_bootstrap=broker.bootstrap, registry_url=registry.url)


def entry(node: str, sequence: int) -> Entry:
    key = NodeKey("test", node)
    start = START_NS + sequence * WINDOW_NS
    header = Header("test", node, "boot", 1, sequence, start, WINDOW_NS, part=1, last=True)
    headers = RecordHeaders.of(header, Kind.SAMPLES)
    return Entry("SampleBatch", key.key, encode(SampleBatch(header)), tuple(headers.to_kafka()))


def large_entry(node: str, sequence: int) -> Entry:
    """A record of some 400 kB."""
    count = 16_000
    small = entry(node, sequence)
    header = decode(SampleBatch, small.body).header
    times = np.arange(count) * 997 + header.window_start_ns
    batch = SampleBatch(
        header,
        devices=["GPU-0"],
        device=np.zeros(count, np.int64),
        process=np.full(count, -1),
        field=np.ones(count, np.int64),
        source=np.ones(count, np.int64),
        start_ns=times,
        duration_ns=times - header.window_start_ns,
        value=np.random.default_rng(sequence).random(count),
    )
    return small._replace(body=encode(batch))


def sequences(kafka: Kafka, node: str) -> list[int]:
    return [told.headers.id.sequence for told in telemetry(kafka, node)]


def test_while_the_broker_is_away_everything_waits_and_then_arrives_in_order(
    bus: BusSettings, broker: Kafka, tmp_path: Path
) -> None:
    queue = NodeQueue(Journal(tmp_path / "spool", 1 << 24, segment_bytes=4000), memory_bytes=3000)
    publisher = Publisher(bus, queue, "test")
    publisher.start()
    for i in range(23):
        assert queue.append(entry("away", i))
    until(lambda: queue.is_empty)
    broker.kill9()
    for i in range(23, 97):
        assert queue.append(entry("away", i))
        time.sleep(0.03)
    assert not queue.is_empty
    broker.restart()
    for i in range(97, 101):
        assert queue.append(entry("away", i))
    assert publisher.drain(PATIENCE_S, time.sleep)
    publisher.stop()
    queue.close()
    assert sequences(broker, "away") == list(range(101))


def test_however_much_waits_only_some_megabytes_are_on_their_way_at_once(
    bus: BusSettings, broker: Kafka, tmp_path: Path
) -> None:
    queue = NodeQueue(Journal(tmp_path / "spool", 1 << 26))
    publisher = Publisher(bus, queue, "test")
    publisher.start()
    assert queue.append(entry("large", 0))
    until(lambda: queue.is_empty)
    broker.kill9()
    waiting = [large_entry("large", i) for i in range(1, 42)]
    for one in waiting:
        assert queue.append(one)
    most = MAX_FLYING_BYTES // waiting[0].size + 1
    assert most < len(waiting)
    until(lambda: len(queue._flying) == most)
    for _ in range(20):  # it goes no further while nothing comes back
        time.sleep(POLL_S)
        assert len(queue._flying) <= most
    broker.restart()
    assert publisher.drain(PATIENCE_S, time.sleep)
    publisher.stop()
    queue.close()
    assert sequences(broker, "large") == list(range(42))


def test_a_registry_that_is_away_at_the_start_delays_and_loses_nothing(
    broker: Kafka, new_registry: Registry, tmp_path: Path
) -> None:
    new_registry.start()
    bus = BusSettings.load(kafka_bootstrap=broker.bootstrap, registry_url=new_registry.url)
    new_registry.kill9()
    queue = NodeQueue(Journal(tmp_path / "spool", 1 << 24))
    publisher = Publisher(bus, queue, "test")
    publisher.start()
    for i in range(7):
        assert queue.append(entry("early", i))
    time.sleep(1.5)
    assert not queue.is_empty
    new_registry.restart()
    assert publisher.drain(PATIENCE_S, time.sleep)
    publisher.stop()
    queue.close()
    assert sequences(broker, "early") == list(range(7))


def test_a_stop_while_the_broker_is_away_leaves_the_rest_to_the_next_life(
    bus: BusSettings, broker: Kafka, tmp_path: Path
) -> None:
    def opened() -> NodeQueue:
        return NodeQueue(Journal(tmp_path / "spool", 1 << 24))

    queue = opened()
    publisher = Publisher(bus, queue, "test")
    publisher.start()
    assert queue.append(entry("stop", 0))
    until(lambda: queue.is_empty)
    broker.kill9()
    for i in range(1, 12):
        assert queue.append(entry("stop", i))
    assert not publisher.drain(0.5, time.sleep)
    publisher.stop()
    queue.close()
    broker.restart()
    queue = opened()
    assert queue.append(entry("stop", 12))
    publisher = Publisher(bus, queue, "test")
    publisher.start()
    assert publisher.drain(PATIENCE_S, time.sleep)
    publisher.stop()
    queue.close()
    found = sequences(broker, "stop")
    assert list(dict.fromkeys(found)) == list(range(13)), "in order; a repeat is the same record again"


def test_a_node_s_lifetime_lies_in_the_partition_of_its_telemetry(
    bus: BusSettings, broker: Kafka, tmp_path: Path
) -> None:
    queue = NodeQueue(Journal(tmp_path / "spool", 1 << 24))
    publisher = Publisher(bus, queue, "test")
    publisher.start()
    nodes = [f"node-{i}" for i in range(7)]
    for node in nodes:
        key, layout = NodeKey("test", node), NodeLayout(instance_id="i-0123")
        record = lifetime(key, layout, START_NS, None, WINDOW_NS, START_NS)
        queue.append(Entry("NodeLifetime", lifetime_key(key, layout), encode(record), (), key.key))
        queue.append(entry(node, 0))
    assert publisher.drain(PATIENCE_S, time.sleep)
    publisher.stop()
    queue.close()
    lives = {record.node: partition for partition, record in lifetimes(broker)}
    records = {told.headers.id.node: told.partition for told in telemetry(broker)}
    wanted = {node: partition_for_node(f"test/{node}".encode(), 3) for node in nodes}
    assert {node: lives[node] for node in nodes} == wanted
    assert {node: records[node] for node in nodes} == wanted


MORE = 7
"""Records that are cut while the broker is away."""


def queued(port: int) -> int:
    """How many records the agent of these metrics has cut."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith(QUEUED))


def test_an_agent_that_was_killed_loses_nothing_that_it_had_cut(
    bus: BusSettings, broker: Kafka, registry: Registry, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    node, state = unique("node")[-40:], tmp_path / "state"
    port = free_port()
    options = ["--source", "simulated", "--window-s", "1", "--ends-node", "--metrics-port", str(port)]
    command = agent_command(broker, registry, node, state, options)
    with running_agent(command, tmp_path / "first.log") as agent:
        until(lambda: len(telemetry(broker, node)) > 6, pause_s=0.5)
        broker.kill9()
        before = queued(port)
        until(lambda: queued(port) >= before + MORE)
        agent.kill9()
    broker.restart()
    with running_agent(command, tmp_path / "second.log") as agent:
        until(lambda: len({told.headers.id.epoch_ns for told in telemetry(broker, node)}) == 2, pause_s=0.5)
        agent.stop()
    told = telemetry(broker, node)
    distinct = list(dict.fromkeys(t.headers.id for t in told))
    first, second = (
        [i.sequence for i in distinct if i.epoch_ns == epoch]
        for epoch in sorted({i.epoch_ns for i in distinct})
    )
    assert first == list(range(len(first)))
    assert len(first) > 6 + MORE, "what it had cut while the broker was away"
    assert second == list(range(len(second)))
    assert [i.epoch_ns for i in distinct] == sorted(i.epoch_ns for i in distinct), "the old epoch comes first"
    assert told[-1].headers.goodbye
    lives = [life for _, life in lifetimes(broker, node)]
    assert len({life.launched_ns for life in lives}) == 1
    *living, ended = [life.ended_ns is None for life in lives]
    assert (set(living), ended) == ({True}, False)
    assert len(living) >= 2, "one of each life; what was not known to be delivered came again"
    assert AgentSettings(NodeKey("test", node), state).spool_bytes > sum(
        path.stat().st_size for path in (state / "spool").iterdir()
    )
