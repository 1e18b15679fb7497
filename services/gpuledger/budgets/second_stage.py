"""The second stage on Kafka: the one owner of all breaches."""

from __future__ import annotations

import structlog

from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.conditions import conditions
from gpuledger.budgets.lives import Lives
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.budgets.sums import Sums
from gpuledger.budgets.topics_read import TopicsRead
from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    SchemaRegistry,
    TransactionalProducer,
    framed,
)
from gpuledger.contract.records import Breach, BudgetSubtotal
from gpuledger.contract.topics import BREACHES, CHARGES

_log = structlog.get_logger(__name__)


class SecondStage:
    """Sums what all partitions told, and tells each change of a breach once: in one transaction, fenced."""

    def __init__(self, sums: Sums, lives: Lives, transactions: TransactionalProducer) -> None:
        self._sums = sums
        self._lives = lives
        self._transactions = transactions
        self._touched: set[str] = set()
        self._judged_ns = -1
        self._catalog: Catalog | None = None

    @staticmethod
    def take_over(
        bus: BusSettings, settings: BudgetSettings, reader: PartitionReader, read: TopicsRead
    ) -> SecondStage:
        """Fence; then read all states, the subtotals that are newer, to their end, breaches and notes.

        All that the earlier owner judged by lies there, so nothing is judged by less. Raises Unavailable.
        """
        name = settings.application
        transactions = TransactionalProducer(bus, f"{name}-breaches", f"{name}-breaches")
        try:
            sums, lives = Sums(), Lives(settings.link)
            states = read.all_newest_states()
            for parts in states.values():
                for state in parts:
                    sums.absorb(state.subtotal)
            first = min((parts[0].subtotals_offset for parts in states.values()), default=0)
            if len(states) < reader.partitions(CHARGES):
                first = 0
            for told in read.subtotals(first):
                sums.absorb(told)
            for breach in read.breaches():
                lives.recall(breach)
            for note in read.notes(from_beginning=True):
                lives.notes.add(note)
        except BaseException:
            transactions.close()
            raise
        _log.info("breaches taken over", newest_end_ns=sums.newest_end_ns, partitions=len(states))
        return SecondStage(sums, lives, transactions)

    def absorb(self, told: BudgetSubtotal) -> None:
        """Take a subtotal in."""
        self._touched |= self._sums.absorb(told)

    def hear(self, read: TopicsRead, registry: SchemaRegistry) -> None:
        """Take in what people said, and tell what follows. Raises Fenced, Unavailable."""
        for note in read.notes():
            self._lives.notes.add(note)
        self._tell(self._lives.noted(), registry)

    def judge(self, catalog: Catalog, registry: SchemaRegistry) -> list[Breach]:
        """Tell every change that follows, and return them. Raises Fenced, Unavailable.

        While no newer window came and the budgets are the same, the touched meters alone are looked at.
        """
        complete = self._sums.newest_end_ns != self._judged_ns or catalog is not self._catalog
        if not complete and not self._touched:
            return []
        found = conditions(catalog, self._sums, None if complete else self._touched)
        changes = self._lives.changes(found, self._sums, complete)
        self._tell(changes, registry)
        self._touched = set()
        self._judged_ns, self._catalog = self._sums.newest_end_ns, catalog
        return changes

    def _tell(self, changes: list[Breach], registry: SchemaRegistry) -> None:
        if not changes:
            return
        self._transactions.commit(
            Outgoing(BREACHES, breach.id.encode(), framed(registry, breach), partition=0)
            for breach in changes
        )
        for breach in changes:
            self._lives.recall(breach)
            _log.info("breach", id=breach.id, change=breach.change, state=breach.state, what=breach.message)

    def close(self) -> None:
        """Let go of the connection."""
        self._transactions.close()
