"""Fixture: a ledger on the real stack that was charged at one price."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuledger.bus import BusSettings, SchemaRegistry, apply_topics, register_all
from gpuledger.contract.periods import period_of
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.localstack import Kafka, Registry
from gpuledger.warehouse import connect, migrate
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.support.fleet import WINDOW_NS, Node, Sender, recent_start
from tests.support.kafka import STACK_DIRECTORY
from tests.support.processors import Workers
from tests.support.restated_stack import NODES, PATIENCE_S, WINDOWS, SpotNode, Stack
from tests.support.waiting import until


@pytest.fixture(scope="module")
def stack(
    registry: Registry, embedded: EmbeddedWarehouse, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("generations")
    url = embedded.url.rpartition("/")[0] + "/generations"
    warehouse = connect(url, create_database=True)
    migrate(warehouse)
    with Kafka(directory / "kafka", STACK_DIRECTORY) as kafka:
        bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
        apply_topics(bus, partitions=2, replication=1)
        with SchemaRegistry(bus) as schemas:
            register_all(schemas)
        start = recent_start(WINDOWS + 12)
        start -= start % MINUTE_NS
        while period_of(start) != period_of(start + WINDOWS * WINDOW_NS):
            start -= MINUTE_NS  # all of it is booked in one month
        workers = Workers(bus, "generations", directory)
        sender = Sender(bus)
        nodes = [SpotNode(NODES[0]), *(Node(key) for key in NODES[1:])]
        found = Stack(bus, warehouse, workers, sender, nodes, start, directory, [])
        found.apply(found.prices(1))
        for node in nodes:
            sender.lifetime(node.lifetime(start, start + WINDOWS * WINDOW_NS))
            for number in range(WINDOWS):
                sender.telemetry(node.window(start + number * WINDOW_NS))
        workers.start()
        try:
            found.another_sink()
            until(lambda: len(found.windows()) == len(NODES) * WINDOWS, PATIENCE_S)
            yield found
        finally:
            for sink in found.sinks:
                sink.kill9()
            workers.end()
            sender.close()
            warehouse.close()
