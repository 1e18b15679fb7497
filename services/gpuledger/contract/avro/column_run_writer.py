"""Neighbouring columns of integers, encoded together.

The rows of a charge set are a few dozen columns of a few dozen values: one at a time, they would cost the
fixed price of some twenty vector operations each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuledger.contract.avro.column_run import RunColumn
from gpuledger.contract.avro.column_writer import frame
from gpuledger.contract.avro.varint import Longs, encode_one
from gpuledger.contract.avro.varint_encode import encode_blocks

RUN_INTEGERS = 1 << 14  # beyond this the columns earn their fixed price, and joining them would only cost
EMPTY_ARRAY = b"\0"


def encode_run(
    out: bytearray, run: tuple[RunColumn, ...], record: Mapping[str, Any], defaults: Mapping[str, bytes]
) -> dict[str, tuple[int, int]] | None:
    """Append the run's columns to ``out``; the least and greatest values of those for which they are known.

    Returns None, with ``out`` as it was, where the run takes the writers of single columns: where a value
    is no int64 column, is missing without a default, or where there are many values.
    """
    pieces: list[bytes | tuple[int, bytes]] = []  # as they are, or the items and what precedes a body
    bodies: list[Longs] = []
    names: list[str | None] = []  # of the bodies that hold the values themselves, not their differences
    total = 0
    for column in run:
        if column.name not in record:
            default = defaults.get(column.name)
            if default is None:
                return None
            pieces.append(default)
            continue
        values = record[column.name]
        if type(values) is not np.ndarray or values.dtype != np.int64 or values.ndim != 1:
            return None
        total += values.size
        if total > RUN_INTEGERS:
            return None
        if not values.size:
            pieces.append(EMPTY_ARRAY)
        elif not column.delta:
            pieces.append((values.size, b""))
            bodies.append(values)
            names.append(column.name)
        else:
            first = encode_one(int(values[0]))
            if values.size == 1:
                pieces.append(frame(1, len(first)) + first + EMPTY_ARRAY)
                continue
            pieces.append((values.size, first))
            bodies.append(np.diff(values))
            names.append(None)
    encoded, reaches = encode_blocks(bodies) if bodies else ([], [])
    following = iter(encoded)
    for piece in pieces:
        if isinstance(piece, bytes):
            out += piece
        else:
            count, first = piece
            octets = next(following)
            out += frame(count, len(first) + octets.size)
            out += first
            out += octets.data
            out += EMPTY_ARRAY
    return {name: reach for name, reach in zip(names, reaches, strict=True) if name is not None}
