"""Neighbouring columns of integers, decoded together.

A batch of some thousand events is a dozen or two columns, each too short for vector operations to earn
their fixed cost. Where every column of a run is laid out as this codec writes it (one block with its size)
the run is decoded in two goes, one for the columns of single bytes and one for all others. Anything else,
and anything wrong, is left to the readers of the single columns, which also say what is wrong and where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import NamedTuple

import numpy as np

from gpuledger.contract.avro.scan import Scan
from gpuledger.contract.avro.schema import Array, Primitive, Record
from gpuledger.contract.avro.varint import Longs, decode_one
from gpuledger.contract.avro.varint_decode import CHUNK_BYTES, PADDING_BYTES, decode_marked, unzigzag_octets
from gpuledger.contract.errors import BadRecord

RUN_BYTES = 8 * CHUNK_BYTES  # beyond this each column has enough values to be decoded alone
FEW_INTEGERS = 48  # up to here a loop over bytes is cheaper than the fixed cost of vector operations
END_OF_ARRAY = 0


@dataclass(frozen=True, slots=True)
class RunColumn:
    """A column of a run, and whether its values are differences."""

    name: str
    delta: bool


class Place(NamedTuple):
    """Where the values of a column lie in the record."""

    items: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class DecodedRun:
    """The columns of a run, the least and greatest value of those that have any, and where it ends."""

    columns: dict[str, Longs]
    extremes: dict[str, tuple[int, int]]
    positions: dict[str, int]
    end: int


def runs(record: Record) -> list[tuple[tuple[RunColumn, ...], int, int]]:
    """The fields of a record in the order of the wire as runs: columns, how many fields, and where they end.

    A run without columns covers fields that are no columns of longs, or a single one that is.
    """
    found: list[tuple[tuple[RunColumn, ...], int, int]] = []
    end = 0
    for is_column, group in groupby(record.fields, key=lambda field: field.node == Array(Primitive("long"))):
        members = tuple(RunColumn(field.name, field.annotations.delta) for field in group)
        end += len(members)
        found.append((members if is_column and len(members) > 1 else (), len(members), end))
    return found


def decode_run(scan: Scan, position: int, run: tuple[RunColumn, ...]) -> DecodedRun | None:
    """The run that begins at ``position``; None where it takes the readers of single columns.

    The columns share one array, so one that is kept keeps all of them.
    """
    found = find_run(scan, position, run)
    decoded = None if found is None else decode_runs(run, [found])
    return None if decoded is None else decoded[0]


@dataclass(frozen=True, slots=True)
class FoundRun:
    """Where the columns of a run lie in a record, where each of its fields begins, and where it ends."""

    data: bytes
    places: list[Place]
    positions: dict[str, int]
    end: int


def find_run(scan: Scan, position: int, run: tuple[RunColumn, ...]) -> FoundRun | None:
    """The run that begins at ``position``; None where it takes the readers of single columns."""
    places: list[Place] = []
    positions: dict[str, int] = {}
    begin = position
    try:
        for column in run:
            positions[column.name] = position
            place = _place(scan, position)
            if place is None:
                return None
            places.append(place)
            position = place.stop + 1
            if position - begin > RUN_BYTES:
                return None
    except (BadRecord, IndexError):
        return None
    return FoundRun(scan.data, places, positions, position)


def decode_runs(run: tuple[RunColumn, ...], found: Sequence[FoundRun]) -> list[DecodedRun] | None:
    """The columns of one run in several records; None where in some it takes the readers of single columns.

    All of them share one array, so one that is kept keeps all.
    """
    every = [(of.data, place) for of in found for place in of.places]
    short = [i for i, (_, place) in enumerate(every) if 0 < place.items == place.stop - place.start]
    long = [i for i, (_, place) in enumerate(every) if place.items != place.stop - place.start]
    values = np.empty(sum(place.items for _, place in every), np.int64)
    middle = sum(every[i][1].items for i in short)
    if not _decode_short([every[i] for i in short], values[:middle]):
        return None
    if not _decode_long([every[i] for i in long], values[middle:]):
        return None
    return _split(run, found, short + long, values)


def _place(scan: Scan, position: int) -> Place | None:
    """The single block of a column, when its size is stated and its array ends with it."""
    data = scan.data
    first = data[position]
    if first == END_OF_ARRAY:
        return Place(0, position, position)
    second = data[position + 1]
    if first < 0x80:
        count, position = (first >> 1) ^ -(first & 1), position + 1
    elif second < 0x80:
        raw = first & 0x7F | second << 7
        count, position = (raw >> 1) ^ -(raw & 1), position + 2
    else:
        count, position = decode_one(data, position, "")
    size, start = decode_one(data, position, "")
    stop = start + size
    if not 0 < -count <= size or -count > scan.limits.max_array_items or data[stop] != END_OF_ARRAY:
        return None
    return Place(-count, start, stop)


def _decode_short(places: Sequence[tuple[bytes, Place]], out: Longs) -> bool:
    """Columns of single bytes; False where one of them is not."""
    octets = np.frombuffer(b"".join([data[p.start : p.stop] for data, p in places]), np.uint8)
    if octets.size:
        if int(octets.max()) >= 0x80:
            return False
        out[:] = unzigzag_octets(octets)
    return True


def _decode_long(places: Sequence[tuple[bytes, Place]], out: Longs) -> bool:
    """Columns of longer integers; False where their counts do not hold or an integer is too long."""
    if out.size <= FEW_INTEGERS:
        return _decode_few(places, out)
    joined = b"".join([data[p.start : p.stop] for data, p in places] + [bytes(PADDING_BYTES)])
    ends = np.flatnonzero(np.frombuffer(joined, np.uint8, len(joined) - PADDING_BYTES) < 0x80)
    if ends.size != out.size:
        return False
    last = np.array(list(accumulate(p.items for _, p in places))) - 1
    stops = list(accumulate(p.stop - p.start for _, p in places))
    if (ends[last] + 1).tolist() != stops:
        return False
    return decode_marked(joined, 0, ends, out) is None


def _decode_few(places: Sequence[tuple[bytes, Place]], out: Longs) -> bool:
    """As ``_decode_long``, one integer after the other."""
    values: list[int] = []
    for data, place in places:
        at = place.start
        try:
            for _ in range(place.items):
                value, at = decode_one(data, at, "")
                values.append(value)
        except BadRecord:
            return False
        if at != place.stop:
            return False
    out[:] = values
    return True


def _split(
    run: tuple[RunColumn, ...], found: Sequence[FoundRun], order: Sequence[int], values: Longs
) -> list[DecodedRun]:
    """``order``: the columns that have values, numbered through all records, as they lie in ``values``."""
    names = [column.name for column in run]
    empty = dict.fromkeys(names, values[:0])  # in the order of the wire
    decoded = [DecodedRun(empty.copy(), {}, of.positions, of.end) for of in found]
    starts: list[int] = []
    at = 0
    for i in order:
        record, column = divmod(i, len(run))
        starts.append(at)
        end = at + found[record].places[column].items
        part = values[at:end]
        if run[column].delta:
            np.add.accumulate(part, out=part)
        decoded[record].columns[names[column]] = part
        at = end
    if starts:
        low = np.minimum.reduceat(values, starts).tolist()
        high = np.maximum.reduceat(values, starts).tolist()
        for i, *extremes in zip(order, low, high, strict=True):
            record, column = divmod(i, len(run))
            decoded[record].extremes[names[column]] = extremes[0], extremes[1]
    return decoded
