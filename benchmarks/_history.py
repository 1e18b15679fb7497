"""An archive of what a fleet would have sent, written without a Kafka, in order of time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice

from gpuledger.archive.log import IDENTITY
from gpuledger.archive.store import Store
from gpuledger.archive.writing import commit, write_run
from gpuledger.bus import Incoming, partition_for_node
from gpuledger.contract import topics
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.records import (
    EventBatch,
    Holdings,
    NodeLifetime,
    PriceBookVersion,
    PriceEntry,
    SampleBatch,
    encode,
    record_name,
)
from gpuledger.contract.schemas import schema_text
from gpuledger.contract.wire import frame
from gpuledger.simulate import FleetSpec, plan_node
from gpuledger.simulate.records import lifetime, window_records

KINDS = {Holdings: Kind.HOLDINGS, EventBatch: Kind.EVENTS, SampleBatch: Kind.SAMPLES}
IDS = {name: number for number, name in enumerate(topics.SCHEMA_FILES, 1)}
RUN_RECORDS = 1_000  # of a partition
NS_PER_MS = 1_000_000
PRICES = PriceBookVersion(1, 0, entries=[PriceEntry("gpu", "gpu", 12_290_000_000, "USD")])
Telemetry = EventBatch | SampleBatch | Holdings


def message(record: Telemetry, partition: int, offset: int) -> Incoming:
    """A telemetry record as it would lie in Kafka, a second after its window."""
    header = record.header
    headers = RecordHeaders.of(header, KINDS[type(record)], getattr(record, "keyframe", False))
    append_ms = (header.window_start_ns + header.window_length_ns) // NS_PER_MS + 1_000
    key = f"{header.cluster}/{header.node}".encode()
    value = framed(record)
    return Incoming(topics.TELEMETRY, partition, offset, append_ms, key, value, tuple(headers.to_kafka()))


def framed(record: object) -> bytes:
    """Bytes with the schema id of this archive."""
    return frame(IDS[record_name(record)], encode(record))


def begin(store: Store, lives: Iterable[NodeLifetime], partitions: int = 1) -> None:
    """What an archive has beside telemetry: schemas, prices, the lives of nodes."""
    counts = dict.fromkeys((topics.TELEMETRY, topics.NODES), partitions)
    counts |= dict.fromkeys((topics.PRICES, topics.TEAMS, topics.GENERATIONS), 1)
    identity = {"format": 1, "kafka_cluster": "none", "partitions": counts}
    store.put(IDENTITY, json.dumps(identity).encode())
    for name, number in IDS.items():
        store.put(f"schemas/{number:010d}.json", schema_text(name).encode())
    prices = [Incoming(topics.PRICES, 0, 0, 1, b"prices", framed(PRICES))]
    commit(store, write_run(store, prices, 0, 1))
    by_partition: dict[int, list[NodeLifetime]] = {}
    for life in lives:
        place = partition_for_node(f"{life.cluster}/{life.node}".encode(), partitions)
        by_partition.setdefault(place, []).append(life)
    for partition, some in by_partition.items():
        stated = [
            Incoming(topics.NODES, partition, at, 1, f"{life.cluster}/{life.node}/i".encode(), framed(life))
            for at, life in enumerate(some)
        ]
        commit(store, write_run(store, stated, 0, len(stated)))


def add(store: Store, records: Iterable[Telemetry], partitions: int = 1) -> tuple[int, int]:
    """Write the telemetry; (records, calls)."""
    offsets, calls = [0] * partitions, 0
    found = iter(records)
    while some := list(islice(found, RUN_RECORDS * partitions)):
        runs: list[list[Incoming]] = [[] for _ in range(partitions)]
        for record in some:
            key = f"{record.header.cluster}/{record.header.node}".encode()
            run = runs[place := partition_for_node(key, partitions)]
            run.append(message(record, place, offsets[place] + len(run)))
        for place, run in enumerate(runs):
            if run:
                commit(store, write_run(store, run, offsets[place], offsets[place] + len(run)))
                offsets[place] += len(run)
        calls += sum(len(record.time_ns) for record in some if isinstance(record, EventBatch))
    return sum(offsets), calls


def simulated(store: Store, spec: FleetSpec, partitions: int = 1) -> tuple[int, int]:
    """The whole of a simulated fleet; (records, calls)."""
    plans = [plan_node(spec, number) for number in range(spec.nodes)]
    begin(store, [lifetime(plan, spec, ended=True) for plan in plans], partitions)

    def records() -> Iterator[Telemetry]:
        for start in range(spec.start_ns, spec.end_ns, spec.window_ns):
            for plan in plans:
                yield from window_records(spec, plan, start)

    return add(store, records(), partitions)
