"""The first stage on Kafka: a partition of gpu.charges that this worker owns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.columns import counters_of, states_of, subtotal_of
from gpuledger.budgets.counting import Changed, PartitionCount
from gpuledger.budgets.lines import Replaced, Window, WindowCharges, charges_of
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.budgets.topics_read import TopicsRead
from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    SchemaRegistry,
    TransactionalProducer,
    framed,
)
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.topics import BUDGET_STATE, BUDGET_SUBTOTALS, CHARGES

_log = structlog.get_logger(__name__)


class FirstStage:
    """Owns the counting of one partition, and the transactional id that fences whoever had it before."""

    def __init__(
        self, count: PartitionCount, transactions: TransactionalProducer, subtotals_offset: int
    ) -> None:
        self.count = count
        self._transactions = transactions
        self._told_end_ns = 0
        self._kept_position = -1
        self.kept_ns = 0  # on the clock of whoever asks for states
        self.subtotals_offset = subtotals_offset

    @staticmethod
    def take_over(
        partition: int,
        bus: BusSettings,
        settings: BudgetSettings,
        reader: PartitionReader,
        read: TopicsRead,
        catalog: Catalog,
    ) -> FirstStage:
        """Fence, read the newest state, and recall the tail. What was told since, ``told`` must say.

        Raises Unavailable; then nothing is owned.
        """
        name = settings.application
        transactions = TransactionalProducer(bus, f"{name}-state", f"{name}-{partition}")
        try:
            states = read.newest_states(partition)
            first = states[0].subtotals_offset if states else 0
            if not states:
                count = PartitionCount(partition, catalog)
            else:
                counters, position = counters_of(states)
                count = PartitionCount(partition, catalog, counters, position)
                tail_offset = states[0].tail_offset
                for message in reader.read_range(CHARGES, partition, tail_offset, position - 1):
                    charges = read.read(ChargeSet, message)
                    if charges is not None:
                        count.recall(charges_of(charges, message.offset, message.timestamp_ms))
        except BaseException:
            transactions.close()
            raise
        _log.info("partition taken over", partition=partition, position=count.position)
        return FirstStage(count, transactions, first)

    @staticmethod
    def told(stages: Mapping[int, FirstStage], read: TopicsRead) -> None:
        """Let stages that were taken over know what their earlier owners told. Raises Unavailable."""
        first = min((stage.subtotals_offset for stage in stages.values()), default=None)
        for subtotal in read.subtotals(first) if first is not None else ():
            if subtotal.partition in stages:
                count = stages[subtotal.partition].count
                count.told_version = max(count.told_version, subtotal.version)

    def take(self, records: Sequence[WindowCharges], replaced: Mapping[Window, Replaced]) -> None:
        """Count records; ``replaced`` has what ``count.to_ask`` named."""
        self.count.count(records, replaced)

    def subtotals(self, registry: SchemaRegistry) -> list[Outgoing]:
        """What is to be told since this was last asked."""
        changed = self.count.changed
        news = changed.totals or self.count.counters.newest_end_ns > self._told_end_ns
        if not news:
            return []
        told, self.count.changed = subtotal_of(self.count, changed), Changed()
        self._told_end_ns = told.newest_end_ns
        key = str(self.count.partition).encode()
        return [Outgoing(BUDGET_SUBTOTALS, key, framed(registry, told), partition=0)]

    def keep(self, registry: SchemaRegistry, subtotals_end: int) -> int | None:
        """Write the state; the offset below which all is finished, None where nothing is to be written.

        ``subtotals_end`` is behind all that this owner has told. Raises Fenced, Unavailable.
        """
        count = self.count
        if not count.may_be_kept or count.position == self._kept_position:
            return None
        self._transactions.commit(
            Outgoing(
                BUDGET_STATE,
                f"{count.partition}/{state.part}".encode(),
                framed(registry, state),
                partition=count.partition,
            )
            for state in states_of(count, subtotals_end)
        )
        self._kept_position = count.position
        self.subtotals_offset = subtotals_end
        return count.position

    def close(self) -> None:
        """Let go of the connection."""
        self._transactions.close()
