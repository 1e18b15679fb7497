"""Kafka or the registry goes away between two records: nothing that was read is forgotten or passed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuledger.budgets.topics_read import TopicsRead
from gpuledger.bus import (
    BusSettings,
    Incoming,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    apply_topics,
    framed,
    register_all,
)
from gpuledger.contract import topics
from gpuledger.contract.clock import ManualClock
from gpuledger.contract.errors import BadRecord, KafkaUnavailable, RegistryUnavailable
from gpuledger.contract.records import (
    BudgetsVersion,
    Generation,
    PeriodsVersion,
    PriceBookVersion,
    PriceEntry,
    TeamMapVersion,
)
from gpuledger.contract.wire import unframe
from gpuledger.localstack import Kafka, Registry
from gpuledger.processor.topics_read import TopicsReader
from gpuledger.sink.periods import ClosedPeriods
from tests.support.kafka import STACK_DIRECTORY

PRICES = PriceBookVersion(1, 0, entries=[PriceEntry("gpu", "gpu", 7, "USD")])
LATER = PriceBookVersion(2, 0, entries=[PriceEntry("gpu", "gpu", 9, "USD")])
YEAR_2027_NS = 1_800_000_000 * 10**9


class Line:
    """A Kafka with records of every kind, and a registry that can be away."""

    def __init__(self, bus: BusSettings, registry: Registry) -> None:
        self.bus = bus
        self.registry = registry

    def publish(self, topic: str, *records: Any) -> None:
        with SchemaRegistry(self.bus) as schemas, Producer(self.bus, "test") as producer:
            producer.produce_all(Outgoing(topic, b"k", framed(schemas, one), partition=0) for one in records)

    def that_knows(self, *topics_known: str) -> SchemaRegistry:
        """A client that gives up at once and has seen the schemas of these topics."""
        schemas = SchemaRegistry(self.bus, retry_for_s=0)
        with PartitionReader(self.bus, "test") as reader:
            for topic in topics_known:
                for message in reader.read_to_end(topic, 0):
                    schemas.schema(unframe(message.value or b"")[0])
        return schemas


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    directory = tmp_path_factory.mktemp("midway")
    with (
        Kafka(directory / "kafka", STACK_DIRECTORY) as kafka,
        Registry(directory / "registry", STACK_DIRECTORY) as registry,
    ):
        found = Line(BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url), registry)
        apply_topics(found.bus, partitions=1, replication=1)
        with SchemaRegistry(found.bus) as schemas:
            register_all(schemas)
        found.publish(topics.BUDGETS, BudgetsVersion(1, 0))
        found.publish(topics.PRICES, PRICES)
        found.publish(topics.TEAMS, TeamMapVersion(1, 0))
        yield found


@pytest.fixture(autouse=True)
def registry_is_back(line: Line) -> Iterator[None]:
    yield
    if not line.registry.running:
        line.registry.start()


def test_budgets_that_were_read_before_are_in_the_catalog(line: Line) -> None:
    schemas = line.that_knows(topics.BUDGETS)
    with PartitionReader(line.bus, "test") as reader:
        read = TopicsRead(reader, schemas)
        line.registry.stop()
        with pytest.raises(RegistryUnavailable):
            read.catalog()
        line.registry.start()
        assert read.catalog().plan_at(0).version == 1


class Refusals:
    """Refuses nothing here."""

    def add(self, message: Incoming, error: BadRecord) -> None:
        raise error

    def forget(self, topic: str, partition: int) -> None:
        raise AssertionError(topic)


class Faltering(PartitionReader):
    """Kafka is away whenever one topic is asked for."""

    topic = ""

    def read_to_end(self, topic: str, partition: int, first: int | None = None) -> Iterator[Incoming]:
        if topic == self.topic:
            raise KafkaUnavailable(topic)
        return super().read_to_end(topic, partition, first)


def test_a_generation_is_charged_with_that_was_read_before_kafka_went_away(line: Line) -> None:
    with Faltering(line.bus, "test") as reader, SchemaRegistry(line.bus) as schemas:
        read = TopicsReader(reader, schemas, Refusals())
        assert not read.configuration().generations
        line.publish(topics.PRICES, LATER)
        line.publish(topics.GENERATIONS, Generation(1, 0, 0, 10, 2, 1))
        reader.topic = topics.TEAMS
        with pytest.raises(KafkaUnavailable):
            read.configuration()
        reader.topic = ""
        assert list(read.configuration().generations) == [1]


def test_a_month_whose_close_could_not_be_read_is_closed_all_the_same(line: Line) -> None:
    line.publish(topics.PERIODS, PeriodsVersion(1, YEAR_2027_NS, "2026-11"))
    clock = ManualClock(YEAR_2027_NS)
    sink = ClosedPeriods(line.bus, clock)
    line.registry.stop()
    with pytest.raises(RegistryUnavailable):
        sink.through(YEAR_2027_NS)
    line.registry.start()
    assert sink.through(YEAR_2027_NS) == "2026-11"
    sink.close()
