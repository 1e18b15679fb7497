"""Numeric arrays as numpy columns, a block at a time."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuledger.contract.avro import reasons
from gpuledger.contract.avro.scan import Scan, read_block
from gpuledger.contract.avro.varint import Longs, decode_one
from gpuledger.contract.avro.varint_decode import decode_block, find_end
from gpuledger.contract.errors import BadRecord

ColumnReader = Callable[[Scan, int], tuple[Any, int]]

SMALL_BLOCK_ITEMS = 24  # below this a loop over bytes is cheaper than the fixed cost of vector operations


def long_column(
    path: str, *, delta: bool = False, low: int | None = None, high: int | None = None
) -> ColumnReader:
    """Reader of an array of int or long as int64; ``low`` and ``high`` bound what the type may hold."""

    def read(scan: Scan, position: int) -> tuple[Any, int]:
        start = position
        values, position = _read_longs(scan, position, path)
        if (
            low is not None
            and high is not None
            and values.size
            and not low <= values.min() <= values.max() <= high
        ):
            raise BadRecord(reasons.OUT_OF_RANGE, "an item is beyond 32 bits", path, start)
        if delta:
            np.add.accumulate(values, out=values)  # wraps at 64 bits, as the writer's differences do
        return values, position

    return read


def _read_longs(scan: Scan, position: int, path: str) -> tuple[Longs, int]:
    """All blocks of one array; the usual single block is decoded into its final place."""
    data, octets = scan.data, scan.octets
    block: Longs | None = None
    whole = array("q")
    while True:
        count, at, stop = read_block(scan, position, path)
        if not count:
            if block is None:
                return np.frombuffer(whole, np.int64) if whole else np.empty(0, np.int64), at
            return block, at
        if block is not None:
            whole.frombytes(block.view(np.uint8).data)
            block = None
        if count > scan.size - at:
            message = f"{count} integers in {scan.size - at} bytes"
            raise BadRecord(reasons.BAD_COUNT, message, path, position)
        scan.check_items(count, len(whole), scan.limits.max_array_items, path, position)
        position = at
        if count <= SMALL_BLOCK_ITEMS:
            for _ in range(count):
                value, position = decode_one(data, position, path)
                whole.append(value)
            scan.end_block(position, stop, path)
            continue
        if stop < 0:
            stop = find_end(octets, at, count, path)
        block = decode_block(data, octets, at, stop, count, path)
        position = stop
        if whole:
            whole.frombytes(block.view(np.uint8).data)
            block = None


def double_column(path: str, wire: np.dtype[Any]) -> ColumnReader:
    """Reader of an array of float or double as float32 or float64; any bit pattern is a value."""
    native = wire.newbyteorder("=")

    def read(scan: Scan, position: int) -> tuple[Any, int]:
        whole = bytearray()
        while True:
            count, at, stop = read_block(scan, position, path)
            if not count:
                return np.frombuffer(whole, wire).astype(native, copy=False), at
            if count * wire.itemsize > scan.size - at:
                message = f"{count} items of {wire.itemsize} bytes in {scan.size - at} bytes"
                raise BadRecord(reasons.BAD_COUNT, message, path, position)
            scan.check_items(count, len(whole) // wire.itemsize, scan.limits.max_array_items, path, position)
            position = at + count * wire.itemsize
            scan.end_block(position, stop, path)
            whole += memoryview(scan.data)[at:position]

    return read
