"""Records of gpu.telemetry as the protocol sees them, and their bodies decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from gpuledger.attribution import check_record
from gpuledger.bus import Incoming, partition_for_node
from gpuledger.bus.log import Schemas
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import RECORD_OF_KIND, Kind, RecordHeaders
from gpuledger.contract.records import EventBatch, Holdings, SampleBatch, decode, decode_as
from gpuledger.contract.schemas import schema
from gpuledger.contract.windows import WindowGrid
from gpuledger.contract.wire import unframe
from gpuledger.processor.protocol import LogRecord

NS_PER_MS = 1_000_000

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
    """Bodies to records. The registry is asked once for each schema id."""

    def __init__(self, registry: Schemas) -> None:
        self._registry = registry
        self._writers: dict[int, tuple[str, Mapping[str, object] | None]] = {}

    def decode(self, record: Incoming, headers: RecordHeaders) -> Telemetry:
        """The record in a message. Raises BadRecord, also where body and headers disagree, or where it
        says what can not be."""
        if record.value is None:
            raise BadRecord("no_value", "the record has no value")
        schema_id, body = unframe(record.value)
        name, writer = self._writer(schema_id)
        wanted = RECORD_OF_KIND[headers.kind]
        if name != wanted:
            raise BadRecord("wrong_schema", f"a record of kind {headers.kind.value} was written as {name}")
        cls = _CLASS_OF_KIND[headers.kind]
        decoded: Telemetry = decode(cls, body) if writer is None else decode_as(cls, body, writer)
        said = RecordHeaders.of(decoded.header, headers.kind, getattr(decoded, "keyframe", False))
        # a mended copy may keep the body that it mends
        if said != replace(headers, mend=said.mend):
            raise BadRecord("header_mismatch", "the Kafka headers and the body name different records")
        check_record(decoded)
        return decoded

    def _writer(self, schema_id: int) -> tuple[str, Mapping[str, object] | None]:
        """(short name of the record, schema it was written with or None where that is the current one)."""
        known = self._writers.get(schema_id)
        if known is None:
            written = self._registry.schema(schema_id)
            name = str(written.get("name", ""))
            current = name in RECORD_OF_KIND.values() and written == schema(name)
            known = self._writers[schema_id] = (name, None if current else written)
        return known
