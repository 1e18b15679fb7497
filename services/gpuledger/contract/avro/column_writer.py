"""Numpy columns as numeric arrays of one block.

An array of integers is written with a negative count and its size in bytes: the reader then knows where
it ends, and count equal to size says that every integer is one byte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuledger.contract.avro import reasons
from gpuledger.contract.avro.varint import Longs, encode_one
from gpuledger.contract.avro.varint_encode import encode_block
from gpuledger.contract.errors import BadRecord

ColumnWriter = Callable[[bytearray, Any], None]

FRAMES = 4096  # that are kept: columns of a record are of one length, and nearly all records are short
SMALL_COLUMN_ITEMS = 16  # below this a loop is cheaper than the fixed cost of vector operations


def long_column(path: str, low: int, high: int, *, delta: bool = False) -> ColumnWriter:
    """Writer of an array of int or long within ``low`` .. ``high``."""
    narrow = high < (1 << 63) - 1

    def write(out: bytearray, value: Any) -> None:
        values = as_longs(value, path)
        count = values.size
        if not count:
            out.append(0)
            return
        if narrow and not low <= values.min() <= values.max() <= high:
            raise BadRecord(reasons.OUT_OF_RANGE, f"an item is outside {low} .. {high}", path)
        if count <= SMALL_COLUMN_ITEMS:
            if delta:
                values = np.diff(values, prepend=np.int64(0))
            body = b"".join(map(encode_one, values.tolist()))
        elif delta:
            # The first is absolute and long, the rest short: apart, so that it does not widen them.
            body = encode_one(int(values[0])) + encode_block(np.diff(values)).tobytes()
        else:
            octets = encode_block(values)
            out += frame(count, octets.size)
            out += octets.data
            out.append(0)
            return
        out += frame(count, len(body))
        out += body
        out.append(0)

    return write


@lru_cache(FRAMES)
def frame(count: int, size: int) -> bytes:
    """What precedes a block of ``count`` items that take ``size`` bytes."""
    return encode_one(-count) + encode_one(size)


def double_column(path: str, wire: np.dtype[Any]) -> ColumnWriter:
    """Writer of an array of float or double; NaN stands for what is missing."""

    def write(out: bytearray, value: Any) -> None:
        values = as_reals(value, wire, path)
        if values.size:
            out += encode_one(values.size)
            out += values.tobytes()
        out.append(0)

    return write


def as_longs(value: Any, path: str) -> Longs:
    """A column of integers as int64, without a copy where it is one. Raises BadRecord."""
    values = _as_column(value, path)
    if values.dtype == np.int64:
        return values
    if not values.size:
        return np.empty(0, np.int64)
    if values.dtype.kind not in "iu" or (values.dtype == np.uint64 and int(values.max()) >> 63):
        raise BadRecord(
            reasons.BAD_TYPE, f"a column of integers of 64 bits is needed, not {values.dtype}", path
        )
    return values.astype(np.int64)


def as_reals(value: Any, wire: np.dtype[Any], path: str) -> npt.NDArray[Any]:
    """A column of numbers in the type of the wire. Raises BadRecord."""
    values = _as_column(value, path)
    if values.size and values.dtype.kind not in "fiu":
        raise BadRecord(reasons.BAD_TYPE, f"a column of numbers is needed, not {values.dtype}", path)
    return values.astype(wire, copy=False)


def _as_column(value: Any, path: str) -> npt.NDArray[Any]:
    try:
        values: npt.NDArray[Any] = np.asarray(value)
    except (OverflowError, ValueError, TypeError) as error:
        raise BadRecord(reasons.BAD_TYPE, f"not a column: {error}", path) from error
    if values.ndim != 1:
        raise BadRecord(reasons.BAD_TYPE, f"a column has one dimension, not {values.ndim}", path)
    return values
