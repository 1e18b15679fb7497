"""The closing columns of many records, decoded together.

A record of forty rows and sixty columns has some thousand integers, in columns so short that each costs more
to begin than to decode. So the columns of many records are decoded in one pass: a step for each column finds
where its values lie in all records, one more decodes the values of all. It serves records whose last fields
are columns of one group, laid out as this codec writes them: each in one block, all of a record equally
long. Any other record, and any that breaks a rule, is left to the reader of single records, which says what
is wrong and where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuledger.contract.avro.column_run import END_OF_ARRAY
from gpuledger.contract.avro.rules import Bounds, RecordRules
from gpuledger.contract.avro.schema import Array, Field, Primitive, Record
from gpuledger.contract.avro.varint import Longs, Octets
from gpuledger.contract.avro.varint_decode import PADDING_BYTES, decode_marked

LONG: Final = Array(Primitive("long"))
DOUBLE: Final = Array(Primitive("double"))
DOUBLE_BYTES: Final = 8
SIZE_BYTES: Final = 4  # of a count or a size: 2^27, above any limit; a longer one is left to the other reader
FEWEST_COLUMNS: Final = 4  # below this there is nothing to gain

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Table:
    """The closing columns of a schema: their names in the order of the wire, and what bounds each."""

    first: int
    names: tuple[str, ...]
    longs: tuple[int, ...]
    doubles: tuple[int, ...]
    bounds: tuple[tuple[int, Bounds], ...]


def table_of(root: Record, rules: Sequence[RecordRules]) -> Table | None:
    """The table that ends the record; None where it ends otherwise."""
    fields = root.fields
    group = fields[-1].annotations.columns if fields else None
    first = len(fields)
    while group is not None and first and _is_column(fields[first - 1], group):
        first -= 1
    names = tuple(field.name for field in fields[first:])
    whole_group = sum(field.annotations.columns == group for field in fields) == len(names)
    if sum(field.node == LONG for field in fields[first:]) < FEWEST_COLUMNS or not whole_group:
        return None
    places = {name: place for place, name in enumerate(names)}
    own = [b for rule in rules if not rule.steps for b in rule.bounds if b.name in places]
    if any(b.target is not None and (len(b.target) > 1 or b.target[0] in places) for b in own):
        return None
    return Table(
        first,
        names,
        tuple(i for i, field in enumerate(fields[first:]) if field.node == LONG),
        tuple(i for i, field in enumerate(fields[first:]) if field.node == DOUBLE),
        tuple((places[b.name], b) for b in own),
    )


def _is_column(field: Field, group: str) -> bool:
    said = field.annotations
    return said.columns == group and field.node in (LONG, DOUBLE) and not said.delta


class Spans:
    """Where the columns of each record begin and end in the joined bodies: arrays by column and record.

    ``octets`` goes on for PADDING_BYTES behind the last body; ``good`` says which records are laid out so
    that the rest may be believed.
    """

    def __init__(self, octets: Octets, begins: Longs, ends: Longs, table: Table, most_rows: int) -> None:
        self._octets = octets
        self._ends = ends
        self._at = begins.copy()
        self.good: Mask = np.ones(len(begins), bool)
        self.rows: Longs = np.zeros(len(begins), np.int64)
        self.starts = np.zeros((len(table.names), len(begins)), np.int64)
        self.stops = np.zeros_like(self.starts)
        doubles = set(table.doubles)
        for column in range(len(table.names)):
            self._column(column, column in doubles, most_rows)
        self.good &= self._at == ends

    def _column(self, column: int, is_double: bool, most_rows: int) -> None:
        count = self._integer()
        sized = count < 0
        rows = np.abs(count)
        size = rows * DOUBLE_BYTES if is_double else np.zeros_like(rows)
        if sized.any():
            stated = self._integer(sized)
            self.good &= ~sized | (stated == size) if is_double else ~sized | (stated >= rows)
            size = np.where(sized, stated, size)
        if not is_double:
            self.good &= sized | (rows == 0)
        if column == 0:
            self.rows = rows
        self.good &= (rows == self.rows) & (rows <= most_rows)
        size[rows == 0] = 0
        self.starts[column] = self._at
        self._at += size
        self.good &= (size >= 0) & (self._at + (rows > 0) <= self._ends)
        self._at[~self.good] = 0
        self.stops[column] = self._at
        filled = rows > 0  # of an empty column the end is what was read as its count
        self.good &= ~filled | (self._octets[self._at] == END_OF_ARRAY)
        self._at += filled

    def _integer(self, where: Mask | None = None) -> Longs:
        """An integer of each record, which is stepped over; 0 outside of ``where``."""
        raw = np.zeros(len(self._at), np.int64)
        more = self.good.copy() if where is None else where & self.good
        for shift in range(0, 7 * SIZE_BYTES, 7):
            octet = self._octets[self._at].astype(np.int64)
            raw += np.where(more, (octet & 0x7F) << shift, 0)
            self._at += more
            more &= octet >= 0x80
            if not more.any():
                break
        self.good &= ~more
        return (raw >> 1) ^ -(raw & 1)


def long_values(octets: Octets, starts: Longs, stops: Longs, counts: Longs) -> tuple[Longs, Mask] | None:
    """The integers of spans that lie one behind the other, and which spans hold as many as they should.

    Values count where all do. None where an integer is longer than one may be.
    """
    sizes = stops - starts
    part = _cut(octets, starts, stops)
    last = part < 0x80
    first = np.cumsum(sizes) - sizes
    right = np.add.reduceat(last, first, dtype=np.int64) == counts
    right &= last[first + sizes - 1]
    values = np.empty(int(counts.sum()), np.int64)
    if right.all():
        buffer = part.tobytes() + bytes(PADDING_BYTES)
        if decode_marked(buffer, 0, np.flatnonzero(last), values) is not None:
            return None
    return values, right


def double_values(octets: Octets, starts: Longs, stops: Longs) -> npt.NDArray[np.float64]:
    """The doubles of spans that lie one behind the other."""
    return _cut(octets, starts, stops).view("<f8").astype(np.float64, copy=False)


def _cut(octets: Octets, starts: Longs, stops: Longs) -> Octets:
    """The bytes of the spans; between two of them there is at least one other byte."""
    if not starts.size:
        return octets[:0]
    low, high = int(starts[0]), int(stops[-1])
    edges = np.zeros(high - low + 1, np.int8)
    edges[starts - low] = 1
    edges[stops - low] = -1
    inside = np.cumsum(edges, dtype=np.int8).view(bool)
    return octets[low:high].compress(inside[:-1])


def within_bounds(table: Table, values: Longs, rows: Longs, targets: dict[str, Longs]) -> Mask:
    """Which records keep the bounds of all columns; ``values`` is by record, column, row."""
    width = len(table.longs)
    counts = np.repeat(rows, width)
    first = np.cumsum(counts) - counts
    low = np.minimum.reduceat(values, first).reshape(-1, width)
    high = np.maximum.reduceat(values, first).reshape(-1, width)
    kept = np.ones(len(rows), bool)
    for column, bounds in table.bounds:
        place = table.longs.index(column)
        if bounds.target is not None:
            kept &= (high[:, place] < targets[bounds.target[0]]) & (
                low[:, place] >= (-1 if bounds.allow_none else 0)
            )
        if bounds.minimum is not None:
            kept &= low[:, place] >= bounds.minimum
        if bounds.maximum is not None:
            kept &= high[:, place] <= bounds.maximum
    return kept


def columns_of(table: Table, rows: Sequence[int], longs: Longs, doubles: Any) -> list[dict[str, Any]]:
    """The columns of each record, by name; those of one record share their memory."""
    names = [table.names[i] for i in table.longs] + [table.names[i] for i in table.doubles]
    wide, narrow = len(table.longs), len(table.doubles)
    found = []
    for count, end in zip(rows, accumulate(rows), strict=True):
        begin = end - count
        whole = [*longs[begin * wide : end * wide].reshape(wide, count)]
        if narrow:
            whole.extend(doubles[begin * narrow : end * narrow].reshape(narrow, count))
        found.append(dict(zip(names, whole, strict=True)))
    return found
