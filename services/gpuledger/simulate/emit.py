"""Where a simulated fleet goes: Avro files with the truth beside them, or the topics of a real Kafka."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import fastavro

from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    framed,
    partition_for_node,
)
from gpuledger.contract import topics
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.records import EventBatch, Holdings, NodeLifetime, SampleBatch, encode, record_name
from gpuledger.contract.schemas import schema
from gpuledger.simulate.plan import NodePlan, plan_node
from gpuledger.simulate.records import Telemetry, lifetime, window_records
from gpuledger.simulate.spec import FleetSpec
from gpuledger.simulate.truth import TruthRow, truth

_KINDS: Final = {EventBatch: Kind.EVENTS, SampleBatch: Kind.SAMPLES, Holdings: Kind.HOLDINGS}
RECORDS_AT_A_TIME: Final = 2000
Record: TypeAlias = Telemetry | NodeLifetime


class Emitted(NamedTuple):
    """How much was sent."""

    windows: int = 0
    records: int = 0
    calls: int = 0


class Target(Protocol):
    """Takes the records of a fleet in order of windows, each node's in the order of its agent."""

    def send(self, records: Iterable[Record]) -> None:
        """Take them; returns when they are safe."""

    def close(self) -> None:
        """No more will come."""


def emit(
    spec: FleetSpec,
    target: Target,
    told: Callable[[int], None],
    true: Callable[[TruthRow], None] | None = None,
) -> Emitted:
    """Send the whole fleet, window by window; ``told`` hears of each that is done, ``true`` the truth."""
    plans = [plan_node(spec, number) for number in range(spec.nodes)]
    target.send(lifetime(plan, spec, ended=False) for plan in plans)
    windows = records = calls = 0
    for start in range(spec.start_ns, spec.end_ns, spec.window_ns):
        found = _of_window(spec, plans, start)
        while some := list(islice(found, RECORDS_AT_A_TIME)):
            target.send(some)
            records += len(some)
            calls += sum(len(record.time_ns) for record in some if isinstance(record, EventBatch))
        if true is not None:
            for plan in plans:
                for row in truth(spec, plan, start):
                    true(row)
        windows += 1
        told(windows)
    gone = [plan for plan in plans if plan.ended_ns < spec.end_ns]
    target.send(lifetime(plan, spec, ended=True) for plan in gone)
    return Emitted(windows, records, calls)


def _of_window(spec: FleetSpec, plans: Iterable[NodePlan], start: int) -> Iterator[Telemetry]:
    for plan in plans:
        yield from window_records(spec, plan, start)


class TruthFile:
    """A CSV file of what really happened."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", newline="", encoding="utf-8")
        self._rows = csv.writer(self._file)
        self._rows.writerow(TruthRow._fields)

    def add(self, row: TruthRow) -> None:
        """Append a row."""
        self._rows.writerow(row)

    def close(self) -> None:
        """Write what is buffered."""
        self._file.close()


class Files:
    """One Avro object container for each kind of record."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._open: dict[str, tuple[Any, Any, Any]] = {}

    def send(self, records: Iterable[Record]) -> None:
        """Append them to the files of their kinds."""
        for record in records:
            name = record_name(record)
            if name not in self._open:
                file = (self._directory / f"{name}.avro").open("wb")
                parsed = fastavro.parse_schema(schema(name))
                self._open[name] = file, fastavro.write.Writer(file, parsed, codec="deflate"), parsed
            _, writer, parsed = self._open[name]
            writer.write(fastavro.schemaless_reader(io.BytesIO(encode(record)), parsed, None))

    def close(self) -> None:
        """Write what is buffered."""
        for file, writer, _ in self._open.values():
            writer.flush()
            file.close()


class Topics:
    """gpu.telemetry and gpu.nodes of a Kafka, as agents and the inventory send them."""

    def __init__(self, bus: BusSettings) -> None:
        self._producer = Producer(bus, "simulate")
        self._registry = SchemaRegistry(bus)
        self._partitions = partitions(bus)

    def send(self, records: Iterable[Record]) -> None:
        """Send them and wait until the brokers have them."""
        self._producer.produce_all(self._message(record) for record in records)

    def _message(self, record: Record) -> Outgoing:
        value = framed(self._registry, record)
        if isinstance(record, NodeLifetime):
            node = f"{record.cluster}/{record.node}".encode()
            key = node + b"/" + record.layout.instance_id.encode()
            return Outgoing(topics.NODES, key, value, (), partition_for_node(node, self._partitions))
        header = record.header
        headers = RecordHeaders.of(header, _KINDS[type(record)], getattr(record, "keyframe", False))
        key = f"{header.cluster}/{header.node}".encode()
        return Outgoing(topics.TELEMETRY, key, value, tuple(headers.to_kafka()))

    def close(self) -> None:
        """Close the connections."""
        self._producer.close()
        self._registry.close()


def partitions(bus: BusSettings) -> int:
    """Partitions of gpu.telemetry."""
    with PartitionReader(bus, "simulate") as reader:
        return reader.partitions(topics.TELEMETRY)
