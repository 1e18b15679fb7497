"""The second stage on Kafka: the one owner of all breaches."""

from __future__ import annotations

import structlog

from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.judge import Judge
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

    def __init__(self, judge: Judge, transactions: TransactionalProducer) -> None:
        self._judge = judge
        self._transactions = transactions

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
            partitions = reader.partitions(CHARGES)
            sums, lives = Sums(partitions), Lives(settings.link)
            states = read.all_newest_states()
            for parts in states.values():
                for state in parts:
                    sums.absorb(state.subtotal)
            first = min((parts[0].subtotals_offset for parts in states.values()), default=0)
            if len(states) < partitions:
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
        return SecondStage(Judge(sums, lives), transactions)

    def absorb(self, told: BudgetSubtotal) -> None:
        """Take a subtotal in."""
        self._judge.absorb(told)

    def hear(self, read: TopicsRead, registry: SchemaRegistry) -> None:
        """Take in what people said, and tell what follows. Raises Fenced, Unavailable."""
        for note in read.notes():
            self._judge.lives.notes.add(note)
        self._tell(self._judge.lives.noted(), registry)

    def judge(self, catalog: Catalog, registry: SchemaRegistry) -> list[Breach]:
        """Tell every change that follows, and return them. Raises Fenced, Unavailable."""
        changes = self._judge.changes(catalog)
        self._tell(changes, registry)
        return changes

    def _tell(self, changes: list[Breach], registry: SchemaRegistry) -> None:
        if not changes:
            return
        self._transactions.commit(
            Outgoing(BREACHES, breach.id.encode(), framed(registry, breach), partition=0)
            for breach in changes
        )
        self._judge.told(changes)
        for breach in changes:
            _log.info("breach", id=breach.id, change=breach.change, state=breach.state, what=breach.message)

    def close(self) -> None:
        """Let go of the connection."""
        self._transactions.close()
