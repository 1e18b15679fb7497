"""A replay that Faust workers share comes to the bytes of a replay in one process, whoever is killed."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from gpuledger.bus import BusSettings, Incoming, PartitionReader
from gpuledger.bus.passing_topics import PassingTopics
from gpuledger.contract.errors import BadRecord, GpuledgerError, Refused
from gpuledger.contract.identity import RecordId
from gpuledger.contract.records import (
    Generation,
    PriceBookVersion,
    PriceEntry,
    TeamMapVersion,
    encode,
)
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.localstack import Registry
from gpuledger.processor.protocol import LogRecord
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay.distributed import id_of, replay_distributed
from gpuledger.replay.feeding import feed
from gpuledger.replay.replay_topics import (
    POSITION,
    ReplayTopics,
    original,
    position_from_bytes,
    position_to_bytes,
    request_from_bytes,
    request_to_bytes,
)
from gpuledger.replay.request import Request
from gpuledger.replay.running import replay
from gpuledger.replay.state import Position, unpacked
from gpuledger.replay.worker import work_on
from gpuledger.simulate import FleetSpec
from tests.support.processors import SILENCE_S
from tests.support.replay_processes import HELD, Processes
from tests.support.sent_fleet import PARTITIONS, sent_fleet

SPEC = FleetSpec(gpus=32, hours=0.1, seed=5, agent_crashes=20.0, node_ends=0.4)
SETTINGS = ProcessorSettings(silence_s=SILENCE_S)
Rows = list[tuple[str, bytes]]


@pytest.fixture(scope="module")
def sent(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Request]:
    """A fleet in Kafka, and the question: all of it but its first and its last minute."""
    with sent_fleet(tmp_path_factory.mktemp("sent"), registry, SPEC) as (bus, spec):
        yield Request(spec.start_ns + MINUTE_NS, spec.end_ns - MINUTE_NS, SETTINGS, bus.plain())


def bus_of(request: Request) -> BusSettings:
    return BusSettings(kafka_bootstrap=request.bus.kafka_bootstrap, registry_url=request.bus.registry_url)


def charges_of(directory: Path) -> Rows:
    """Every set of every side, as its bytes; of windows without a record but for how near the keyframe was
    that was known when they were charged first, which their revision says and which depends on the moment."""
    rows: Rows = []
    for path in sorted(directory.glob("*.sqlite")):
        database = sqlite3.connect(path)
        found = database.execute("SELECT side, body FROM charges ORDER BY start, cluster, node, side")
        for side, body in found.fetchall():
            one = unpacked(body)
            rows.append((side, encode(one if one.inputs else replace(one, digest=0))))
        database.close()
    return rows


@pytest.fixture(scope="module")
def alone(sent: Request, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What one process makes of it."""
    directory = tmp_path_factory.mktemp("alone")
    replay(sent, directory, 1)
    return charges_of(directory)


@pytest.fixture
def processes(sent: Request, tmp_path: Path) -> Iterator[Processes]:
    found = Processes(sent, tmp_path)
    yield found
    found.end()


def positions(request: Request, topics: ReplayTopics) -> list[Position]:
    """Where each partition stands; empty before anybody has begun."""
    if not set(topics.all) <= PassingTopics(request.bus).names():
        return []
    with PartitionReader(request.bus, "test") as reader:
        found = {
            number: position_from_bytes(message.value or b"")[0]
            for number in range(PARTITIONS)
            for message in reader.read_to_end(topics.progress, number)
            if message.key == POSITION
        }
    return list(found.values())


def test_two_workers_come_to_the_same_bytes_though_one_and_the_command_are_killed(
    sent: Request, alone: Rows, processes: Processes, tmp_path: Path
) -> None:
    topics = ReplayTopics(id_of(sent))
    command = processes.replay(tmp_path / "many")
    processes.await_that(lambda: topics.request in PassingTopics(sent.bus).names(), "its topics")
    log = tmp_path / "0.log"
    processes.await_that(lambda: "replay-worker" in log.read_text(), "how to join")
    joined = re.search(r"gpuledger replay-worker (\w+)", log.read_text())
    assert joined is not None
    assert joined[1] == topics.replay
    first = processes.start("replay-worker", topics.replay, module=HELD)
    processes.await_that(lambda: any(one.windows for one in positions(sent, topics)), "first charges")
    first.kill()
    command.kill()
    assert not all(one.done for one in positions(sent, topics))
    workers = [processes.start("replay-worker", topics.replay) for _ in range(2)]
    again = processes.replay(tmp_path / "many", "--json")
    processes.await_that(lambda: again.poll() is not None, "the end")
    assert again.returncode == 0
    assert len(alone) > 80
    assert charges_of(tmp_path / "many") == alone
    for worker in workers:  # told that it is over
        worker.wait()
    assert not {name for name in PassingTopics(sent.bus).names() if name.startswith(topics.prefix)}


