"""The body of a refused record: to plain values that people can read and mend, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuledger.bus import SchemaRegistry, register
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.records.convert import codec, limits_of
from gpuledger.contract.schemas import schema
from gpuledger.contract.topics import RECORDS_OF_TOPIC
from gpuledger.contract.wire import MAGIC, frame, unframe


@dataclass(frozen=True, slots=True)
class Body:
    """A body that could be decoded: the short name of its record, and its fields as JSON has them."""

    record: str
    fields: Mapping[str, Any]


def decoded(topic: str, value: bytes | None, registry: SchemaRegistry) -> Body:
    """What the bytes say. Raises BadRecord, also for a record that the topic does not carry; Unavailable."""
    if value is None:
        raise BadRecord("no_value", "the record has no value")
    schema_id, body = unframe(value)
    writer = registry.schema(schema_id)
    name = str(writer.get("name", ""))
    if name not in RECORDS_OF_TOPIC.get(topic, ()):
        raise BadRecord("wrong_schema", f"{topic} carries no {name}")
    current, limits = codec(name), limits_of(name)
    found = (
        current.decode(body, limits) if writer == schema(name) else current.decode_as(body, writer, limits)
    )
    return Body(name, _plain(found))


def mended_value(topic: str, edited: bytes, record: str | None, registry: SchemaRegistry) -> bytes:
    """The framed value of a mended body: JSON as `show --json` has it under "record", or the bytes of a value
    as they are. ``record`` is the short name of the record where it is known.

    Raises Refused where it is neither, or breaks its schema.
    """
    if edited[:1] == bytes([MAGIC]):
        return edited
    try:
        fields = json.loads(edited)
    except ValueError:
        raise Refused("the mended body is neither JSON nor a value (which begins with 0x00)") from None
    if not isinstance(fields, dict):
        raise Refused("the mended body is JSON, but no object")
    names = [record] if record else list(RECORDS_OF_TOPIC[topic])
    fitting = [name for name in names if set(fields) <= {field["name"] for field in schema(name)["fields"]}]
    if len(fitting) != 1:
        raise Refused(f"the mended body has other fields than {' or '.join(names)}")
    try:
        body = codec(fitting[0]).encode(fields)
    except (BadRecord, KeyError, TypeError, ValueError, OverflowError) as error:
        raise Refused(f"the mended body is no {fitting[0]}: {error}") from None
    return frame(register(registry, fitting[0]), body)


def _plain(value: Any) -> Any:
    match value:
        case np.ndarray():
            return value.tolist()
        case np.generic():
            return value.item()
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case bytes():
            return value.decode("latin-1")
        case _:
            return value
