"""Archiving a real Kafka under kill -9, to a directory and to an S3-compatible server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from gpuledger.archive.archiver import ARCHIVED, Archiver
from gpuledger.archive.compact import compact
from gpuledger.archive.log import IDENTITY, ArchiveLog, chain_of
from gpuledger.archive.store import Directory, Objects, Store
from gpuledger.archive.verify import verify
from gpuledger.archive.writing import commit, lost_to_retention
from gpuledger.bus import (
    BusSettings,
    Outgoing,
    TransactionalProducer,
)
from gpuledger.contract import topics
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import Refused
from gpuledger.contract.identity import NodeKey
from tests.support.children import asked_to_end, tied
from tests.support.fleet import WINDOW_NS, Node, Sender, read_all, recent_start
from tests.support.kafka import await_marks
from tests.support.waiting import until

KILLS = 4


@pytest.fixture
def partitions() -> int:
    return 2


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    """A bucket of an S3-compatible server."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}"}
    store = Objects("s3://history/gpuledger", options)
    store._fs.mkdir("history")
    yield store
    server.stop()


def archiving(bus: BusSettings, url: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "GPULEDGER_KAFKA_BOOTSTRAP": bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": bus.registry_url,
    }
    command = [sys.executable, "-m", "gpuledger", "archive", "run", url, "--every", "0.2"]
    return subprocess.Popen(
        tied(command), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def archived(store: Store) -> int:
    return sum(chain_of(store, topics.TELEMETRY, partition).end or 0 for partition in range(2))


def more_than(store: Store, before: int) -> bool:
    return archived(store) > before


def commits(store: Store) -> list[int]:
    return [len(chain_of(store, topics.TELEMETRY, partition).commits) for partition in range(2)]


def assert_equal(bus: BusSettings, store: Store) -> None:
    """The archive holds every record of every input topic, byte for byte, once."""
    log = ArchiveLog(store)
    for topic in ARCHIVED:
        there = read_all(bus, topic)
        if there:
            places = range(log.partitions(topic))
            assert [record for p in places for record in log.read_to_end(topic, p)] == there
    verdict = verify(store)
    assert verdict.problems == []


def test_every_record_is_archived_once_under_kill_9(
    own_bus: BusSettings, sender: Sender, tmp_path: Path
) -> None:
    store = Directory(tmp_path / "archive")
    sender.prices()
    nodes = [Node(NodeKey(cluster, f"n{i}")) for cluster in ("a", "b") for i in range(3)]
    start = recent_start(100)
    windows = iter(range(KILLS * 10 + 5))  # the last five are there for the last archiver alone

    def send(count: int) -> None:
        for number in islice(windows, count):
            for node in nodes:
                sender.telemetry(node.window(start + number * WINDOW_NS))

    for _ in range(KILLS):
        before = archived(store)
        process = archiving(own_bus, store.url)
        send(10)
        until(partial(more_than, store, before), pause_s=0.02)
        process.kill()
        process.wait()
    process = archiving(own_bus, store.url)
    send(5)
    until(lambda: archived(store) == (KILLS * 10 + 5) * len(nodes) * 3)
    until(lambda: chain_of(store, topics.PRICES, 0).end)
    assert asked_to_end(process) == 0
    assert_equal(own_bus, store)
    assert sum(commits(store)) > KILLS
    compact(store, time.time_ns() // 1_000_000 + 2 * 3_600_000)
    assert_equal(own_bus, store)
    assert max(commits(store)) <= 2  # one for each hour of arrival


def test_an_object_store_holds_the_same_and_refuses_a_second_writer(
    own_bus: BusSettings, sender: Sender, objects: Objects
) -> None:
    node = Node(NodeKey("a", "n"))
    start = recent_start(10)
    sender.prices()
    for i in range(2):
        sender.telemetry(node.window(start + i * WINDOW_NS))
        archiver = Archiver(own_bus, objects, SystemClock())
        assert archiver.run(lambda: False, once=True).records == (4 if i == 0 else 3)
        archiver.close()
        identity = json.loads(objects.get(IDENTITY))
        del identity["partitions"][topics.PERIODS]  # it was begun before there was that topic
        objects.put(IDENTITY, json.dumps(identity).encode())
    archiver = Archiver(own_bus, objects, SystemClock())
    assert archiver.run(lambda: False, once=True).records == 0
    archiver.close()
    assert ArchiveLog(objects).partitions(topics.PERIODS) == 1
    assert_equal(own_bus, objects)
    compact(objects, time.time_ns() // 1_000_000 + 2 * 3_600_000)
    assert_equal(own_bus, objects)
    partition = next(p for p in range(2) if chain_of(objects, topics.TELEMETRY, p).end)
    with pytest.raises(Refused, match="another archiver"):
        commit(objects, lost_to_retention(topics.TELEMETRY, partition, 0, 2))


def test_marks_of_transactions_are_no_holes_and_another_cluster_is_refused(
    own_bus: BusSettings, tmp_path: Path
) -> None:
    store = Directory(tmp_path / "archive")
    with TransactionalProducer(own_bus, "test", "archive-test") as producer:
        for number in range(3):
            producer.commit([Outgoing(topics.DEAD_LETTERS, b"a/n", b"%d" % number, (("h", None),), 1)])
    await_marks(own_bus, "archive-test")
    archiver = Archiver(own_bus, store, SystemClock())
    assert archiver.run(lambda: False, once=True).records == 3
    archiver.close()
    (entry,) = chain_of(store, topics.DEAD_LETTERS, 1).commits
    assert entry.absent == ((1, 1), (3, 1))
    assert_equal(own_bus, store)
    store.put("archive.json", b'{"format": 1, "kafka_cluster": "another"}')
    archiver = Archiver(own_bus, store, SystemClock())
    with pytest.raises(Refused, match="is the archive of Kafka cluster another"):
        archiver.run(lambda: False, once=True)
    archiver.close()
