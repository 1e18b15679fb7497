"""Fixture: a broker of one file's tests, on which nothing was published or charged yet when a test begins."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from gpuledger.bus import BusSettings, apply_topics
from gpuledger.contract.topics import CHARGES, GENERATIONS, PERIODS, PRICES, TEAMS
from gpuledger.localstack import Kafka, Registry
from tests.support.kafka import STACK_DIRECTORY


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker whose gpu.* topics are these tests' own."""
    with Kafka(tmp_path_factory.mktemp("config-kafka"), STACK_DIRECTORY) as server:
        yield server


@pytest.fixture
def ledger(own_kafka: Kafka, registry: Registry) -> BusSettings:
    """An empty ledger: it matters whether anything was ever published or charged."""
    admin = AdminClient({"bootstrap.servers": own_kafka.bootstrap})
    old = [
        name
        for name in (PRICES, TEAMS, CHARGES, PERIODS, GENERATIONS)
        if name in admin.list_topics(timeout=10).topics
    ]
    for deleted in admin.delete_topics(old).values() if old else ():
        deleted.result()
    while any(name in admin.list_topics(timeout=10).topics for name in old):
        time.sleep(0.05)
    settings = BusSettings(kafka_bootstrap=own_kafka.bootstrap, registry_url=registry.url)
    apply_topics(settings, partitions=2, replication=1)
    return settings
