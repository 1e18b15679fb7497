"""Reading how far anybody has told of the partitions that a worker owns (``heard``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from gpuledger.budgets.counting import PartitionCount
from gpuledger.budgets.topics_read import TopicsRead
from gpuledger.bus import Headers, Incoming, PartitionReader
from gpuledger.contract.records import BudgetSubtotal
from gpuledger.contract.topics import BUDGET_SUBTOTALS

VERSION, MARK = "version", "mark"  # headers of a subtotal, so that it need not be decoded


class Listener(Protocol):
    """The stage that owns a partition."""

    @property
    def subtotals_offset(self) -> int:
        """What lies below it is in the newest state, or less."""

    def hear(self, offset: int, version: int, mark: str | None) -> None:
        """Know of a subtotal; ``mark`` is None of one that a version without it has written."""


class _Said(NamedTuple):
    partition: int
    version: int
    mark: str | None


class Told:
    """Reads the subtotals that came since it looked last. Owned by the engine's thread."""

    def __init__(self, reader: PartitionReader, read: TopicsRead) -> None:
        self._reader = reader
        self._read = read
        self._next = 0

    def begin(self, stages: Mapping[int, Listener]) -> None:
        """Let stages that were taken over know what was told since their states. Raises Unavailable."""
        self._next = min((stage.subtotals_offset for stage in stages.values()), default=self._end())
        self.look(stages)

    def look(self, stages: Mapping[int, Listener]) -> int:
        """Let the stages know what was told of their partitions; returns the offset behind it. What is told
        later lies behind that, and is read by whoever begins at a state that names it. Raises Unavailable."""
        end = self._end()
        for message in self._reader.read_range(BUDGET_SUBTOTALS, 0, self._next, end - 1):
            told = self._said(message)
            if told is not None and told.partition in stages:
                stages[told.partition].hear(message.offset, told.version, told.mark)
        self._next = end
        return end

    def _said(self, message: Incoming) -> _Said | None:
        headers = dict(message.headers)
        version, mark, key = headers.get(VERSION), headers.get(MARK), message.key
        if version is not None and mark is not None and key is not None:
            return _Said(int(key), int(version), mark.decode())
        told = self._read.read(BudgetSubtotal, message)
        return None if told is None else _Said(told.partition, told.version, None)

    def _end(self) -> int:
        return self._reader.bounds(BUDGET_SUBTOTALS, 0)[1]


def headers_of(count: PartitionCount) -> Headers:
    """Of a subtotal of what is counted now."""
    return (VERSION, str(count.position).encode()), (MARK, count.mark.encode())
