"""The engine: charges in, subtotals and breaches out, and what may be acknowledged. All in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

import structlog
from faust.types import TP

from gpuledger.budgets import metrics
from gpuledger.budgets.backfills import Backfills
from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.decoding import taken
from gpuledger.budgets.first_stage import RECALLED_AT_ONCE, FirstStage, tell_backfilled
from gpuledger.budgets.lag import Lag
from gpuledger.budgets.lines import WindowCharges
from gpuledger.budgets.questions import Questions
from gpuledger.budgets.second_stage import SecondStage
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.budgets.told import Told
from gpuledger.budgets.topics_read import TopicsRead
from gpuledger.bus import (
    BusSettings,
    DeadLetters,
    Incoming,
    PartitionReader,
    Producer,
    SchemaRegistry,
    TransactionalProducer,
)
from gpuledger.contract.clock import NS_PER_S, Clock, SystemClock
from gpuledger.contract.errors import Fenced, Unavailable
from gpuledger.contract.records import BudgetSubtotal
from gpuledger.contract.topics import BUDGET_SUBTOTALS, CHARGES
from gpuledger.processor.patience import Superseded, patiently

STAGE = "budgets"
KNOWN_AHEAD_NS = 15 * NS_PER_S  # see processor.engine: whoever read the budgets so long ago knows a version
JUDGED_AT_MOST_EVERY_S = 0.25  # a thousand budgets take some 20 ms, and each poll touches most
CLOSE_FLUSH_S = 5.0
_log = structlog.get_logger(__name__)
T = TypeVar("T")


class Engine:
    """Both stages over Kafka, as the shell's Work.

    Subtotals and breaches are awaited as they are told; a partition of gpu.charges is acknowledged up to its
    newest state. Raises Unavailable or Fenced: the worker must stop, and the next one loses nothing.
    """

    def __init__(
        self, bus: BusSettings, settings: BudgetSettings, warehouse_url: str, clock: Clock | None = None
    ) -> None:
        self._bus, self._settings, self._clock = bus, settings, clock or SystemClock()
        self._questions = Questions(bus, settings, warehouse_url)
        name = settings.application
        self._reader = PartitionReader(bus, f"{name}-reader")
        self._producer = Producer(bus, f"{name}-subtotals")
        self._registry = SchemaRegistry(bus, self._clock)
        self._dead_letters = DeadLetters(self._producer, self._registry, self._clock, STAGE)
        self._read = TopicsRead(self._reader, self._registry)
        self._told = Told(self._reader, self._read)
        self._fenced: dict[int, TransactionalProducer] = {}  # on the way to be a stage
        self._first: dict[int, FirstStage] = {}
        self._second: SecondStage | None = None
        self._catalog: Catalog | None = None
        self._configured_ns = 0
        self._next_read_ns = 0
        self._kept_ns = 0
        self._lag = Lag(self._clock)
        self._backfills = Backfills(bus, settings, warehouse_url)
        self._next_judge_ns = 0
        self._partitions = 1
        self._places: Sequence[TP] = ()
        self._fed: dict[int, int] = {}  # by partition of gpu.charges the offset behind all that came
        self._is_broken = False
        self._assignment = 0
        self._serving = 0
        self._lock = threading.Lock()

    def supersede(self, assignment: int) -> None:
        """See Work."""
        with self._lock:
            self._assignment = assignment

    def assign(self, assignment: int, places: Sequence[TP]) -> None:
        """See Work. All is taken over anew: what another owner may have done between is then known."""
        self._serving, self._places, self._is_broken = assignment, list(places), False
        self._fed.clear()
        try:
            self._take_over()
        except Superseded:
            _log.info("assigned anew while taking over")

    def feed(self, assignment: int, records: Sequence[Incoming]) -> Mapping[TP, int]:
        """See Work."""
        if assignment != self._serving or not self._is_current():
            return {}
        return self._go_on(partial(self._feed, records))

    def tick(self, assignment: int) -> Mapping[TP, int]:
        """See Work: read what people wrote, and write states."""
        if assignment != self._serving or not self._is_current():
            return {}
        return self._go_on(lambda: self._tick(self._clock.boot_ns()))

    def close(self) -> None:
        """See Work."""
        self._let_go()
        self._lag.own(())
        self._backfills.close()
        self._producer.flush(CLOSE_FLUSH_S)
        self._producer.close()
        self._reader.close()
        self._registry.close()
        self._questions.close()

    def _go_on(self, work: Callable[[], Mapping[TP, int]]) -> Mapping[TP, int]:
        """Do it. Where Kafka was away, what this worker holds may not lie there: it takes over anew."""
        try:
            if self._is_broken:
                self._patiently(self._recover)
                self._is_broken = False
                metrics.WAITS.set(0)
            return work()
        except Superseded:
            return {}
        except Unavailable as error:
            if self._is_broken:
                raise  # it was waited for, for long
            self._is_broken = True
            metrics.WAITS.set(1)
            _log.warning("waiting, then all is taken over anew", error=str(error))
            return {}

    def _recover(self) -> None:
        """Take over anew, and count what came meanwhile: Faust gives it once."""
        self._producer.close()
        self._producer = Producer(self._bus, f"{self._settings.application}-subtotals")
        self._dead_letters = DeadLetters(self._producer, self._registry, self._clock, STAGE)
        self._take_over()
        for partition, stage in self._first.items():
            last = self._fed.get(partition, 0) - 1
            messages = self._reader.read_range(CHARGES, partition, stage.count.position, last)
            while bunch := list(islice(messages, RECALLED_AT_ONCE)):
                self._count(self._charges(bunch))

    def _take_over(self) -> None:
        """Own the partitions that are assigned, from what lies in Kafka."""
        self._let_go()
        catalog = self._patiently(self._configure)
        mine = sorted(place.partition for place in self._places if place.topic == CHARGES)
        self._fenced = self._patiently(partial(FirstStage.fenced, mine, self._bus, self._settings))
        for number in mine:
            sources = self._reader, self._read, self._registry, catalog
            take_over = partial(FirstStage.take_over, number, self._fenced[number], *sources)
            self._first[number] = self._patiently(take_over)
            del self._fenced[number]
        self._patiently(partial(self._told.begin, self._first))
        if TP(BUDGET_SUBTOTALS, 0) in self._places:
            sources_of_all = self._bus, self._settings, self._reader, self._read
            self._second = self._patiently(partial(SecondStage.take_over, *sources_of_all))
        self._partitions = self._patiently(partial(self._reader.partitions, CHARGES))
        self._next_read_ns, self._kept_ns = 0, self._clock.boot_ns()
        metrics.PARTITIONS_OWNED.set(len(self._first))
        self._lag.own(self._first)

    def _feed(self, records: Sequence[Incoming]) -> Mapping[TP, int]:
        finished: dict[TP, int] = {}
        ours = [record for record in records if record.topic == CHARGES]
        for record in ours:
            self._fed[record.partition] = max(record.offset + 1, self._fed.get(record.partition, 0))
        self._count(self._charges(ours))
        self._lag.counted(ours)
        for record in records:
            if record.topic == BUDGET_SUBTOTALS and self._second is not None:
                told = self._read.read(BudgetSubtotal, record)
                if told is not None:
                    self._second.absorb(told)
                finished[TP(BUDGET_SUBTOTALS, 0)] = record.offset + 1
        self._judge()
        return finished

    def _tick(self, now_ns: int) -> Mapping[TP, int]:
        if now_ns >= self._next_read_ns:
            self._next_read_ns = now_ns + int(self._settings.read_interval_s * NS_PER_S)
            self._configure()
            if self._second is not None:
                self._as_owner(partial(self._second.hear, self._read, self._registry))
        self._judge()
        kept = self._as_owner(self._backfill)
        return {**self._as_owner(partial(self._keep, now_ns)), **kept}

    def _backfill(self) -> dict[TP, int]:
        """Count what was read of the time before a version; keep it, then tell it, little at a time."""
        counts = {partition: stage.count for partition, stage in self._first.items()}
        self._backfills.look(counts, self._partitions)
        kept: dict[TP, int] = {}
        if (ready := self._backfills.ready(counts)) is not None:
            partition, base = ready
            end = self._told.look(self._first)
            self._first[partition].backfill(base)
            if (position := self._first[partition].keep(self._registry, end)) is not None:
                kept[TP(CHARGES, partition)] = position
        tell_backfilled(self._first.values(), self._producer, self._registry, self._clock)
        return kept

    def _let_go(self) -> None:
        self._backfills.abandon()
        for transactions in self._fenced.values():
            transactions.close()
        self._fenced.clear()
        for stage in self._first.values():
            stage.close()
        self._first.clear()
        if self._second is not None:
            self._second.close()
            self._second = None

    def _configure(self) -> Catalog:
        read_ns = self._clock.unix_ns()
        self._catalog = self._read.catalog()
        self._configured_ns = read_ns
        for stage in self._first.values():
            stage.count.catalog = self._catalog
        return self._catalog

    def _charges(self, records: Sequence[Incoming]) -> dict[int, list[WindowCharges]]:
        """The charge sets, by partition; what is none goes to dead letters."""
        ours = [
            record
            for record in records
            if (stage := self._first.get(record.partition)) and record.offset >= stage.count.position
        ]
        return taken(self._registry, self._dead_letters, ours)

    def _count(self, charges: Mapping[int, Sequence[WindowCharges]]) -> None:
        if not charges:
            return
        newest_ns = max(one.window.start_ns for records in charges.values() for one in records)
        if newest_ns > self._configured_ns + KNOWN_AHEAD_NS:
            self._configure()
        for partition, records in charges.items():
            stage = self._first[partition]
            asked = stage.count.to_ask(records)
            known = self._patiently(partial(self._questions.replaced, stage.count, asked)) if asked else {}
            stage.take(records, known)
            metrics.SETS_COUNTED.inc(len(records))
        told = [out for stage in self._first.values() for out in stage.subtotals(self._registry)]
        self._producer.produce_all(told)

    def _judge(self) -> None:
        now_ns = self._clock.boot_ns()
        if self._second is not None and self._catalog is not None and now_ns >= self._next_judge_ns:
            self._next_judge_ns = now_ns + int(JUDGED_AT_MOST_EVERY_S * NS_PER_S)
            changes = self._as_owner(partial(self._second.judge, self._catalog, self._registry))
            for breach in changes:
                metrics.CHANGES_TOLD.labels(breach.state).inc()

    def _keep(self, now_ns: int) -> dict[TP, int]:
        """Write the states that are due, few at a time: nothing is judged while they are written."""
        interval_ns = int(self._settings.state_interval_s * NS_PER_S)
        at_once = -(-len(self._first) * (now_ns - self._kept_ns) // interval_ns)
        self._kept_ns = now_ns
        due = sorted(self._first.items(), key=lambda item: item[1].kept_ns)[:at_once]
        due = [(partition, stage) for partition, stage in due if now_ns - stage.kept_ns >= interval_ns]
        finished = {}
        end = self._told.look(self._first) if due else 0
        for partition, stage in due:
            stage.kept_ns = now_ns
            self._lag.look(partition, stage.count.position, self._reader.bounds(CHARGES, partition))
            position = stage.keep(self._registry, end)
            if position is not None:
                finished[TP(CHARGES, partition)] = position
        return finished

    def _as_owner(self, attempt: Callable[[], T]) -> T:
        """Do what only the owner may. Raises Superseded where a later assignment explains the fence."""
        try:
            return attempt()
        except Fenced:
            if self._is_current():
                raise
            raise Superseded from None

    def _patiently(self, attempt: Callable[[], T]) -> T:
        return patiently(attempt, self._is_current, self._clock, self._settings.patience_s)

    def _is_current(self) -> bool:
        with self._lock:
            return self._assignment == self._serving
