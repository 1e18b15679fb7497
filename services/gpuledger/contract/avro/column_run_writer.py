"""Neighbouring columns of integers, encoded together.

The rows of a charge set are a few dozen columns of a few dozen values: one at a time, they would cost the
fixed price of some twenty vector operations each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuledger.contract.avro.column_run import RunColumn
from gpuledger.contract.avro.column_writer import frame
from gpuledger.contract.avro.varint import Longs, encode_one
from gpuledger.contract.avro.varint_encode import encode_blocks

RUN_INTEGERS = 1 << 14  # beyond this the columns earn their fixed price, and joining them would only cost
EMPTY_ARRAY = b"\0"
INT64 = np.dtype(np.int64)


@dataclass(slots=True)
class Laid:
    """A run that is ready to be encoded.

    ``pieces`` are what is written: octets as they are, or the items of a body and what precedes it.
    ``names`` are those of the bodies that hold the values themselves, not their differences.
    """

    pieces: list[bytes | tuple[int, bytes]] = field(default_factory=list)
    bodies: list[Longs] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)


def encode_run(
    out: bytearray, run: tuple[RunColumn, ...], record: Mapping[str, Any], defaults: Mapping[str, bytes]
) -> dict[str, tuple[int, int]] | None:
    """Append the run's columns to ``out``; the least and greatest values of those for which they are known.

    Returns None, with ``out`` as it was, where the run takes the writers of single columns: where a value
    is no int64 column, is missing without a default, or where there are many values.
    """
    return encode_runs([out], run, [record], defaults)[0]


def encode_runs(
    outs: Sequence[bytearray],
    run: tuple[RunColumn, ...],
    records: Sequence[Mapping[str, Any]],
    defaults: Mapping[str, bytes],
) -> list[dict[str, tuple[int, int]] | None]:
    """``encode_run`` for one record after the other, with the fixed cost of vector operations paid once."""
    laid = [_lay(run, record, defaults) for record in records]
    bodies = [body for one in laid if one is not None for body in one.bodies]
    encoded, reaches = encode_blocks(bodies) if bodies else ([], [])
    following = zip(encoded, reaches, strict=True)
    return [None if one is None else _write(out, one, following) for out, one in zip(outs, laid, strict=True)]


def _lay(run: tuple[RunColumn, ...], record: Mapping[str, Any], defaults: Mapping[str, bytes]) -> Laid | None:
    laid = Laid()
    total = 0
    for column in run:
        if column.name not in record:
            default = defaults.get(column.name)
            if default is None:
                return None
            laid.pieces.append(default)
            continue
        values = record[column.name]
        if type(values) is not np.ndarray or values.dtype != INT64 or values.ndim != 1:
            return None
        total += values.size
        if total > RUN_INTEGERS:
            return None
        if not values.size:
            laid.pieces.append(EMPTY_ARRAY)
        elif not column.delta:
            laid.pieces.append((values.size, b""))
            laid.bodies.append(values)
            laid.names.append(column.name)
        else:
            first = encode_one(int(values[0]))
            if values.size == 1:
                laid.pieces.append(frame(1, len(first)) + first + EMPTY_ARRAY)
                continue
            laid.pieces.append((values.size, first))
            laid.bodies.append(np.diff(values))
            laid.names.append(None)
    return laid


def _write(
    out: bytearray, laid: Laid, following: Iterator[tuple[bytes, tuple[int, int]]]
) -> dict[str, tuple[int, int]]:
    extremes: dict[str, tuple[int, int]] = {}
    names = iter(laid.names)
    for piece in laid.pieces:
        if isinstance(piece, bytes):
            out += piece
            continue
        count, first = piece
        octets, reach = next(following)
        out += b"".join((frame(count, len(first) + len(octets)), first, octets, EMPTY_ARRAY))
        name = next(names)
        if name is not None:
            extremes[name] = reach
    return extremes
