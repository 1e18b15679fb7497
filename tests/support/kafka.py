"""Fixtures: real Kafka and a real registry, one of each for a whole run, and names that are nobody else's."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from gpuledger.bus import BusSettings, TransactionalProducer
from gpuledger.contract.topics import DEAD_LETTERS
from gpuledger.localstack import Kafka, Registry
from tests.support.waiting import until

STACK_DIRECTORY = Path(__file__).parents[2] / "build" / "stack"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """The run's broker. Do not stop it: a test of faults starts its own with `new_kafka`."""
    with Kafka(tmp_path_factory.mktemp("kafka"), STACK_DIRECTORY) as server:
        yield server


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """The run's registry; subjects of one test should carry a name from `unique`."""
    with Registry(tmp_path_factory.mktemp("registry"), STACK_DIRECTORY) as server:
        yield server


@pytest.fixture
def kafka_properties() -> Mapping[str, str]:
    """Of `new_kafka`, beside the usual ones; a module that kills it says SOON_LET_IN_AGAIN."""
    return {}


@pytest.fixture
def new_kafka(tmp_path: Path, kafka_properties: Mapping[str, str]) -> Iterator[Kafka]:
    """A broker of this test alone, not started: for kill9, stop and restart."""
    server = Kafka(tmp_path / "kafka", STACK_DIRECTORY, kafka_properties)
    yield server
    server.stop()


@pytest.fixture
def new_registry(tmp_path: Path) -> Iterator[Registry]:
    """A registry of this test alone, not started: for kill9, stop and restart."""
    server = Registry(tmp_path / "registry", STACK_DIRECTORY)
    yield server
    server.stop()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """`unique("telemetry")` is a topic, group or subject name that no other test and no other call has."""
    test = re.sub(r"[^A-Za-z0-9_.-]", "-", request.node.name)[:60]

    def name(stem: str = "name") -> str:
        return f"{stem}-{test}-{uuid.uuid4().hex[:8]}"

    return name


@pytest.fixture
def bus(kafka: Kafka, registry: Registry) -> BusSettings:
    """Settings that reach the run's broker and registry, whatever the environment says."""
    return BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)


def create_topic(kafka: Kafka, name: str, partitions: int = 1, **config: str) -> str:
    """Create a topic and await it; `retention_ms="-1"` is the setting retention.ms. Returns the name."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result()
    await_served(kafka.bootstrap, {name: partitions})
    return name


def await_served(bootstrap: str, topics: Mapping[str, int]) -> None:
    """Return once each partition of these topics is: the controller answers before its broker leads them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "tests"})

    def served(place: TopicPartition) -> bool:
        try:
            return consumer.get_watermark_offsets(place, timeout=10) is not None
        except KafkaException:
            return False

    try:
        for topic, partitions in topics.items():
            for partition in range(partitions):
                until(partial(served, TopicPartition(topic, partition)))
    finally:
        consumer.close()


def await_marks(bus: BusSettings, transactional_id: str) -> None:
    """Return once the marks of its transactions are written: a commit is answered before, and a reader does
    not get to see it until then. Whoever has that id is fenced."""
    TransactionalProducer(bus, "tests", transactional_id).close()


@pytest.fixture(scope="session")
def dead_letter_topic(kafka: Kafka) -> str:
    """The run's topic of dead letters, which other tests write to as well. It is the only topic of the line
    that the run's broker has: who needs the others takes `own_bus`, where nobody else decides how many."""
    return create_topic(kafka, DEAD_LETTERS)


@pytest.fixture
def topic_prefix(unique: Callable[[str], str]) -> str:
    """Prefix for all topics of one test, ending in a dot."""
    return unique("test") + "."
