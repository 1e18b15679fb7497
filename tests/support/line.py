"""Fixtures: a Kafka of one test alone with all topics and schemas, who sends to it, and processor workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.bus import Admin, BusSettings, SchemaRegistry, apply_topics, register_all
from gpuledger.localstack import Kafka, Registry
from tests.support.fleet import Sender
from tests.support.kafka import await_served
from tests.support.processors import Workers


@pytest.fixture
def partitions() -> int:
    """Of the topics that have several; a module that needs another number says so."""
    return 1


@pytest.fixture
def own_bus(new_kafka: Kafka, registry: Registry, partitions: int) -> BusSettings:
    """A Kafka of this test alone with its topics, and the run's registry."""
    new_kafka.start()
    bus = BusSettings(kafka_bootstrap=new_kafka.bootstrap, registry_url=registry.url)
    prepare(bus, partitions)
    return bus


def prepare(bus: BusSettings, partitions: int) -> None:
    """All topics, served, and all schemas."""
    apply_topics(bus, partitions=partitions, replication=1)
    await_served(bus.kafka_bootstrap, {name: one.partitions for name, one in Admin(bus).topics().items()})
    with SchemaRegistry(bus) as schemas:
        register_all(schemas)


@pytest.fixture
def sender(own_bus: BusSettings) -> Iterator[Sender]:
    """Who speaks for a fleet's agents."""
    sender = Sender(own_bus)
    yield sender
    sender.close()


@pytest.fixture
def priced(sender: Sender) -> None:
    """A price book and a team map are published before the test begins."""
    sender.prices()


@pytest.fixture
def workers(own_bus: BusSettings, tmp_path: Path) -> Iterator[Workers]:
    """Workers of one group, all ended afterwards."""
    workers = Workers(own_bus, "processor-under-test", tmp_path)
    yield workers
    workers.end()
