"""Nodes that send telemetry to a real Kafka, and the ledger that follows from what reached it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from gpuledger.bus import (
    BusSettings,
    Incoming,
    Outgoing,
    PartitionReader,
    Placed,
    Producer,
    SchemaRegistry,
    framed,
    partition_for_node,
)
from gpuledger.contract import topics
from gpuledger.contract.columns import doubles, longs
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import (
    ChargeSet,
    Device,
    EventBatch,
    Header,
    Holder,
    Holdings,
    NodeLayout,
    NodeLifetime,
    Pod,
    PriceBookVersion,
    PriceEntry,
    Process,
    SampleBatch,
    decode,
)
from gpuledger.contract.revision import Revision
from gpuledger.contract.wire import unframe

WINDOW_NS = 10_000_000_000
PRICES = PriceBookVersion(1, 0, entries=[PriceEntry("gpu", "gpu", 12_290_000_000, "USD")])
Telemetry = EventBatch | SampleBatch | Holdings
KINDS: dict[type, Kind] = {EventBatch: Kind.EVENTS, SampleBatch: Kind.SAMPLES, Holdings: Kind.HOLDINGS}


def recent_start(windows_ago: int) -> int:
    """Start of the window that many windows before now."""
    return (time.time_ns() // WINDOW_NS - windows_ago) * WINDOW_NS


@dataclass(slots=True)
class Node:
    """A node with one exclusive GPU that two processes of a pod use; what it sends follows from its name."""

    key: NodeKey
    epoch_ns: int = 5
    sequence: int = 0
    events: int = 40
    boot_id: str = "boot"
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    @property
    def layout(self) -> NodeLayout:
        """One H100."""
        return NodeLayout(
            instance_id=f"i-{self.key.node}",
            instance_type="p5.48xlarge",
            devices=[Device(f"GPU-{self.key.node}", index=0, model="H100")],
        )

    def window(self, start: int, goodbye: bool = False) -> list[Telemetry]:
        """All records of a window: keyframe, calls, samples."""
        return [self.holdings(start), self.calls(start), self.samples(start, goodbye)]

    def holdings(self, start: int) -> Holdings:
        """The keyframe."""
        processes = self._processes()
        return Holdings(
            self._header(start, 0),
            start,
            self.layout,
            keyframe=True,
            pods=[Pod(f"pod-{self.key.node}", "research", "train", labels={"team": "vision"})],
            holders=[Holder(f"pod-{self.key.node}", 0)],
            processes=processes,
            resident_process=longs([0]),
            resident_device=longs([0]),
            resident_bytes=longs([1 << 30]),
            unwitnessed=longs([0]),
        )

    def calls(self, start: int, part: int = 1, last: bool = False) -> EventBatch:
        """Launches and waits, at random."""
        n = self.events
        ends = np.sort(self.random.integers(0, WINDOW_NS, n)) + start
        waits = self.random.integers(0, WINDOW_NS // (2 * n), n)
        launches = np.arange(n) % 2 == 0
        zeros, none = np.zeros(n, np.int64), np.full(n, -1, np.int64)
        return EventBatch(
            self._header(start, part, last),
            processes=self._processes(),
            devices=[self.layout.devices[0].uuid],
            time_ns=ends,
            process=self.random.integers(0, 2, n),
            thread=none,
            device=zeros,
            operation=np.where(launches, int(Operation.LAUNCH_KERNEL), int(Operation.SYNCHRONIZE_STREAM)),
            duration_ns=np.where(launches, 3000, waits),
            bytes=zeros,
            launched_threads=np.where(launches, 256, 0),
            function=none,
            result=zeros,
            count=zeros + 1,
            span_ns=zeros,
        )

    def samples(self, start: int, goodbye: bool = False) -> SampleBatch:
        """What NVML says of the whole window; the last part."""
        return SampleBatch(
            self._header(start, 2, True, goodbye),
            devices=[self.layout.devices[0].uuid],
            device=longs([0, 0]),
            process=longs([-1, -1]),
            field=longs([Field.ENGINE_ACTIVE, Field.SM_ACTIVE]),
            source=longs([SampleSource.GPM] * 2),
            start_ns=longs([start, start]),
            duration_ns=longs([WINDOW_NS, WINDOW_NS]),
            value=doubles([0.6, 0.4]),
        )

    def lifetime(self, launched_ns: int, ended_ns: int | None = None) -> NodeLifetime:
        """What gpu.nodes says of it."""
        return NodeLifetime(*self.key, self.layout, launched_ns, ended_ns, WINDOW_NS)

    def _processes(self) -> list[Process]:
        return [Process(pid, 1, consumer_kind="pod", consumer=f"pod-{self.key.node}") for pid in (11, 12)]

    def _header(self, start: int, part: int, last: bool = False, goodbye: bool = False) -> Header:
        self.sequence += 1
        return Header(
            *self.key, self.boot_id, self.epoch_ns, self.sequence - 1, start, WINDOW_NS,
            part=part, last=last, goodbye=goodbye,
        )  # fmt: skip


class Sender:
    """Sends to a real Kafka, in order, awaited."""

    def __init__(self, bus: BusSettings) -> None:
        self._bus = bus
        self._producer = Producer(bus, "fleet")
        self._registry = SchemaRegistry(bus)

    def telemetry(self, records: Iterable[Telemetry]) -> list[Placed]:
        """As agents send them."""
        return self._producer.produce_all(self.outgoing(record) for record in records)

    def outgoing(self, record: Telemetry) -> Outgoing:
        """The message of one record."""
        header = record.header
        headers = RecordHeaders.of(header, KINDS[type(record)], getattr(record, "keyframe", False))
        key = NodeKey(header.cluster, header.node).key
        return Outgoing(topics.TELEMETRY, key, framed(self._registry, record), tuple(headers.to_kafka()))

    def unreadable(self, record: Telemetry) -> Placed:
        """The record with its body cut off."""
        message = self.outgoing(record)
        (placed,) = self._producer.produce_all([message._replace(value=(message.value or b"")[:-3])])
        return placed

    def lifetime(self, statement: NodeLifetime) -> None:
        """As the cluster's inventory tells it."""
        node = NodeKey(statement.cluster, statement.node)
        key = node.key + b"/" + statement.layout.instance_id.encode()
        partition = partition_for_node(node.key, partitions_of(self._bus))
        value = framed(self._registry, statement)
        self._producer.produce_all([Outgoing(topics.NODES, key, value, (), partition)])

    def prices(self) -> None:
        """One price book, active from ever."""
        value = framed(self._registry, PRICES)
        self._producer.produce_all([Outgoing(topics.PRICES, b"prices", value, (), 0)])

    def send(self, message: Outgoing) -> Placed:
        """Any message, awaited."""
        (placed,) = self._producer.produce_all([message])
        return placed

    def close(self) -> None:
        self._producer.close()
        self._registry.close()


