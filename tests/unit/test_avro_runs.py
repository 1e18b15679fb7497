"""Neighbouring columns are decoded together, and to what each of them gives alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from gpuledger.contract.avro import Codec, Limits, reasons
from gpuledger.contract.avro.column_run import RUN_BYTES, RunColumn, decode_run
from gpuledger.contract.avro.limits import DEFAULT
from gpuledger.contract.avro.scan import Scan
from gpuledger.contract.errors import BadRecord
from tests.support.avro_values import column, fastavro_value, plain, record_of, varint

THREE = record_of(column("a"), column("b"), column("c"))
RUN = tuple(RunColumn(name, False) for name in "abc")


def integers(items: Sequence[int]) -> bytes:
    return b"".join(map(varint, items))


def sized(items: Sequence[int]) -> bytes:
    body = integers(items)
    return varint(-len(items)) + varint(len(body)) + body + b"\0"


def unsized(items: Sequence[int]) -> bytes:
    return varint(len(items)) + integers(items) + b"\0"


def halves(items: Sequence[int]) -> bytes:
    half = len(items) // 2
    return sized(items[:half])[:-1] + unsized(items[half:])


SHORT, MIXED, LONG = (
    list(range(-20, 20)),
    [1, 300, -70_000, 0] * 10,
    [1 << 62, -(1 << 63), (1 << 63) - 1, 5] * 10,
)


@pytest.mark.parametrize("layouts", [*itertools.product([sized, unsized, halves], repeat=3)])
@pytest.mark.parametrize("contents", [(SHORT, MIXED, LONG), (LONG, SHORT, MIXED), (MIXED, MIXED, MIXED)])
def test_columns_of_any_layout_stand_side_by_side(
    layouts: tuple[Callable[[Sequence[int]], bytes], ...], contents: tuple[list[int], ...]
) -> None:
    body = b"".join(layout(items) for layout, items in zip(layouts, contents, strict=True))
    decoded = plain(Codec(THREE).decode(body))
    assert decoded == dict(zip("abc", contents, strict=True)) == fastavro_value(THREE, body)


def test_the_layout_of_this_codec_is_decoded_together() -> None:
    body = Codec(THREE).encode({"a": SHORT, "b": [], "c": LONG})
    decoded = decode_run(Scan(body, DEFAULT), 0, RUN)
    assert decoded is not None
    assert decoded.end == len(body)
    assert plain(decoded.columns) == {"a": SHORT, "b": [], "c": LONG}
    assert decoded.extremes == {"a": (-20, 19), "c": (-(1 << 63), (1 << 63) - 1)}
    assert [body[at] for at in decoded.positions.values()] == [varint(-40)[0], 0, varint(-40)[0]]


def test_integers_that_moved_to_the_neighbour_are_refused() -> None:
    # Both blocks together hold as many integers as both counts say.
    moved = [
        varint(-30) + varint(62) + integers([300] * 31) + b"\0",
        varint(-30) + varint(58) + integers([300] * 29),
    ]
    body = b"".join(moved) + b"\0" + sized(SHORT)
    with pytest.raises(BadRecord) as caught:
        Codec(THREE).decode(body)
    assert (caught.value.reason, caught.value.field) == (reasons.BAD_BLOCK_SIZE, "a")


def test_a_block_that_ends_inside_an_integer_is_refused_though_its_neighbour_would_end_it() -> None:
    first = varint(-30) + varint(60) + integers([300] * 29) + b"\x80\x80" + b"\0"
    second = varint(-30) + varint(60) + b"\x01" + integers([300] * 29) + b"\x01" + b"\0"
    with pytest.raises(BadRecord) as caught:
        Codec(THREE).decode(first + second + sized(SHORT))
    assert caught.value.field == "a"


@pytest.mark.parametrize("long", [b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x02"])
def test_an_integer_that_is_too_long_is_refused_where_it_begins(long: bytes) -> None:
    broken = integers([300] * 20) + long + integers([300] * 19)
    body = sized(MIXED) + varint(-40) + varint(len(broken)) + broken + b"\0" + sized(SHORT)
    with pytest.raises(BadRecord) as caught:
        Codec(THREE).decode(body)
    start = len(sized(MIXED)) + len(varint(-40)) + len(varint(len(broken)))
    assert (caught.value.reason, caught.value.field) == (reasons.BAD_VARINT, "b")
    assert caught.value.position == start + 40


def test_a_limit_holds_for_each_column_of_a_run() -> None:
    body = Codec(THREE).encode({"a": SHORT, "b": MIXED, "c": range(41)})
    with pytest.raises(BadRecord) as caught:
        Codec(THREE).decode(body, Limits(max_array_items=40))
    assert (caught.value.reason, caught.value.field) == (reasons.OVER_LIMIT, "c")


def test_a_run_of_many_bytes_is_left_to_its_columns() -> None:
    values = np.arange(RUN_BYTES) % 50
    codec = Codec(THREE)
    body = codec.encode({"a": values, "b": values * 1000, "c": []})
    assert decode_run(Scan(body, DEFAULT), 0, RUN) is None
    decoded = codec.decode(body)
    np.testing.assert_array_equal(decoded["a"], values)
    np.testing.assert_array_equal(decoded["b"], values * 1000)


@pytest.mark.parametrize("count", [0, 1, 2, 10, 300, 6000])
def test_columns_are_written_together_as_each_of_them_alone(count: int) -> None:
    fields = column("a"), column("t", coding="delta"), column("d") | {"default": [7]}, column("b")
    rng = np.random.default_rng(count)
    wide = rng.integers(-(1 << 62), 1 << 62, count) >> rng.integers(0, 62, count)
    record = {"a": wide, "t": np.cumsum(wide), "b": wide % 50}
    together = Codec(record_of(*fields)).encode(record)
    alone = [
        Codec(record_of(field)).encode({f: v for f, v in record.items() if f == field["name"]})
        for field in fields
    ]
    as_lists = Codec(record_of(*fields)).encode({name: values.tolist() for name, values in record.items()})
    assert together == b"".join(alone) == as_lists


def test_rules_hold_for_columns_that_are_written_together() -> None:
    document = record_of(column("a", max=10, columns="x"), column("t", coding="delta", min=5, columns="x"))
    good = {"a": np.arange(10), "t": np.arange(10) + 5}
    Codec(document).encode(good)
    for name, values in (("a", np.arange(10) + 2), ("t", np.arange(10) + 4), ("t", np.arange(11) + 5)):
        with pytest.raises(BadRecord) as caught:
            Codec(document).encode({**good, name: values})
        assert caught.value.field == name


def test_an_unknown_or_missing_field_beside_a_run_is_refused() -> None:
    columns = {name: np.arange(3) for name in "abc"}
    for record, reason in (
        ({**columns, "d": 1}, reasons.UNKNOWN_FIELD),
        ({"a": np.arange(3), "b": np.arange(3)}, reasons.MISSING_FIELD),
        ({**columns, "b": None}, reasons.BAD_TYPE),
        ([], reasons.BAD_TYPE),
    ):
        with pytest.raises(BadRecord) as caught:
            Codec(THREE).encode(record)  # type: ignore[arg-type]
        assert caught.value.reason == reason
