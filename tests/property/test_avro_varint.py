"""The vectorised integers are the integers of Avro's definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.contract.avro.varint import decode_one, encode_one
from gpuledger.contract.avro.varint_decode import CHUNK_BYTES, decode_block, find_end
from gpuledger.contract.avro.varint_encode import encode_block, encode_blocks
from gpuledger.contract.errors import BadRecord
from tests.support.avro_values import longs, varint


def decode(body: bytes, count: int) -> list[int]:
    return decode_block(body, np.frombuffer(body, np.uint8), 0, len(body), count, "f").tolist()


def widths() -> st.SearchStrategy[list[int]]:
    """Columns of integers that are all short, all long, or mixed."""
    return st.integers(0, 63).flatmap(
        lambda bits: st.lists(longs(-(1 << bits), (1 << bits) - 1), max_size=60)
    )


@given(widths())
@settings(max_examples=200, deadline=None)
def test_a_column_is_written_as_its_integers_one_after_the_other(items: list[int]) -> None:
    assert encode_block(np.array(items, np.int64)).tobytes() == b"".join(map(varint, items))


@given(st.lists(widths().filter(bool), min_size=1, max_size=6))
@settings(max_examples=150, deadline=None)
def test_several_columns_are_written_as_each_of_them_alone(columns: list[list[int]]) -> None:
    encoded, reaches = encode_blocks([np.array(items, np.int64) for items in columns])
    assert encoded == [b"".join(map(varint, items)) for items in columns]
    assert reaches == [(min(items), max(items)) for items in columns]


@given(widths())
@settings(max_examples=200, deadline=None)
def test_a_column_is_read_as_the_integers_that_were_written(items: list[int]) -> None:
    assert decode(b"".join(map(varint, items)), len(items)) == items


@given(st.lists(st.tuples(longs(-(1 << 40), 1 << 40), st.integers(0, 2)), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_an_integer_written_longer_than_needed_keeps_its_value(items: list[tuple[int, int]]) -> None:
    body = b""
    for value, padding in items:
        short = varint(value)
        body += short if not padding else short[:-1] + bytes([short[-1] | 0x80, *[0x80] * (padding - 1), 0])
    assert decode(body, len(items)) == [value for value, _ in items]


@given(longs(), st.binary(max_size=3))
def test_one_integer_is_read_and_written_alone(value: int, rest: bytes) -> None:
    body = encode_one(value)
    assert body == varint(value)
    assert decode_one(body + rest, 0, "f") == (value, len(body))


@given(st.lists(longs(), min_size=1, max_size=60), st.binary(max_size=20))
@settings(deadline=None)
def test_the_end_of_a_block_without_a_size_is_found(items: list[int], rest: bytes) -> None:
    body = b"".join(map(varint, items))
    assert find_end(np.frombuffer(body + rest, np.uint8), 0, len(items), "f") == len(body)


@pytest.mark.parametrize("bits", [5, 12, 26, 54, 63])
def test_a_column_of_many_chunks_comes_back(bits: int) -> None:
    rng = np.random.default_rng(bits)
    items = rng.integers(-(1 << bits), (1 << bits) - 1, CHUNK_BYTES)
    body = encode_block(items).tobytes()
    octets = np.frombuffer(body, np.uint8)
    assert find_end(octets, 0, items.size, "f") == len(body)
    np.testing.assert_array_equal(decode_block(body, octets, 0, len(body), items.size, "f"), items)


@given(st.binary(min_size=1, max_size=80), st.integers(1, 90))
@settings(max_examples=300, deadline=None)
def test_any_block_is_read_as_one_by_one_or_refused(body: bytes, count: int) -> None:
    expected: list[int] | None = []
    at = 0
    try:
        for _ in range(count):
            value, at = decode_one(body, at, "f")
            expected.append(value)
    except BadRecord:
        expected = None
    if expected is None or at != len(body):
        with pytest.raises(BadRecord):
            decode(body, count)
    else:
        assert decode(body, count) == expected
