"""What the application reads besides its streams: budgets, rates, states, subtotals, breaches, notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import structlog

from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.states import newest
from gpuledger.bus import Incoming, PartitionReader, SchemaRegistry, unframed
from gpuledger.contract import topics
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.records import (
    Breach,
    BreachNote,
    BudgetState,
    BudgetSubtotal,
    BudgetsVersion,
    PriceBookVersion,
)

R = TypeVar("R")
RECORDS_AT_FIRST = 16  # of the end of a partition of states: one has a few parts, and a marker
_log = structlog.get_logger(__name__)


class TopicsRead:
    """Reads topics to their ends, committed records only. Owned by the engine's thread.

    What can not be read is passed over and logged: each of these topics is written by gpuledger alone.
    """

    def __init__(self, reader: PartitionReader, registry: SchemaRegistry) -> None:
        self._reader = reader
        self._registry = registry
        self._next: dict[str, int] = {}
        self._versions: list[BudgetsVersion] = []
        self._books: list[PriceBookVersion] = []
        self._catalog: Catalog | None = None

    def catalog(self) -> Catalog:
        """The budgets and rates of every version there is; the same object while there is none new."""
        if versions := self._new(topics.BUDGETS, BudgetsVersion):
            self._versions += versions
            self._catalog = None  # also where the other topic can not be read now
        if books := self._new(topics.PRICES, PriceBookVersion):
            self._books += books
            self._catalog = None
        if self._catalog is None:
            self._catalog = Catalog(self._versions, self._books)
        return self._catalog

    def notes(self, from_beginning: bool = False) -> list[BreachNote]:
        """What people said since this was last asked."""
        if from_beginning:
            self._next.pop(topics.BREACH_NOTES, None)
        return self._new(topics.BREACH_NOTES, BreachNote)

    def newest_states(self, partition: int) -> list[BudgetState]:
        """All parts of a partition's newest state; none where it has no state.

        Compaction leaves many old ones, so it is looked for from the end. A state is one transaction.
        """
        low, end = self._reader.bounds(topics.BUDGET_STATE, partition)
        records = RECORDS_AT_FIRST
        while True:
            first = max(low, end - records)
            states = (state for _, state in self._all(topics.BUDGET_STATE, partition, BudgetState, first))
            found = newest(states).get(partition, [])
            if found or first == low:
                return found
            records *= 4

    def all_newest_states(self) -> dict[int, list[BudgetState]]:
        """The newest state of each partition that has one."""
        every = {
            partition: self.newest_states(partition)
            for partition in range(self._reader.partitions(topics.BUDGET_STATE))
        }
        return {partition: states for partition, states in every.items() if states}

    def subtotals(self, first: int) -> list[BudgetSubtotal]:
        """The subtotals from an offset to the end."""
        return [told for _, told in self._all(topics.BUDGET_SUBTOTALS, 0, BudgetSubtotal, first)]

    def breaches(self) -> list[Breach]:
        """All changes of all breaches."""
        return [breach for _, breach in self._all(topics.BREACHES, 0, Breach)]

    def read(self, cls: type[R], message: Incoming) -> R | None:
        """The record of a message; None where there is none that can be read. Raises RegistryUnavailable."""
        if message.value is None:
            return None
        try:
            return unframed(cls, message.value, self._registry)
        except BadRecord as error:
            _log.error(
                "record passed over",
                topic=message.topic,
                partition=message.partition,
                offset=message.offset,
                error=str(error),
            )
            return None

    def _new(self, topic: str, cls: type[R]) -> list[R]:
        """What came since; all of it is read again where a part can not be read now."""
        found = list(self._all(topic, 0, cls, self._next.get(topic)))
        if found:
            self._next[topic] = found[-1][0].offset + 1
        return [record for _, record in found]

    def _all(
        self, topic: str, partition: int, cls: type[R], first: int | None = None
    ) -> Iterator[tuple[Incoming, R]]:
        for message in self._reader.read_to_end(topic, partition, first):
            record = self.read(cls, message)
            if record is not None:
                yield message, record