def test_the_command_is_killed_with_its_own_workers_and_goes_on_to_the_same_bytes(
    sent: Request, alone: Rows, processes: Processes, tmp_path: Path
) -> None:
    topics = ReplayTopics(id_of(sent))
    own_workers = "--workers", "2"
    command = processes.replay(tmp_path / "many", *own_workers, module=HELD)
    processes.await_that(lambda: any(one.windows for one in positions(sent, topics)), "first charges")
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
    command.kill()
    for child in children:
        with suppress(ProcessLookupError):  # it watches the command
            os.kill(int(child), signal.SIGKILL)
    assert len(children) >= 2
    there = positions(sent, topics)
    assert not all(one.done for one in there)
    again = processes.replay(tmp_path / "many", *own_workers, "--json")
    went_on: list[int] = []

    def is_done() -> bool:
        with suppress(GpuledgerError):  # its topics are being removed
            went_on.append(sum(one.offset for one in positions(sent, topics)))
        return again.poll() is not None

    processes.await_that(is_done, "the end")
    assert again.returncode == 0
    assert charges_of(tmp_path / "many") == alone
    assert min(filter(None, went_on)) >= sum(one.offset for one in there)  # nobody began anew
    assert not {name for name in PassingTopics(sent.bus).names() if name.startswith(topics.prefix)}


def test_the_command_starts_workers_and_prices_otherwise_alike(
    sent: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPULEDGER_PROCESSOR_DATA_DIRECTORY", str(tmp_path / "faust"))
    request = replace(
        sent,
        prices=PriceBookVersion(1, 0, entries=[PriceEntry("dear", "gpu", 31_415_926_535, "USD")]),
        policy={"idle": "pool"},
    )
    in_one = replay(request, tmp_path / "one", 1)
    told: list[str] = []
    done = replay_distributed(request, tmp_path / "many", bus_of(sent), 1, started=told.append)
    assert told == [id_of(request)]
    computed = charges_of(tmp_path / "one")
    assert len({side for side, _ in computed}) == 3
    assert charges_of(tmp_path / "many") == computed
    assert (done.read, done.events) == (done.total, in_one.events)
    # what was computed is not computed again
    assert replay_distributed(request, tmp_path / "many", bus_of(sent), 0) == done


def test_records_are_fed_once_and_in_order_whenever_it_is_killed(sent: Request) -> None:
    topics = ReplayTopics("fed-by-pieces")
    passing = PassingTopics(sent.bus)
    for name in topics.all:
        passing.create(name, PARTITIONS)
    passing.create(topics.telemetry, PARTITIONS)  # again
    with PartitionReader(sent.bus, "test") as reader:
        for _ in range(2):  # the second finds all of it there
            feed(sent, 0, topics, lambda *_: None)
        *copies, end = [original(copy) for copy in reader.read_to_end(topics.telemetry, 0)]
        log = {message.offset: message for message in reader.read_to_end("gpu.telemetry", 0)}
    offsets = [copy.offset for copy in copies]
    assert offsets == sorted(set(offsets))
    assert len(offsets) > 50
    assert all(isinstance(copy, Incoming) and copy == log[copy.offset] for copy in copies)
    assert end.offset == max(log) + 1
    passing.delete(topics.all)


def test_what_travels_arrives_as_it_was(sent: Request) -> None:
    request = replace(
        sent,
        clusters=frozenset({"a", "b"}),
        archive="s3://history",
        prices=PriceBookVersion(3, 0, entries=[PriceEntry("gpu", "gpu", 7, "USD")]),
        teams=TeamMapVersion(2, 0),
        policy={"idle": "pool"},
        generations=(Generation(4, 1, 2, 3, 1, 1, clusters=["a"], cause="price", who="me", why="a test"),),
    )
    found = request_from_bytes(request_to_bytes(request), sent.bus)
    assert (found, found.fingerprint) == (request, request.fingerprint)
    beyond = [LogRecord(9, 8, RecordId("a", "n", "boot", 5, 6), 7, 1, last=True, size_bytes=3)]
    position = Position(4, 9, 2, 1, done=True)
    assert position_from_bytes(position_to_bytes(position, beyond)) == (position, beyond)
    other = request_to_bytes(request).replace(b'"to_ns": ', b'"to_ns": 1')
    with pytest.raises(Refused, match="not what was asked for"):
        request_from_bytes(other, sent.bus)
    with pytest.raises(BadRecord, match="no copy"):
        original(Incoming("t", 0, 1, 2, None, None, (("replay-place", b"nonsense"),)))
    with pytest.raises(Refused, match="there is no replay"):
        work_on("nobodys", bus_of(sent), SETTINGS)


def test_a_replay_that_can_not_be_done_or_is_abandoned_leaves_no_topics(
    sent: Request, processes: Processes, tmp_path: Path
) -> None:
    passing = PassingTopics(sent.bus)
    for name in ReplayTopics("nobodys").all:
        passing.create(name, PARTITIONS)
    done = processes.start("replay-worker", "nobodys", "--abandon")
    assert done.wait() == 0
    assert not {name for name in passing.names() if name.startswith("gpu.replay.")}
    admin = AdminClient(dict(sent.bus.client_config()))
    for deleted in admin.delete_records([TopicPartition("gpu.telemetry", 0, 9)]).values():
        deleted.result(60)
    request = replace(sent, from_ns=sent.from_ns - MINUTE_NS)
    with pytest.raises(Refused, match="does not reach back"):
        replay_distributed(request, tmp_path / "state", bus_of(sent), 0)
    assert not {name for name in passing.names() if name.startswith("gpu.replay.")}
