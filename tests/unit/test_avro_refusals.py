"""Malformed bytes are refused with their reason, the field and the byte, and nothing else ever comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuledger.contract.avro import Codec, reasons
from gpuledger.contract.errors import BadRecord
from tests.support.avro_values import EVENT_BATCH, column, event_batch, record_of, varint


def refusal(document: dict[str, Any], body: bytes) -> tuple[str, str, int | None]:
    with pytest.raises(BadRecord) as caught:
        Codec(document).decode(body)
    error = caught.value
    assert error.reason in str(error)
    assert error.field in str(error)
    return error.reason, error.field, error.position


def field(kind: Any) -> dict[str, Any]:
    """A record with a long before the field ``a``, which then begins at byte 1."""
    return record_of({"name": "before", "type": "long"}, {"name": "a", "type": kind})


STRINGS = {"type": "array", "items": "string"}
LABELS = {"type": "map", "values": "long"}
PAIRS = {
    "type": "array",
    "items": record_of({"name": "x", "type": "long"}, {"name": "y", "type": "long"}, name="P"),
}
LONGS = {"type": "array", "items": "long"}
INTS = {"type": "array", "items": "int"}
DOUBLES = {"type": "array", "items": "double"}
SIGN = {"type": "enum", "name": "S", "symbols": ["A", "B"]}
FOUR = {"type": "fixed", "name": "F", "size": 4}
OVER_LONG = b"\xff" * 10 + b"\x01"
BEYOND_64 = b"\xff" * 9 + b"\x02"
MANY = 40  # enough items for the vectorised paths


@pytest.mark.parametrize(
    ("kind", "body", "reason", "position"),
    [
        ("long", b"", reasons.TRUNCATED, 1),
        ("long", b"\x80", reasons.TRUNCATED, 1),
        ("long", OVER_LONG, reasons.BAD_VARINT, 1),
        ("long", BEYOND_64, reasons.BAD_VARINT, 1),
        ("int", varint(1 << 31), reasons.OUT_OF_RANGE, 1),
        ("int", varint(-(1 << 31) - 1), reasons.OUT_OF_RANGE, 1),
        ("boolean", b"\x02", reasons.BAD_BOOLEAN, 1),
        ("boolean", b"", reasons.TRUNCATED, 1),
        ("float", b"\0\0\0", reasons.TRUNCATED, 1),
        ("double", b"\0" * 7, reasons.TRUNCATED, 1),
        ("string", varint(5) + b"abcd", reasons.TRUNCATED, 1),
        ("string", varint(-1), reasons.BAD_LENGTH, 1),
        ("string", varint(3) + b"a\xffb", reasons.BAD_UTF8, 3),
        ("string", varint(3) + b"\xed\xa0\x80", reasons.BAD_UTF8, 2),
        ("bytes", varint(5) + b"abcd", reasons.TRUNCATED, 1),
        ("bytes", varint(-1), reasons.BAD_LENGTH, 1),
        (FOUR, b"abc", reasons.TRUNCATED, 1),
        (SIGN, varint(2), reasons.BAD_SYMBOL, 1),
        (SIGN, varint(-1), reasons.BAD_SYMBOL, 1),
        (["null", "long"], varint(2), reasons.BAD_BRANCH, 1),
        (["null", "long"], varint(-1), reasons.BAD_BRANCH, 1),
        (LONGS, varint(3) + b"\x02\x02", reasons.BAD_COUNT, 1),
        (LONGS, varint(3) + b"\x02\x02\x02", reasons.TRUNCATED, 5),
        (LONGS, varint(1 << 62) + b"\x02\0", reasons.BAD_COUNT, 1),
        (LONGS, varint(-(1 << 63)) + varint(1) + b"\x02\0", reasons.BAD_COUNT, 1),
        (LONGS, varint(-1) + varint(2) + b"\x02\0", reasons.BAD_BLOCK_SIZE, 4),
        (LONGS, varint(-1) + varint(-1) + b"\x02\0", reasons.BAD_BLOCK_SIZE, 1),
        (LONGS, varint(-1) + varint(9) + b"\x02\0", reasons.BAD_BLOCK_SIZE, 1),
        (LONGS, varint(2) + b"\x02" + OVER_LONG + b"\0", reasons.BAD_VARINT, 3),
        (LONGS, varint(MANY) + b"\x82\x01" * 20, reasons.TRUNCATED, 42),
        (LONGS, varint(MANY) + b"\x02" * 39 + b"\x80", reasons.TRUNCATED, 42),
        (LONGS, varint(MANY) + b"\x80" * 80, reasons.BAD_VARINT, 2),
        (LONGS, varint(MANY) + b"\x02" * 20 + OVER_LONG + b"\x02" * 19 + b"\0", reasons.BAD_VARINT, 22),
        (LONGS, varint(MANY) + b"\x02" * 20 + BEYOND_64 + b"\x02" * 19 + b"\0", reasons.BAD_VARINT, 22),
        (LONGS, varint(-MANY) + varint(40) + b"\x02" * 39 + b"\x80\0", reasons.BAD_BLOCK_SIZE, 3),
        (LONGS, varint(-MANY) + varint(39) + b"\x02" * 40 + b"\0", reasons.BAD_COUNT, 3),
        (LONGS, varint(-MANY) + varint(41) + b"\x02" * 41 + b"\0", reasons.BAD_BLOCK_SIZE, 3),
        (LONGS, varint(-MANY) + varint(41) + b"\x02" * 40 + b"\x80\0", reasons.BAD_BLOCK_SIZE, 44),
        (INTS, varint(1) + varint(1 << 31) + b"\0", reasons.OUT_OF_RANGE, 1),
        (INTS, varint(MANY) + b"\x02" * 39 + varint(-(1 << 31) - 1) + b"\0", reasons.OUT_OF_RANGE, 1),
        (DOUBLES, varint(2) + b"\0" * 15, reasons.BAD_COUNT, 1),
        (DOUBLES, varint(1 << 61) + b"\0" * 16, reasons.BAD_COUNT, 1),
        (DOUBLES, varint(-1) + varint(7) + b"\0" * 9, reasons.BAD_BLOCK_SIZE, 11),
        (STRINGS, varint(9) + b"\x02a\x02b\0", reasons.BAD_COUNT, 2),
        (STRINGS, varint(1 << 62) + b"\0", reasons.BAD_COUNT, 11),
        (STRINGS, varint(-1) + varint(3) + b"\x02a\0", reasons.BAD_BLOCK_SIZE, 5),
        (PAIRS, varint(2) + b"\0\0\0", reasons.BAD_COUNT, 2),
        (LABELS, varint(2) + b"\x02k\x02", reasons.BAD_COUNT, 2),
        (LABELS, varint(1) + varint(1) + b"\xff\x02\0", reasons.BAD_UTF8, 3),
        ("long", b"\x02\x02", reasons.TRAILING_BYTES, 2),
    ],
)
def test_malformed_bytes_are_refused_with_reason_and_position(
    kind: Any, body: bytes, reason: str, position: int
) -> None:
    found, name, at = refusal(field(kind), b"\x02" + body)
    assert (found, at) == (reason, position)
    assert name.startswith("a") or reason == reasons.TRAILING_BYTES


def test_the_refusal_names_a_nested_field() -> None:
    document = field({"type": "array", "items": record_of({"name": "ok", "type": "boolean"}, name="P")})
    assert refusal(document, b"\x02" + varint(1) + b"\x07\0") == (reasons.BAD_BOOLEAN, "a[].ok", 2)


def test_every_prefix_of_a_record_is_refused() -> None:
    codec = Codec(EVENT_BATCH)
    body = codec.encode(event_batch(30))
    for length in range(len(body)):
        with pytest.raises(BadRecord):
            codec.decode(body[:length])


def test_a_value_that_the_schema_does_not_allow_is_not_encoded() -> None:
    cases: list[tuple[Any, Any, str]] = [
        ("long", 1 << 63, reasons.OUT_OF_RANGE),
        ("int", 1 << 31, reasons.OUT_OF_RANGE),
        ("long", True, reasons.BAD_TYPE),
        ("long", 1.0, reasons.BAD_TYPE),
        ("long", None, reasons.BAD_TYPE),
        ("boolean", 1, reasons.BAD_TYPE),
        ("float", 1e300, reasons.OUT_OF_RANGE),
        ("double", "1", reasons.BAD_TYPE),
        ("string", b"x", reasons.BAD_TYPE),
        ("string", "\ud800", reasons.BAD_UTF8),
        ("bytes", "x", reasons.BAD_TYPE),
        (FOUR, b"abc", reasons.BAD_TYPE),
        (SIGN, "C", reasons.BAD_SYMBOL),
        (["null", "long"], "x", reasons.BAD_TYPE),
        (LONGS, [1.5], reasons.BAD_TYPE),
        (LONGS, [1 << 64], reasons.BAD_TYPE),
        (LONGS, np.array([1 << 63], np.uint64), reasons.BAD_TYPE),
        (LONGS, np.zeros((2, 2), np.int64), reasons.BAD_TYPE),
        (LONGS, [[1], [1, 2]], reasons.BAD_TYPE),
        (INTS, [1 << 31], reasons.OUT_OF_RANGE),
        (DOUBLES, ["x"], reasons.BAD_TYPE),
        (STRINGS, "abc", reasons.BAD_TYPE),
        (LABELS, [1], reasons.BAD_TYPE),
        (PAIRS, [{"x": 1}], reasons.MISSING_FIELD),
        (PAIRS, [{"x": 1, "y": 2, "z": 3}], reasons.UNKNOWN_FIELD),
    ]
    for kind, value, reason in cases:
        with pytest.raises(BadRecord) as caught:
            Codec(field(kind)).encode({"before": 0, "a": value})
        assert caught.value.reason == reason, (kind, value)
        assert caught.value.field.startswith("a")


def test_a_column_of_numpy_integers_of_any_width_is_encoded() -> None:
    codec = Codec(record_of(column("a")))
    for dtype in (np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, ">i4"):
        values = np.array([0, 1, 100], dtype)
        assert codec.decode(codec.encode({"a": values}))["a"].tolist() == [0, 1, 100]
    assert codec.decode(codec.encode({"a": np.arange(100)[::3]}))["a"].tolist() == list(range(0, 100, 3))
