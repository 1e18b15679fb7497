"""The first stage on Kafka: a partition of gpu.charges that this worker owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import structlog

from gpuledger.budgets.backfill import Bucket, Sheet
from gpuledger.budgets.backfilling import all_of, merge
from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.columns import subtotal_of
from gpuledger.budgets.counters import Changed
from gpuledger.budgets.counting import PartitionCount
from gpuledger.budgets.decoding import decoded
from gpuledger.budgets.lines import Replaced, Window, WindowCharges
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.budgets.states import counters_of, states_of
from gpuledger.budgets.told import headers_of
from gpuledger.budgets.topics_read import TopicsRead
from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    TransactionalProducer,
    framed,
)
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.records import BudgetSubtotal
from gpuledger.contract.topics import BUDGET_STATE, BUDGET_SUBTOTALS, CHARGES

FENCED_AT_ONCE = 8
METERS_AT_ONCE = 40  # of a backfill: some 5,000 buckets, which the second stage takes in 10 ms
BACKFILL_TOLD_NS = NS_PER_S // 20  # in a tick, of which two come each second
RECALLED_AT_ONCE = 500  # records: decoded together
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
        self._course: dict[str, dict[Bucket, int]] = {}
        self._untold = sorted(count.counters.untold)  # meters, a few of which are told at a time

    @staticmethod
    def fenced(
        partitions: Sequence[int], bus: BusSettings, settings: BudgetSettings
    ) -> dict[int, TransactionalProducer]:
        """Fence whoever had these partitions, several at once: each waits for the broker alone.

        Raises Unavailable; then nothing is held.
        """
        name = settings.application
        with ThreadPoolExecutor(FENCED_AT_ONCE) as pool:
            asked = {
                partition: pool.submit(TransactionalProducer, bus, f"{name}-state", f"{name}-{partition}")
                for partition in partitions
            }
        failed = [found for one in asked.values() if (found := one.exception()) is not None]
        held = {partition: one.result() for partition, one in asked.items() if one.exception() is None}
        if failed:
            for transactions in held.values():
                transactions.close()
            raise failed[0]
        return held

    @staticmethod
    def take_over(
        partition: int,
        transactions: TransactionalProducer,
        reader: PartitionReader,
        read: TopicsRead,
        registry: SchemaRegistry,
        catalog: Catalog,
    ) -> FirstStage:
        """Read the newest state and recall the tail, once whoever had it is fenced. What was told since,
        ``hear`` must say. Raises Unavailable; ``transactions`` stays the caller's until this returns."""
        states = read.newest_states(partition)
        first = states[0].subtotals_offset if states else 0
        if not states:
            count = PartitionCount(partition, catalog)
        else:
            counters, position = counters_of(states)
            count = PartitionCount(partition, catalog, counters, position)
            tail_offset = states[0].tail_offset
            messages = reader.read_range(CHARGES, partition, tail_offset, position - 1)
            while bunch := list(islice(messages, RECALLED_AT_ONCE)):
                for _, charges in decoded(registry, bunch)[0]:
                    count.recall(charges)
        _log.info("partition taken over", partition=partition, position=count.position)
        return FirstStage(count, transactions, first)

    def hear(self, offset: int, version: int, mark: str | None) -> None:
        """Know what lies in gpu.budget-subtotals of this partition: see PartitionCount.hear."""
        untold = self.count.counters.untold
        known = len(untold)
        if offset >= self.subtotals_offset:
            self.count.hear(offset, version, mark)
        if len(untold) != known:
            _log.warning("told anew: an owner that was replaced told less", partition=self.count.partition)
            self._untold = sorted(untold)

    def take(self, records: Sequence[WindowCharges], replaced: Mapping[Window, Replaced]) -> None:
        """Count records; ``replaced`` has what ``count.to_ask`` named."""
        self.count.count(records, replaced)

    def subtotals(self, registry: SchemaRegistry) -> list[Outgoing]:
        """What is to be told since this was last asked."""
        changed = self.count.changed
        if self._untold:  # they are told as a whole, with the time in which it was spent
            waits = set(self._untold)
            changed.totals = {total for total in changed.totals if total[0] not in waits}
            changed.buckets = {bucket for bucket in changed.buckets if bucket[0] not in waits}
        news = changed.totals or self.count.counters.newest_end_ns > self._told_end_ns
        if not news:
            return []
        told, self.count.changed = subtotal_of(self.count, changed), Changed()
        self._told_end_ns = told.newest_end_ns
        return [self._outgoing(registry, told)]

    def backfill(self, base: Sheet) -> None:
        """Count what was read of the time before a version. A state must be kept before anything is told."""
        found = merge(self.count, base)
        for (key, *bucket), amount in found.course.items():
            self._course.setdefault(key, {})[key, bucket[0], bucket[1]] = amount
        self._untold = sorted(self.count.counters.untold)
        self._kept_position = -1

    @property
    def has_untold(self) -> bool:
        """Whether something that was made up for is to be told now."""
        return bool(self._untold) and self.count.may_be_told

    def backfilled(self, registry: SchemaRegistry) -> Outgoing:
        """Of some meters all that is counted; ``told_backfilled`` must follow once it is told."""
        keys = self._untold[:METERS_AT_ONCE]
        course = {bucket: amount for key in keys for bucket, amount in self._course.get(key, {}).items()}
        return self._outgoing(registry, subtotal_of(self.count, all_of(self.count, keys), more=course))

    def told_backfilled(self) -> None:
        """What ``backfilled`` returned is told."""
        for key in self._untold[:METERS_AT_ONCE]:
            self._course.pop(key, None)
            self.count.counters.untold.discard(key)
        del self._untold[:METERS_AT_ONCE]

    def _outgoing(self, registry: SchemaRegistry, told: BudgetSubtotal) -> Outgoing:
        key = str(told.partition).encode()
        return Outgoing(BUDGET_SUBTOTALS, key, framed(registry, told), headers_of(self.count), partition=0)

    def keep(self, registry: SchemaRegistry, subtotals_end: int) -> int | None:
        """Write the state; the offset below which all is finished, None where nothing is to be written.

        ``subtotals_end`` is behind all that this owner has told, and all that it has heard of. Raises Fenced,
        Unavailable.
        """
        count = self.count
        if count.position == self._kept_position:
            return None
        needed_from = count.told.needed_from(count.position, subtotals_end)
        self._transactions.commit(
            Outgoing(
                BUDGET_STATE,
                f"{count.partition}/{state.part}".encode(),
                framed(registry, state),
                partition=count.partition,
            )
            for state in states_of(count, needed_from)
        )
        self._kept_position = count.position
        self.subtotals_offset = needed_from
        return count.position

    def close(self) -> None:
        """Let go of the connection."""
        self._transactions.close()


def tell_backfilled(
    stages: Iterable[FirstStage], producer: Producer, registry: SchemaRegistry, clock: Clock
) -> None:
    """Tell what was made up for, for as long as the second stage can take it beside its work. Raises as the
    producer does."""
    until_ns = clock.boot_ns() + BACKFILL_TOLD_NS
    for stage in stages:
        while stage.has_untold and clock.boot_ns() < until_ns:
            producer.produce_all([stage.backfilled(registry)])
            stage.told_backfilled()
