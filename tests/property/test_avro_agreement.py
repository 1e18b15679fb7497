"""The codec and fastavro agree on every schema and value, whoever writes and whoever reads."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.contract.avro import Codec
from gpuledger.contract.errors import BadRecord
from tests.support.avro_values import (
    EVENT_BATCH,
    absolute,
    column,
    event_batch,
    fastavro_bytes,
    fastavro_value,
    longs,
    plain,
    record_of,
    record_schemas,
    same,
    values,
)


@st.composite
def schema_and_value(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    document = draw(record_schemas())
    return document, draw(values(document))


@st.composite
def mutations(draw: st.DrawFn, body: bytes) -> bytes:
    """The body with some bytes changed, removed, repeated or added."""
    octets = bytearray(body)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(octets)))
        match draw(st.sampled_from(["set", "flip", "cut", "insert", "repeat"])):
            case "set" if at < len(octets):
                octets[at] = draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF]))
            case "flip" if at < len(octets):
                octets[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del octets[at : at + draw(st.integers(1, 8))]
            case "repeat":
                octets[at:at] = octets[at : at + draw(st.integers(1, 8))]
            case _:
                octets[at:at] = draw(st.binary(min_size=1, max_size=11))
    return bytes(octets)


@given(schema_and_value())
@settings(max_examples=150, deadline=None)
def test_what_fastavro_writes_is_decoded_to_the_same(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, value = case
    body = fastavro_bytes(document, value)
    assert same(plain(Codec(document).decode(body)), fastavro_value(document, body))


@given(schema_and_value())
@settings(max_examples=150, deadline=None)
def test_what_is_encoded_fastavro_reads_to_the_same(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, value = case
    codec = Codec(document)
    body = codec.encode(value)
    assert same(fastavro_value(document, body), value)
    assert same(plain(codec.decode(body)), value)


@given(st.data())
@settings(max_examples=250, deadline=None)
def test_a_mutated_record_is_refused_or_means_the_same_to_fastavro(data: st.DataObject) -> None:
    document, value = data.draw(schema_and_value())
    codec = Codec(document)
    writer = data.draw(st.sampled_from([codec.encode, lambda v: fastavro_bytes(document, v)]))
    body = data.draw(mutations(writer(value)))
    try:
        decoded = codec.decode(body)
    except BadRecord as error:
        assert error.reason
        return
    assert same(plain(decoded), fastavro_value(document, body))


@given(st.integers(0, 60), st.data())
@settings(max_examples=120, deadline=None)
def test_a_mutated_event_batch_is_refused_or_means_the_same_to_fastavro(
    events: int, data: st.DataObject
) -> None:
    codec = Codec(EVENT_BATCH)
    body = data.draw(mutations(codec.encode(event_batch(events))))
    try:
        decoded = codec.decode(body)
    except BadRecord:
        return
    assert same(plain(decoded), absolute(EVENT_BATCH, fastavro_value(EVENT_BATCH, body)))


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_refused_or_mean_the_same_to_fastavro(body: bytes) -> None:
    document = record_of(column("a"), column("b", "double"), {"name": "c", "type": ["null", "string"]})
    try:
        decoded = Codec(document).decode(body)
    except BadRecord:
        return
    assert same(plain(decoded), fastavro_value(document, body))


@given(st.lists(longs(), max_size=80))
@settings(max_examples=150, deadline=None)
def test_a_delta_coded_column_comes_back_exactly_whatever_it_holds(items: list[int]) -> None:
    document = record_of(column("a", coding="delta"))
    codec = Codec(document)
    body = codec.encode({"a": np.array(items, np.int64)})
    assert codec.decode(body)["a"].tolist() == items
    assert absolute(document, fastavro_value(document, body)) == {"a": items}


@given(schema_and_value(), st.data())
@settings(max_examples=100, deadline=None)
def test_a_record_of_another_writer_is_resolved_as_fastavro_resolves_it(
    case: tuple[dict[str, Any], dict[str, Any]], data: st.DataObject
) -> None:
    writer, value = case
    kept = [field for field in writer["fields"] if data.draw(st.booleans())]
    wider = [widened(field) for field in kept]
    reader = record_of(*wider, column("added") | {"default": [1, 2]}, name=writer["name"])
    body = Codec(writer).encode(value)
    resolved = fastavro.schemaless_reader(
        io.BytesIO(body), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )
    assert same(plain(Codec(reader).decode_as(body, writer)), resolved)


def widened(field: dict[str, Any]) -> dict[str, Any]:
    """The field with the next wider type, where its type has one that loses nothing."""
    promoted = {"int": "long", "float": "double"}
    kind = field["type"]
    return {**field, "type": promoted.get(kind, kind) if isinstance(kind, str) else kind}
