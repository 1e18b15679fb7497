"""A simulated fleet in a Kafka of its own: what replays are asked about."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gpuledger.bus import BusSettings, SchemaRegistry, apply_topics, register_all
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.localstack import Kafka, Registry
from gpuledger.simulate import FleetSpec
from gpuledger.simulate.emit import Topics, emit
from tests.support.fleet import Sender
from tests.support.kafka import STACK_DIRECTORY

PARTITIONS = 2
MINUTES_AGO = 8  # when it begins: a fleet of six minutes is over


class SentFleet(NamedTuple):
    """Where it lies, and what it is; nothing of it is charged."""

    bus: BusSettings
    spec: FleetSpec


@contextmanager
def sent_fleet(directory: Path, registry: Registry, spec: FleetSpec) -> Iterator[SentFleet]:
    """Prices and every record of a fleet that ended a while ago; the broker ends with the `with`."""
    spec = replace(spec, start_ns=(time.time_ns() // MINUTE_NS - MINUTES_AGO) * MINUTE_NS)
    with Kafka(directory / "kafka", STACK_DIRECTORY) as kafka:
        bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
        apply_topics(bus, partitions=PARTITIONS, replication=1)
        with SchemaRegistry(bus) as schemas:
            register_all(schemas)
        sender = Sender(bus)
        sender.prices()
        sender.close()
        target = Topics(bus)
        emit(spec, target, lambda _: None)
        target.close()
        yield SentFleet(bus, spec)
