"""Reading by offset while brokers come and go."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

import pytest

from gpuledger.bus import BusSettings, Outgoing, PartitionReader, Producer, reader
from gpuledger.bus.passing_topics import PassingTopics
from gpuledger.contract.errors import ConfigError, KafkaUnavailable
from gpuledger.localstack import SOON_LET_IN_AGAIN, Kafka, Registry
from tests.support.kafka import create_topic
from tests.support.waiting import until


@pytest.fixture
def kafka_properties() -> Mapping[str, str]:
    return SOON_LET_IN_AGAIN


@pytest.fixture
def own_bus(new_kafka: Kafka, registry: Registry) -> BusSettings:
    new_kafka.start()
    return BusSettings(kafka_bootstrap=new_kafka.bootstrap, registry_url=registry.url)


def has_bounds(partitions: PartitionReader, topic: str) -> bool:
    try:
        return partitions.bounds(topic, 0) == (0, 0)
    except KafkaUnavailable:
        return False


def test_a_topic_whose_broker_is_away_is_not_taken_for_one_that_is_not_there(
    own_bus: BusSettings, new_kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "REQUEST_TIMEOUT_S", 1.0)
    topic = create_topic(new_kafka, "known")
    with PartitionReader(own_bus, "test") as partitions:
        until(lambda: has_bounds(partitions, topic))
        new_kafka.kill9()
        with pytest.raises(KafkaUnavailable, match="known/0"):
            partitions.bounds(topic, 0)
        with pytest.raises(KafkaUnavailable, match="known/0"):
            list(partitions.read_to_end(topic, 0))
        with pytest.raises(KafkaUnavailable, match="known/0"):
            partitions.offset_at(topic, 0, 0)
        new_kafka.restart()
        until(lambda: has_bounds(partitions, topic))


def test_a_partition_that_a_topic_does_not_have_is_an_error_of_the_configuration(
    own_bus: BusSettings, new_kafka: Kafka
) -> None:
    topic = create_topic(new_kafka, "small")
    with PartitionReader(own_bus, "test") as partitions:
        until(lambda: has_bounds(partitions, topic))
        with pytest.raises(ConfigError, match="small/1"):
            partitions.bounds(topic, 1)


def test_a_few_records_are_had_without_waiting_for_a_whole_batch(kafka: Kafka, registry: Registry) -> None:
    bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
    topic = create_topic(kafka, f"few-{uuid.uuid4().hex[:8]}")
    with Producer(bus, "test") as producer, PartitionReader(bus, "test") as partitions:
        spent_s = []
        for number in range(20):
            producer.produce_all([Outgoing(topic, b"k", b"v", partition=0)])
            began_s = time.monotonic()
            assert len(list(partitions.read_range(topic, 0, number, number))) == 1
            spent_s.append(time.monotonic() - began_s)
    assert min(spent_s) < reader.POLL_S


def test_a_topic_that_was_made_a_moment_ago_is_read_before_its_broker_leads_it(
    kafka: Kafka, registry: Registry
) -> None:
    """The controller answers before: a client that has a connection by then is too early, often."""
    bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
    passing = PassingTopics(bus)
    names = [f"new-{uuid.uuid4().hex[:8]}" for _ in range(15)]
    with PartitionReader(bus, "test") as partitions:
        for name in names:
            passing.create(name, 3)
            assert [partitions.bounds(name, number) for number in range(3)] == [(0, 0)] * 3
            assert partitions.offset_at(name, 0, 0) == 0
    passing.delete(names)
