"""Records of gpu.telemetry as the protocol sees them, and their bodies decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from gpuledger.attribution import check_record
from gpuledger.bus import Incoming, partition_for_node
from gpuledger.bus.log import Schemas
from gpuledger.contract.avro import Parts
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import RECORD_OF_KIND, Kind, RecordHeaders
from gpuledger.contract.records import EventBatch, Holdings, SampleBatch, decode_as, decode_series
from gpuledger.contract.schemas import schema
from gpuledger.contract.windows import WindowGrid
from gpuledger.contract.wire import unframe
from gpuledger.processor.protocol import LogRecord

NS_PER_MS = 1_000_000
# Of what nodes repeat, as it lies in Kafka: some 10 kB a node, and some ten times as much as Python objects.
KEPT_BYTES = 32 << 20
ENTRY_BYTES = 100  # what a node costs that repeats nothing: its objects are some ten times as much

Telemetry: TypeAlias = EventBatch | SampleBatch | Holdings
_CLASS_OF_KIND: Mapping[Kind, type[EventBatch] | type[SampleBatch] | type[Holdings]] = {
    Kind.EVENTS: EventBatch,
    Kind.SAMPLES: SampleBatch,
    Kind.HOLDINGS: Holdings,
}


def log_record(record: Incoming, headers: RecordHeaders) -> LogRecord:
    """What the headers and the broker say of a record."""
    return LogRecord(
        offset=record.offset,
        append_ns=record.timestamp_ms * NS_PER_MS,
        identity=headers.id,
        window_start_ns=headers.window_start_ns,
        part=headers.part,
        last=headers.last,
        goodbye=headers.goodbye,
        amendment=headers.amendment,
        mend=headers.mend,
        keyframe=headers.keyframe and headers.kind is Kind.HOLDINGS,
        size_bytes=len(record.value or b""),
    )


def placed_headers(record: Incoming, partitions: int, grid_of: Callable[[str], WindowGrid]) -> RecordHeaders:
    """The headers of a record, checked against its place. Raises BadRecord."""
    headers = RecordHeaders.from_kafka(record.key, record.headers)
    if partition_for_node(headers.id.node_key.key, partitions) != record.partition:
        # a second owner would charge the same node, each from a part of its records
        raise BadRecord("wrong_partition", "the key belongs to another partition")
    length_ns = grid_of(headers.id.cluster).length_ns
    if headers.window_length_ns != length_ns:
        raise BadRecord(
            "wrong_grid", f"the cluster's windows have {length_ns} ns, not {headers.window_length_ns}"
        )
    return headers


class Decoder:
    """Bodies to records. The registry is asked once for each schema id. Owned by one thread.

    Records of a node share what it repeats in each of them; nobody may change it.
    """

    def __init__(self, registry: Schemas) -> None:
        self._registry = registry
        self._writers: dict[int, tuple[str, Mapping[str, object] | None]] = {}
        self._series = Series()

    def decode(self, record: Incoming, headers: RecordHeaders) -> Telemetry:
        """The record in a message. Raises BadRecord, also where body and headers disagree, or where it
        says what can not be."""
        found = self.decode_many([(record, headers)])[0]
        if isinstance(found, BadRecord):
            raise found
        return found

    def decode_many(self, records: Sequence[tuple[Incoming, RecordHeaders]]) -> list[Telemetry | BadRecord]:
        """What ``decode`` returns or raises for each message. Raises RegistryUnavailable."""
        found: dict[int, Telemetry | BadRecord] = {}
        together: dict[Kind, list[tuple[int, bytes]]] = {}
        for number, (record, headers) in enumerate(records):
            try:
                body, writer = self._body(record, headers.kind)
                if writer is None:
                    together.setdefault(headers.kind, []).append((number, bytes(body)))
                else:
                    found[number] = decode_as(_CLASS_OF_KIND[headers.kind], body, writer)
            except BadRecord as error:
                found[number] = error
        for kind, chosen in together.items():
            known = [self._series.parts(records[number][0].key, kind) for number, _ in chosen]
            decoded = decode_series(_CLASS_OF_KIND[kind], [body for _, body in chosen], known)
            found.update((number, one) for (number, _), one in zip(chosen, decoded, strict=True))
        self._series.trim()
        return [_checked(found[number], headers) for number, (_, headers) in enumerate(records)]

    def _body(self, record: Incoming, kind: Kind) -> tuple[memoryview, Mapping[str, object] | None]:
        """The record's bytes, and the schema that wrote them where that is not the current one."""
        if record.value is None:
            raise BadRecord("no_value", "the record has no value")
        schema_id, body = unframe(record.value)
        name, writer = self._writer(schema_id)
        if name != RECORD_OF_KIND[kind]:
            raise BadRecord("wrong_schema", f"a record of kind {kind.value} was written as {name}")
        return body, writer

    def _writer(self, schema_id: int) -> tuple[str, Mapping[str, object] | None]:
        """(short name of the record, schema it was written with or None where that is the current one)."""
        known = self._writers.get(schema_id)
        if known is None:
            written = self._registry.schema(schema_id)
            name = str(written.get("name", ""))
            current = name in RECORD_OF_KIND.values() and written == schema(name)
            known = self._writers[schema_id] = (name, None if current else written)
        return known


class Series:
    """What each node repeats in its records of each kind.

    Beyond the bytes that are kept every other node is forgotten: windows come in turn, and who forgot those
    that were read longest ago would forget each node just before it comes again.
    """

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._parts: dict[tuple[bytes | None, Kind], Parts] = {}

    def parts(self, key: bytes | None, kind: Kind) -> Parts:
        """Those of a node's records of that kind."""
        found = self._parts.get((key, kind))
        if found is None:
            found = self._parts[key, kind] = Parts()
        return found

    def trim(self) -> None:
        """Keep to the bytes that may be kept."""
        while sum(parts.size_bytes + ENTRY_BYTES for parts in self._parts.values()) > self._kept_bytes:
            for place in list(self._parts)[::2]:
                del self._parts[place]


def _checked(found: Telemetry | BadRecord, headers: RecordHeaders) -> Telemetry | BadRecord:
    """A decoded record, or why it is refused."""
    if isinstance(found, BadRecord):
        return found
    said = RecordHeaders.of(found.header, headers.kind, getattr(found, "keyframe", False))
    # a mended copy may keep the body that it mends
    if said != headers and said != replace(headers, mend=said.mend):
        return BadRecord("header_mismatch", "the Kafka headers and the body name different records")
    try:
        check_record(found)
    except BadRecord as error:
        return error
    return found
