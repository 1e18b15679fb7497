"""What the core returns: the rows of one window, and whether they add up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuledger.contract.charge_columns import ROW_COLUMNS, TEXT_COLUMNS
from gpuledger.contract.records import ChargeSet

MONEY_COLUMNS = ("used_nano", "held_idle_nano", "unallocated_nano", "unobserved_nano")
LARGEST_SUM = 1 << 62  # of longs that are added up as longs
TIME_COLUMNS = ("used_ns", "held_idle_ns", "unallocated_ns", "unobserved_ns")


@dataclass(frozen=True, slots=True)
class ChargeRow:
    """A row with its texts: every row column of the ChargeSet by name, such as ``row["used_nano"]``."""

    values: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def total_nano(self) -> int:
        """Money of the row in nano."""
        return sum(self.values[name] for name in MONEY_COLUMNS)

    @property
    def total_ns(self) -> int:
        """GPU time of the row in ns."""
        return sum(self.values[name] for name in TIME_COLUMNS)


@dataclass(frozen=True, slots=True)
class Charges:
    """The charges of one window.

    The conservation errors are the rows' sums less what the node cost, computed apart from every split:
    the price of the whole node, or of a whole GPU times the GPUs, over the node's life in the window.
    Both are 0, or the core is wrong.
    """

    record: ChargeSet
    conservation_error_nano: int
    conservation_error_ns: int

    def to_record(self) -> ChargeSet:
        """The record for gpu.charges."""
        return self.record

    def rows(self) -> Iterator[ChargeRow]:
        """The rows in the order of their keys."""
        texts = self.record.texts
        columns = {name: getattr(self.record, name).tolist() for name in ROW_COLUMNS}
        for name in TEXT_COLUMNS:
            columns[name] = [texts[index] for index in columns[name]]
        for values in zip(*columns.values(), strict=True):
            yield ChargeRow(dict(zip(columns, values, strict=True)))


def sums_of(records: Sequence[ChargeSet]) -> list[tuple[int, int]]:
    """``sums`` of each of several records. Columns are added up as longs where that can not overflow."""
    ends = np.cumsum([0, *(len(record.used_ns) for record in records)])
    found = []
    for names in (MONEY_COLUMNS, TIME_COLUMNS):
        columns = [np.concatenate([getattr(record, name) for record in records]) for name in names]
        if sum(float(np.abs(column.astype(np.float64)).sum()) for column in columns) > LARGEST_SUM:
            return [sums(record) for record in records]
        reached = np.r_[0, np.cumsum(np.sum(columns, axis=0))]
        found.append((reached[ends[1:]] - reached[ends[:-1]]).tolist())
    return list(zip(*found, strict=True))


def sums(record: ChargeSet) -> tuple[int, int]:
    """(money in nano, GPU time in ns) of all rows."""
    money = sum(int(value) for name in MONEY_COLUMNS for value in getattr(record, name).tolist())
    time = sum(int(value) for name in TIME_COLUMNS for value in getattr(record, name).tolist())
    return money, time
