"""The sink's place in its group while the broker comes and goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from gpuledger.bus import BusSettings, Outgoing, Producer
from gpuledger.localstack import SOON_LET_IN_AGAIN, Kafka, Registry
from gpuledger.sink.source import Source
from tests.support.kafka import create_topic
from tests.support.sink import SESSION_TIMEOUT_S, committed
from tests.support.waiting import until

TOPIC, GROUP = "charges", "a-sink"


@pytest.fixture
def kafka_properties() -> Mapping[str, str]:
    return SOON_LET_IN_AGAIN


@pytest.fixture
def own_bus(new_kafka: Kafka, registry: Registry) -> BusSettings:
    new_kafka.start()
    create_topic(new_kafka, TOPIC)
    return BusSettings(kafka_bootstrap=new_kafka.bootstrap, registry_url=registry.url)


@pytest.fixture
def source(own_bus: BusSettings) -> Iterator[Source]:
    source = Source(own_bus, TOPIC, GROUP, lambda places, lost: None, SESSION_TIMEOUT_S)
    yield source
    source.close()


def test_what_can_not_be_committed_while_the_broker_is_away_is_committed_when_it_is_back(
    own_bus: BusSettings, new_kafka: Kafka, source: Source
) -> None:
    with Producer(own_bus, "test") as producer:
        producer.produce_all(Outgoing(TOPIC, b"key", b"value", partition=0) for _ in range(3))
    read: list[int] = []
    until(lambda: bool(read.extend(record.offset for record in source.poll(0.2)) or len(read) == 3))
    new_kafka.kill9()
    for _ in range(10):
        source.poll(0.1)  # until the client knows that its coordinator is away
    source.commit({(TOPIC, 0): 3})
    new_kafka.restart()

    def step() -> bool:
        for record in source.poll(0.2):  # a broker that has forgotten the member gives it all of them again
            source.commit({(record.topic, record.partition): record.offset + 1})
        return committed(own_bus, TOPIC, GROUP, 1) == 3

    until(step)
