"""What decoding gives, for each way in which a writer may lay out the same values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from gpuledger.contract.avro import Codec
from tests.support.avro_values import (
    EVENT_BATCH,
    absolute,
    column,
    event_batch,
    fastavro_bytes,
    fastavro_value,
    plain,
    record_of,
    varint,
)

LONGS = record_of(column("a"))


def block(items: Sequence[int], *, sized: bool) -> bytes:
    """One block of longs, with or without its size."""
    body = b"".join(map(varint, items))
    return varint(-len(items)) + varint(len(body)) + body if sized else varint(len(items)) + body


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("lengths", [(3,), (30,), (3, 30), (30, 3), (30, 40), (1, 2, 3), (100, 1, 100, 1)])
def test_the_blocks_of_a_column_are_joined(lengths: tuple[int, ...], sized: bool) -> None:
    blocks = [[(-1) ** i * i * 7 for i in range(start, start + n)] for start, n in enumerate(lengths)]
    body = b"".join(block(items, sized=sized) for items in blocks) + b"\0"
    values = Codec(LONGS).decode(body)["a"]
    assert values.dtype == np.int64
    assert values.tolist() == [*itertools.chain(*blocks)] == fastavro_value(LONGS, body)["a"]


def test_sized_and_unsized_blocks_may_follow_one_another() -> None:
    body = (
        block(range(50), sized=True) + block(range(1000, 1060), sized=False) + block([5], sized=True) + b"\0"
    )
    assert Codec(LONGS).decode(body)["a"].tolist() == [*range(50), *range(1000, 1060), 5]


def test_the_blocks_of_a_column_of_doubles_are_joined() -> None:
    document = record_of(column("a", "double"))
    first, second = np.array([1.5, np.nan]), np.array([-0.0])
    body = varint(2) + first.tobytes() + varint(-1) + varint(8) + second.tobytes() + b"\0"
    values = Codec(document).decode(body)["a"]
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [1.5, np.nan, -0.0])


def test_the_blocks_of_a_list_and_of_a_map_are_joined() -> None:
    document = record_of(
        {"name": "a", "type": {"type": "array", "items": "string"}},
        {"name": "m", "type": {"type": "map", "values": "long"}},
    )
    body = varint(1) + b"\x02x" + varint(-2) + varint(4) + b"\x02y\x02z" + b"\0"
    body += varint(-1) + varint(3) + b"\x02k\x02" + varint(1) + b"\x02l\x04" + b"\0"
    assert Codec(document).decode(body) == {"a": ["x", "y", "z"], "m": {"k": 1, "l": 2}}


def test_a_repeated_key_of_a_map_keeps_its_last_value() -> None:
    document = record_of({"name": "m", "type": {"type": "map", "values": "long"}})
    body = varint(2) + b"\x02k\x02" + b"\x02k\x04" + b"\0"
    assert Codec(document).decode(body) == fastavro_value(document, body) == {"m": {"k": 2}}


@pytest.mark.parametrize(
    ("items", "dtype"), [("int", "i8"), ("long", "i8"), ("float", "f4"), ("double", "f8")]
)
def test_an_empty_column_has_the_type_of_its_items(items: str, dtype: str) -> None:
    values = Codec(record_of(column("a", items))).decode(b"\0")["a"]
    assert values.dtype == np.dtype(dtype)
    assert values.shape == (0,)


@pytest.mark.parametrize("count", [1, 24, 25, 400])
def test_a_decoded_column_may_be_written_to(count: int) -> None:
    codec = Codec(record_of(column("a"), column("b", "double")))
    values = codec.decode(codec.encode({"a": np.arange(count), "b": np.ones(count)}))
    values["a"][0] = 7
    values["b"][0] = 7


def test_a_delta_coded_column_is_absolute_in_python_and_differences_on_the_wire() -> None:
    document = record_of(column("a", coding="delta"))
    times_ns = [10**18, 10**18 + 5, 10**18 + 5, 10**18 - 1]
    body = Codec(document).encode({"a": times_ns})
    assert fastavro_value(document, body)["a"] == [10**18, 5, 0, -6]
    assert Codec(document).decode(body)["a"].tolist() == times_ns


def test_differences_wrap_at_64_bits() -> None:
    ends = [-(1 << 63), (1 << 63) - 1, -(1 << 63), 0]
    for count in (4, 40):
        codec = Codec(record_of(column("a", coding="delta")))
        assert codec.decode(codec.encode({"a": ends * (count // 4)}))["a"].tolist() == ends * (count // 4)


def test_columns_are_written_as_one_sized_block() -> None:
    body = Codec(LONGS).encode({"a": np.full(100, 63)})
    assert body == varint(-100) + varint(100) + b"\x7e" * 100 + b"\0"


def test_fields_left_out_take_their_defaults() -> None:
    document = record_of(
        {"name": "a", "type": "int", "default": 3},
        {"name": "b", "type": ["null", "string"], "default": None},
        {"name": "c", "type": "bytes", "default": "\u00ff"},
        {"name": "d", "type": {"type": "array", "items": "long"}, "default": [1, 300]},
        {
            "name": "e",
            "type": record_of({"name": "x", "type": "long", "default": 9}, name="E"),
            "default": {},
        },
        {"name": "f", "type": {"type": "map", "values": "double"}, "default": {"k": 1}},
        {"name": "g", "type": {"type": "enum", "name": "G", "symbols": ["U", "V"]}, "default": "V"},
        {"name": "h", "type": {"type": "fixed", "name": "H", "size": 2}, "default": "\u0001\u0002"},
    )
    expected = {
        "a": 3,
        "b": None,
        "c": b"\xff",
        "d": [1, 300],
        "e": {"x": 9},
        "f": {"k": 1.0},
        "g": "V",
        "h": b"\x01\x02",
    }
    codec = Codec(document)
    assert plain(codec.decode(codec.encode({}))) == expected


def test_a_record_inside_its_own_definition_is_read_and_written() -> None:
    document = record_of(
        {"name": "value", "type": "long"}, {"name": "next", "type": ["null", "Node"]}, name="Node"
    )
    chain = {"value": 1, "next": {"value": 2, "next": {"value": 3, "next": None}}}
    codec = Codec(document)
    assert codec.decode(codec.encode(chain)) == chain == fastavro_value(document, codec.encode(chain))


def test_a_named_type_may_be_used_again_by_its_name() -> None:
    point = record_of({"name": "x", "type": "long"}, name="Point")
    document = {**record_of({"name": "a", "type": point}, {"name": "b", "type": "Point"}), "namespace": "n.s"}
    value = {"a": {"x": 1}, "b": {"x": 2}}
    codec = Codec(document)
    assert codec.decode(codec.encode(value)) == value == fastavro_value(document, codec.encode(value))


def test_a_union_takes_the_exact_type_before_the_wider_one() -> None:
    document = record_of({"name": "u", "type": ["null", "double", "long", "string", "boolean"]})
    codec = Codec(document)
    for value in (None, 1.5, 1, "1", True):
        decoded = codec.decode(codec.encode({"u": value}))["u"]
        assert decoded == value
        assert type(decoded) is type(value)


def test_a_body_may_be_bytes_or_a_view_of_them() -> None:
    codec = Codec(LONGS)
    body = codec.encode({"a": [1, 2, 3]})
    for form in (body, bytearray(body), memoryview(b"xx" + body)[2:]):
        assert codec.decode(form)["a"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("events", [0, 1, 24, 25, 2000])
def test_an_event_batch_comes_back_and_fastavro_reads_it(events: int) -> None:
    codec = Codec(EVENT_BATCH)
    batch = event_batch(events)
    body = codec.encode(batch)
    decoded = codec.decode(body)
    for name, value in batch.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(decoded[name], value)
    assert decoded["header"]["sequence"] == 41
    assert decoded["header"]["agent_version"] == ""
    assert absolute(EVENT_BATCH, fastavro_value(EVENT_BATCH, body)) == plain(decoded)


def test_an_event_batch_of_fastavro_is_decoded_to_the_same() -> None:
    codec = Codec(EVENT_BATCH)
    batch = event_batch(500)
    raw = plain({**batch, "time_ns": np.diff(batch["time_ns"], prepend=0)})
    decoded = codec.decode(fastavro_bytes(EVENT_BATCH, raw))
    assert plain(decoded) == plain(codec.decode(codec.encode(batch)))