def partitions_of(bus: BusSettings) -> int:
    with PartitionReader(bus, "fleet") as reader:
        return reader.partitions(topics.TELEMETRY)


class Ledger(NamedTuple):
    """Charge sets by (node, window start); of each the greatest revision."""

    sets: Mapping[tuple[NodeKey, int], ChargeSet]
    contents: Mapping[tuple[NodeKey, int, int], set[bytes]]


def ledger(bus: BusSettings) -> Ledger:
    """What gpu.charges holds."""
    sets: dict[tuple[NodeKey, int], ChargeSet] = {}
    contents: dict[tuple[NodeKey, int, int], set[bytes]] = defaultdict(set)
    for message in read_all(bus, topics.CHARGES):
        body = bytes(unframe(message.value or b"")[1])
        charges = decode(ChargeSet, body)
        key = NodeKey(charges.cluster, charges.node), charges.window_start_ns
        contents[(*key, _rank(charges))].add(body)
        if key not in sets or _rank(charges) >= _rank(sets[key]):
            sets[key] = charges
    return Ledger(sets, contents)


def read_all(bus: BusSettings, topic: str) -> list[Incoming]:
    """Every record of a topic."""
    with PartitionReader(bus, "fleet-reader") as reader:
        return [
            message
            for partition in range(reader.partitions(topic))
            for message in reader.read_to_end(topic, partition)
        ]


def differences(got: ChargeSet, wanted: ChargeSet) -> list[str]:
    """Names of the columns that differ, lineage and rank aside."""
    beside = {"digest", "partition", "offset_starts", "offset_counts", "inputs", "core_version"}
    return [
        item.name
        for item in fields(ChargeSet)
        if item.name not in beside and not _same(getattr(got, item.name), getattr(wanted, item.name))
    ]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return bool(a == b)


def _rank(charges: ChargeSet) -> int:
    return Revision(charges.generation, charges.inputs, charges.digest, charges.core_version).packed
