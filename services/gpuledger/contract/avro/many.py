"""Many records of one schema at once: their closing columns together, what stands before one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from gpuledger.contract.avro.limits import Limits
from gpuledger.contract.avro.reader import Reader
from gpuledger.contract.avro.rules import RecordRules, Seen, check
from gpuledger.contract.avro.scan import Scan
from gpuledger.contract.avro.table_reader import (
    Mask,
    Spans,
    Table,
    columns_of,
    double_values,
    long_values,
    within_bounds,
)
from gpuledger.contract.avro.varint import Longs, Octets
from gpuledger.contract.avro.varint_decode import PADDING_BYTES
from gpuledger.contract.errors import BadRecord

TOGETHER_BYTES: Final = 1 << 22  # some 500 records of 6 kB: more at once only take more memory
ALONE_BYTES: Final = 1 << 16  # a record with columns so long is decoded as fast by itself

Values = dict[str, Any]


class ManyReader:
    """Reads records that end in a table. Without a state of its own; threads may share it."""

    def __init__(
        self, table: Table, readers: Sequence[tuple[str, Reader]], rules: Sequence[RecordRules]
    ) -> None:
        """``readers`` are those of all fields, in the order of the wire."""
        self._table = table
        self._before = readers[: table.first]
        self._rules = _rules_before(table, rules)
        self._targets = {b.target[0] for _, b in table.bounds if b.target is not None}

    def read(self, bodies: Sequence[bytes], limits: Limits) -> list[Values | None]:
        """The record of each body; None where it takes the reader of single records, which may refuse it."""
        found: list[Values | None] = [None] * len(bodies)
        for chosen in _portions(bodies):
            heads = [(i, head) for i in chosen if (head := self._head(bodies[i], limits)) is not None]
            if heads:
                for i, values in self._tables(bodies, heads, limits):
                    found[i] = values
        return found

    def _head(self, body: bytes, limits: Limits) -> tuple[Values, int] | None:
        """What stands before the table, and where that begins."""
        values: Values = {}
        position = 0
        try:
            scan = Scan(body, limits)
            for name, reader in self._before:
                values[name], position = reader(scan, position)
            check(self._rules, values, Seen())
        except BadRecord:
            return None
        return values, position

    def _tables(
        self, bodies: Sequence[bytes], heads: Sequence[tuple[int, tuple[Values, int]]], limits: Limits
    ) -> Iterator[tuple[int, Values]]:
        rests = [bodies[i][begin:] for i, (_, begin) in heads]
        octets = np.frombuffer(b"".join(rests) + bytes(PADDING_BYTES), np.uint8)
        ends = np.cumsum([len(rest) for rest in rests])
        begins = np.concatenate([[0], ends[:-1]])
        spans = Spans(octets, begins, ends, self._table, limits.max_array_items)
        for place in np.flatnonzero(spans.good & (spans.rows == 0)).tolist():
            i, (values, _) = heads[place]
            yield i, values | self._no_rows()
        filled = np.flatnonzero(spans.good & (spans.rows > 0))
        while filled.size:
            columns, right = self._columns(octets, spans, filled, [heads[place] for place in filled.tolist()])
            if columns is not None:
                for place, found in zip(filled.tolist(), columns, strict=True):
                    i, (values, _) = heads[place]
                    yield i, values | found
                return
            filled = filled[right]

    def _columns(
        self, octets: Octets, spans: Spans, filled: Longs, heads: Sequence[tuple[int, tuple[Values, int]]]
    ) -> tuple[list[Values] | None, Mask]:
        """The columns of the records ``filled``, or which of them are worth another try."""
        table, rows = self._table, spans.rows[filled]
        starts, stops = spans.starts[:, filled].T, spans.stops[:, filled].T
        longs = long_values(
            octets,
            starts[:, table.longs].ravel(),
            stops[:, table.longs].ravel(),
            np.repeat(rows, len(table.longs)),
        )
        if longs is None:
            return None, np.zeros(len(filled), bool)
        values, right = longs
        right = np.logical_and.reduce(right.reshape(len(filled), -1), axis=1)
        if right.all():
            lengths = {name: np.array([len(head[name]) for _, (head, _) in heads]) for name in self._targets}
            right = within_bounds(table, values, rows, lengths)
        if not right.all():
            return None, right
        doubles = double_values(octets, starts[:, table.doubles].ravel(), stops[:, table.doubles].ravel())
        return columns_of(table, rows.tolist(), values, doubles), right

    def _no_rows(self) -> Values:
        empty: Values = {self._table.names[i]: np.empty(0, np.int64) for i in self._table.longs}
        return empty | {self._table.names[i]: np.empty(0, np.float64) for i in self._table.doubles}


def _portions(bodies: Sequence[bytes]) -> Iterator[list[int]]:
    chosen: list[int] = []
    size = 0
    for i, body in enumerate(bodies):
        if len(body) > ALONE_BYTES:
            continue
        if size + len(body) > TOGETHER_BYTES:
            yield chosen
            chosen, size = [], 0
        chosen.append(i)
        size += len(body)
    yield chosen


def _rules_before(table: Table, rules: Sequence[RecordRules]) -> list[RecordRules]:
    """The rules that are not about the table's own columns."""
    own = set(table.names)
    return [
        rule
        if rule.steps
        else RecordRules(
            rule.steps,
            [group for group in rule.groups if group[0] not in own],
            [bounds for bounds in rule.bounds if bounds.name not in own],
        )
        for rule in rules
    ]
