"""Records as an agent sent them, from Avro files: object containers, or JSON with one record a line."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import fastavro

from gpuledger.attribution import NodeWindow, WindowState, check_record
from gpuledger.charge.files import AVRO_MAGIC, as_text
from gpuledger.contract.errors import BadRecord, ConfigError
from gpuledger.contract.records import EventBatch, Header, Holdings, SampleBatch, decode_as
from gpuledger.contract.revision import CORE_VERSION, MAX_INPUTS, Revision
from gpuledger.contract.schemas import schema

Telemetry: TypeAlias = EventBatch | SampleBatch | Holdings
_KINDS: dict[str, type[Telemetry]] = {kind.__name__: kind for kind in (EventBatch, SampleBatch, Holdings)}


def is_recorded(data: bytes) -> bool:
    """Whether a file is an Avro object container."""
    return data.startswith(AVRO_MAGIC)


def read_recorded(data: bytes, path: Path, kind: type[Telemetry]) -> list[Telemetry]:
    """The records of a file. A container says itself what it holds; lines of JSON are records of ``kind``.

    Raises ConfigError, with the number of the record, where one can not be read or can not be.
    """
    found: list[Telemetry] = []
    try:
        for number, (name, writer, plain) in enumerate(_plain(data, path, kind)):
            cls = _KINDS.get(name)
            if cls is None:
                raise ConfigError(f"has records {name}; expected {', '.join(_KINDS)}", str(path))
            body = io.BytesIO()
            fastavro.schemaless_writer(body, writer, plain)
            try:
                record = decode_as(cls, body.getvalue(), writer)
                check_record(record)
            except BadRecord as error:
                raise ConfigError(f"record {number}: {error}", str(path)) from None
            found.append(record)
    except (ValueError, KeyError, TypeError, IndexError, EOFError, AttributeError) as error:
        message = f"record {len(found)} can not be read: {error or type(error).__name__}"
        if not found:
            message += f"; expected an Avro file, or a record {kind.__name__} a line as JSON"
        raise ConfigError(message, str(path)) from None
    return found


def _plain(data: bytes, path: Path, kind: type[Telemetry]) -> Iterator[tuple[str, Any, Any]]:
    """(name, the schema it was written with, the record as plain values) of each record."""
    if is_recorded(data):
        reader = fastavro.reader(io.BytesIO(data))
        writer: Any = reader.writer_schema
        parsed = fastavro.parse_schema(writer)
        short = str(parsed["name"]).rpartition(".")[2] if isinstance(parsed, dict) else "of several kinds"
        plain_schema = {key: value for key, value in writer.items() if not key.startswith("__")}
        for record in reader:
            yield short, plain_schema, record
        return
    name = kind.__name__
    for record in fastavro.json_reader(io.StringIO(as_text(data, path)), schema(name)):
        yield name, schema(name), record


def windows_of(records: Iterable[Telemetry]) -> list[NodeWindow]:
    """The node-windows of records, each with what is there of it."""
    grouped: dict[tuple[str, str, int, int], list[Telemetry]] = {}
    for record in records:
        header = record.header
        key = (header.cluster, header.node, header.window_start_ns, header.window_length_ns)
        grouped.setdefault(key, []).append(record)
    return [_window(key, grouped[key]) for key in sorted(grouped)]


def _window(key: tuple[str, str, int, int], records: list[Telemetry]) -> NodeWindow:
    cluster, node, start, length = key
    return NodeWindow(
        cluster,
        node,
        start,
        length,
        Revision(0, min(len(records), MAX_INPUTS), 0, CORE_VERSION),
        state=_state([record.header for record in records]),
        holdings=[record for record in records if isinstance(record, Holdings)],
        events=[record for record in records if isinstance(record, EventBatch)],
        samples=[record for record in records if isinstance(record, SampleBatch)],
    )


def _state(headers: list[Header]) -> WindowState:
    """Complete where one epoch has every part from the first to the last."""
    live = [header for header in headers if not header.amendment]
    parts = {header.part: header.last for header in live}
    whole = sorted(parts) == list(range(len(parts))) and bool(parts) and parts[len(parts) - 1]
    one_epoch = len({(header.boot_id, header.epoch_ns) for header in live}) == 1
    return "complete" if whole and one_epoch else "incomplete"
