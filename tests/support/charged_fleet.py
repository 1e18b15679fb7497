"""A simulated fleet with crashes that was charged live, to be replayed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from gpuledger.bus import BusSettings
from gpuledger.contract import topics
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.identity import NodeKey
from gpuledger.localstack import Registry
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay.request import Request
from gpuledger.simulate import FleetSpec, plan_node
from gpuledger.sink.batcher import Batch
from gpuledger.sink.tables import Arrival
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse
from tests.support.children import tied
from tests.support.fleet import ledger
from tests.support.processors import SILENCE_S, Workers
from tests.support.sent_fleet import sent_fleet
from tests.support.waiting import PATIENCE_S

SPEC = FleetSpec(gpus=24, hours=0.1, seed=11, agent_crashes=20.0, node_ends=0.4)
SETTINGS = ProcessorSettings(silence_s=SILENCE_S)


@dataclass(frozen=True)
class Charged:
    """A fleet that was charged live."""

    bus: BusSettings
    spec: FleetSpec
    lived_ns: int

    @property
    def request(self) -> Request:
        """All of it."""
        return Request(self.spec.start_ns, self.spec.end_ns, SETTINGS, self.bus.plain())


@contextmanager
def charged_fleet(directory: Path, registry: Registry) -> Iterator[Charged]:
    """Kafka with a fleet and its charges, written by a worker that was killed midway."""
    with sent_fleet(directory, registry, SPEC) as (bus, spec):
        plans = [plan_node(spec, number) for number in range(spec.nodes)]
        lived_ns = sum((plan.ended_ns - plan.launched_ns) * spec.gpus_of(plan.number) for plan in plans)
        workers = Workers(bus, "processor-to-be-replayed", directory)
        try:
            first = workers.start()
            workers.await_that(lambda: len(ledger(bus).sets) > 20, PATIENCE_S, "first charges")
            workers.kill(first)
            workers.start()
            workers.await_that(lambda: charged_ns(bus, spec) == lived_ns, PATIENCE_S, "all charged")
        finally:
            workers.end()
        yield Charged(bus, spec, lived_ns)


def charged_ns(bus: BusSettings, spec: FleetSpec) -> int:
    """GPU time that was charged, in ns."""
    parts = ("used_ns", "held_idle_ns", "unallocated_ns", "unobserved_ns")
    return sum(
        int(getattr(one, part).sum())
        for (_, start), one in ledger(bus).sets.items()
        if start < spec.end_ns
        for part in parts
    )


def called(charged: Charged, directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`gpuledger replay` of all of it."""
    environment = {
        **os.environ,
        "GPULEDGER_KAFKA_BOOTSTRAP": charged.bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": charged.bus.registry_url,
        "GPULEDGER_PROCESSOR_SILENCE_S": str(SILENCE_S),
        "XDG_STATE_HOME": str(directory),
    }
    times = [
        datetime.fromtimestamp(ns / 10**9, UTC).isoformat()
        for ns in (charged.spec.start_ns, charged.spec.end_ns)
    ]
    command = [sys.executable, "-m", "gpuledger", "replay", "--from", times[0], "--to", times[1], *options]
    return subprocess.run(tied(command), env=environment, capture_output=True, text=True, timeout=240)


def load(warehouse: Warehouse, charged: Charged, without: Collection[tuple[NodeKey, int]] = ()) -> None:
    """What the sink would have written by now."""
    sets = [one for key, one in ledger(charged.bus).sets.items() if key not in without]
    arrivals = [Arrival(one, topics.CHARGES, one.partition, at, 0) for at, one in enumerate(sets)]
    Writer(warehouse, SystemClock()).write(Batch(arrivals))


def price_of_all(spec: FleetSpec, nano_per_hour: int) -> int:
    """What every GPU cost from the launch of its node to its end, by hand."""
    plans = [plan_node(spec, number) for number in range(spec.nodes)]
    hour_ns = 3600 * 10**9
    return sum(
        spec.gpus_of(plan.number)
        * (nano_per_hour * plan.ended_ns // hour_ns - nano_per_hour * plan.launched_ns // hour_ns)
        for plan in plans
    )


class Dying(Warehouse):
    """Ends before its n-th insert."""

    inserts_left = 0

    def insert_arrow(self, table: str, rows: pa.Table, token: str = "") -> int:
        if self.inserts_left == 0:
            raise KeyboardInterrupt
        self.inserts_left -= 1
        return super().insert_arrow(table, rows, token)


def generations_by_hour(warehouse: Warehouse, end_ns: int) -> list[list[int]]:
    """Which generations the windows of each hour show."""
    rows = warehouse.rows(
        "SELECT groupUniqArray(generation) FROM charge_windows FINAL "
        "WHERE window_start < fromUnixTimestamp({end:UInt32}) GROUP BY toStartOfHour(window_start)",
        {"end": end_ns // 10**9},
    )
    return [list(found) for (found,) in rows]
