"""An archive of what a fleet would have sent, written without a Kafka: one partition, in order of time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice

from gpuledger.archive.log import IDENTITY
from gpuledger.archive.store import Store
from gpuledger.archive.writing import commit, write_run
from gpuledger.bus import Incoming
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
RUN_RECORDS = 2_000
NS_PER_MS = 1_000_000
PRICES = PriceBookVersion(1, 0, entries=[PriceEntry("gpu", "gpu", 12_290_000_000, "USD")])
Telemetry = EventBatch | SampleBatch | Holdings


def message(record: Telemetry, offset: int) -> Incoming:
    """A telemetry record as it would lie in Kafka, a second after its window."""
    header = record.header
    headers = RecordHeaders.of(header, KINDS[type(record)], getattr(record, "keyframe", False))
    append_ms = (header.window_start_ns + header.window_length_ns) // NS_PER_MS + 1_000
    key = f"{header.cluster}/{header.node}".encode()
    value = framed(record)
    return Incoming(topics.TELEMETRY, 0, offset, append_ms, key, value, tuple(headers.to_kafka()))


def framed(record: object) -> bytes:
    """Bytes with the schema id of this archive."""
    return frame(IDS[record_name(record)], encode(record))


def begin(store: Store, lives: Iterable[NodeLifetime]) -> None:
    """What an archive has beside telemetry: schemas, prices, the lives of nodes."""
    names = (topics.TELEMETRY, topics.NODES, topics.PRICES, topics.TEAMS, topics.GENERATIONS)
    identity = {"format": 1, "kafka_cluster": "none", "partitions": dict.fromkeys(names, 1)}
    store.put(IDENTITY, json.dumps(identity).encode())
    for name, number in IDS.items():
        store.put(f"schemas/{number:010d}.json", schema_text(name).encode())
    prices = [Incoming(topics.PRICES, 0, 0, 1, b"prices", framed(PRICES))]
    commit(store, write_run(store, prices, 0, 1))
    stated = [
        Incoming(topics.NODES, 0, at, 1, f"{life.cluster}/{life.node}/i".encode(), framed(life))
        for at, life in enumerate(lives)
    ]
    if stated:
        commit(store, write_run(store, stated, 0, len(stated)))


def add(store: Store, records: Iterable[Telemetry]) -> tuple[int, int]:
    """Write the telemetry; (records, calls)."""
    offset = calls = 0
    found = iter(records)
    while some := list(islice(found, RUN_RECORDS)):
        run = [message(record, offset + at) for at, record in enumerate(some)]
        calls += sum(len(record.time_ns) for record in some if isinstance(record, EventBatch))
        commit(store, write_run(store, run, offset, offset + len(run)))
        offset += len(run)
    return offset, calls


def simulated(store: Store, spec: FleetSpec) -> tuple[int, int]:
    """The whole of a simulated fleet; (records, calls)."""
    plans = [plan_node(spec, number) for number in range(spec.nodes)]
    begin(store, [lifetime(plan, spec, ended=True) for plan in plans])

    def records() -> Iterator[Telemetry]:
        for start in range(spec.start_ns, spec.end_ns, spec.window_ns):
            for plan in plans:
                yield from window_records(spec, plan, start)

    return add(store, records())
