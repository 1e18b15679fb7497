"""Neighbouring columns of integers, decoded together.

A batch of some thousand events is a dozen or two columns, each too short for vector operations to earn
their fixed cost. Where every column of a run is laid out as this codec writes it (one block with its size)
the run is decoded in two goes, one for the columns of single bytes and one for all others. Anything else,
and anything wrong, is left to the readers of the single columns, which also say what is wrong and where.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, groupby

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


@dataclass(frozen=True, slots=True)
class Place:
    """Where the values of a column lie in the record."""

    count: int
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
    return _decode_places(scan.data, run, places, positions, position)


def _decode_places(
    data: bytes, run: tuple[RunColumn, ...], places: list[Place], positions: dict[str, int], end: int
) -> DecodedRun | None:
    short = [i for i, place in enumerate(places) if 0 < place.count == place.stop - place.start]
    long = [i for i, place in enumerate(places) if place.count != place.stop - place.start]
    values = np.empty(sum(place.count for place in places), np.int64)
    middle = sum(places[i].count for i in short)
    if not _decode_short(data, [places[i] for i in short], values[:middle]):
        return None
    if not _decode_long(data, [places[i] for i in long], values[middle:]):
        return None
    return _split(run, places, short + long, values, positions, end)


def _place(scan: Scan, position: int) -> Place | None:
    """The single block of a column, when its size is stated and its array ends with it."""
    data = scan.data
    if data[position] == END_OF_ARRAY:
        return Place(0, position, position)
    count, position = decode_one(data, position, "")
    size, start = decode_one(data, position, "")
    stop = start + size
    if not 0 < -count <= size or -count > scan.limits.max_array_items or data[stop] != END_OF_ARRAY:
        return None
    return Place(-count, start, stop)


def _decode_short(data: bytes, places: list[Place], out: Longs) -> bool:
    """Columns of single bytes; False where one of them is not."""
    octets = np.frombuffer(b"".join([data[p.start : p.stop] for p in places]), np.uint8)
    if octets.size:
        if int(octets.max()) >= 0x80:
            return False
        out[:] = unzigzag_octets(octets)
    return True


def _decode_long(data: bytes, places: list[Place], out: Longs) -> bool:
    """Columns of longer integers; False where their counts do not hold or an integer is too long."""
    if out.size <= FEW_INTEGERS:
        return _decode_few(data, places, out)
    joined = b"".join([data[p.start : p.stop] for p in places] + [bytes(PADDING_BYTES)])
    ends = np.flatnonzero(np.frombuffer(joined, np.uint8, len(joined) - PADDING_BYTES) < 0x80)
    if ends.size != out.size:
        return False
    last = np.array(list(accumulate(p.count for p in places))) - 1
    stops = list(accumulate(p.stop - p.start for p in places))
    if (ends[last] + 1).tolist() != stops:
        return False
    return decode_marked(joined, 0, ends, out) is None


def _decode_few(data: bytes, places: list[Place], out: Longs) -> bool:
    """As ``_decode_long``, one integer after the other."""
    values: list[int] = []
    for place in places:
        at = place.start
        try:
            for _ in range(place.count):
                value, at = decode_one(data, at, "")
                values.append(value)
        except BadRecord:
            return False
        if at != place.stop:
            return False
    out[:] = values
    return True


def _split(
    run: tuple[RunColumn, ...],
    places: list[Place],
    order: list[int],
    values: Longs,
    positions: dict[str, int],
    end: int,
) -> DecodedRun:
    columns = {column.name: values[:0] for column in run}  # in the order of the wire
    starts: list[int] = []
    at = 0
    for i in order:
        starts.append(at)
        part = values[at : at + places[i].count]
        if run[i].delta:
            np.add.accumulate(part, out=part)
        columns[run[i].name] = part
        at += places[i].count
    extremes: dict[str, tuple[int, int]] = {}
    if starts:
        low = np.minimum.reduceat(values, starts).tolist()
        high = np.maximum.reduceat(values, starts).tolist()
        extremes = {run[i].name: (low[k], high[k]) for k, i in enumerate(order)}
    return DecodedRun(columns, extremes, positions, end)
