"""A record of an older or newer writer is decoded as the reader's schema sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuledger.contract.avro import DEFAULT, Codec, Limits, reasons
from gpuledger.contract.errors import BadRecord
from tests.support.avro_values import EVENT_BATCH, column, event_batch, plain, record_of

TEXTS = {"name": "texts", "type": {"type": "array", "items": "string"}}
OLD = record_of(column("t", coding="delta"), {"name": "n", "type": "int"}, {"name": "gone", "type": "string"})
NEW = record_of(
    column("t", coding="delta", columns="c"),
    column("added", columns="d") | {"default": []},
    {"name": "n", "type": "long"},
    {"name": "label", "type": ["null", "string"], "default": None},
)


def read(writer: dict[str, Any], reader: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    return Codec(reader).decode_as(Codec(writer).encode(value), writer)


def refused(writer: dict[str, Any], reader: dict[str, Any], value: dict[str, Any]) -> BadRecord:
    with pytest.raises(BadRecord) as caught:
        read(writer, reader, value)
    return caught.value


def test_an_older_record_gains_the_defaults_and_loses_what_is_gone() -> None:
    decoded = read(OLD, NEW, {"t": [10**18, 10**18 + 3, 5], "n": 7, "gone": "x"})
    assert decoded["t"].dtype == decoded["added"].dtype == np.int64
    assert plain(decoded) == {"t": [10**18, 10**18 + 3, 5], "added": [], "n": 7, "label": None}


def test_a_newer_record_loses_what_the_reader_does_not_know() -> None:
    value = {"t": range(100), "n": 7, "label": "x"}
    reader = record_of(column("t", coding="delta"), {"name": "n", "type": "double"})
    assert plain(read(NEW, reader, value)) == {"t": list(range(100)), "n": 7.0}


def test_a_field_is_found_by_its_alias() -> None:
    reader = record_of(column("times", coding="delta") | {"aliases": ["t"]})
    writer = record_of(column("t", coding="delta"))
    assert read(writer, reader, {"t": [5, 7]})["times"].tolist() == [5, 7]


def test_the_same_schema_with_other_words_is_read_directly() -> None:
    writer = {**EVENT_BATCH, "doc": "other words"}
    body = Codec(EVENT_BATCH).encode(event_batch(100))
    reader = Codec(EVENT_BATCH)
    assert plain(reader.decode_as(body, writer)) == plain(reader.decode(body))


def test_a_widened_event_batch_is_read_by_the_older_reader() -> None:
    extra = {"name": "later", "type": {"type": "array", "items": "long"}, "default": []}
    writer = {**EVENT_BATCH, "fields": [*EVENT_BATCH["fields"], extra]}
    body = Codec(writer).encode({**event_batch(100), "later": [1, 2]})
    expected = Codec(EVENT_BATCH).decode(Codec(EVENT_BATCH).encode(event_batch(100)))
    assert plain(Codec(EVENT_BATCH).decode_as(body, writer)) == plain(expected)


def test_a_union_of_records_keeps_its_branch() -> None:
    x, y = (record_of({"name": "v", "type": "long", "default": 0}, name=name) for name in "XY")
    tag = {"name": "w", "type": "long", "default": 3}
    y = {**y, "fields": [*y["fields"], tag]}
    writer = record_of({"name": "u", "type": ["null", x, y]})
    reader = record_of({"name": "u", "type": ["null", y, x]}, {"name": "n", "type": "long", "default": 1})
    assert read(writer, reader, {"u": {"v": 1}}) == {"u": {"v": 1}, "n": 1}
    assert read(writer, reader, {"u": {"v": 1, "w": 2}}) == {"u": {"v": 1, "w": 2}, "n": 1}


def test_logical_types_are_left_alone() -> None:
    at = {"type": "long", "logicalType": "timestamp-micros"}
    writer = record_of({"name": "at", "type": at})
    reader = record_of({"name": "at", "type": at}, {"name": "n", "type": "long", "default": 1})
    assert read(writer, reader, {"at": 12345}) == {"at": 12345, "n": 1}


def test_the_readers_rules_hold() -> None:
    writer = record_of(TEXTS, column("i"))
    reader = record_of(TEXTS, column("i", index="texts"), {"name": "n", "type": "long", "default": 1})
    assert plain(read(writer, reader, {"texts": ["x"], "i": [0]}))["i"] == [0]
    error = refused(writer, reader, {"texts": ["x"], "i": [1]})
    assert (error.reason, error.field, error.position) == (reasons.BAD_INDEX, "i", None)


@pytest.mark.parametrize("length", [0, 1, 5, 7])
def test_a_malformed_record_is_refused_before_it_is_resolved(length: int) -> None:
    body = Codec(OLD).encode({"t": [1, 2, 3], "n": 7, "gone": "x"})[:length]
    with pytest.raises(BadRecord) as caught:
        Codec(NEW).decode_as(body, OLD)
    assert caught.value.reason in (reasons.TRUNCATED, reasons.BAD_COUNT, reasons.BAD_BLOCK_SIZE)


def test_the_limits_hold_for_the_writers_record() -> None:
    body = Codec(OLD).encode({"t": [1, 2, 3], "n": 7, "gone": "x"})
    with pytest.raises(BadRecord, match="over_limit"):
        Codec(NEW).decode_as(body, OLD, Limits(max_array_items=2))
    assert Codec(NEW).decode_as(body, OLD, DEFAULT)["n"] == 7


@pytest.mark.parametrize(
    ("writer", "reader", "value"),
    [
        (record_of(column("t")), record_of(column("t", coding="delta")), {"t": [1]}),
        (record_of({"name": "n", "type": "string"}), record_of({"name": "n", "type": "long"}), {"n": "x"}),
        (record_of({"name": "n", "type": "long"}), record_of({"name": "m", "type": "long"}), {"n": 1}),
        (
            record_of({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}),
            record_of({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}}),
            {"e": "B"},
        ),
        (
            record_of({"name": "u", "type": ["null", "long", "string"]}),
            record_of({"name": "u", "type": ["null", "long"]}),
            {"u": "x"},
        ),
    ],
)
def test_what_does_not_resolve_is_refused(
    writer: dict[str, Any], reader: dict[str, Any], value: dict[str, Any]
) -> None:
    assert refused(writer, reader, value).reason == reasons.UNRESOLVED


def test_a_writers_schema_without_sense_is_refused_as_the_record_is() -> None:
    with pytest.raises(BadRecord, match="unresolved"):
        Codec(NEW).decode_as(
            b"", {"type": "record", "name": "R", "fields": [{"name": "a", "type": "Unknown"}]}
        )
