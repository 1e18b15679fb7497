"""The engine: records in, charges out, and what may be acknowledged. All of it in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import structlog

from gpuledger.attribution import charge_windows
from gpuledger.bus import (
    BusSettings,
    DeadLetters,
    Incoming,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    framed,
    partition_for_node,
    register,
)
from gpuledger.contract.clock import NS_PER_S, Clock, SystemClock
from gpuledger.contract.errors import BadRecord, Fenced, Unavailable
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import Epoch, NodeKey
from gpuledger.contract.records import record_name
from gpuledger.contract.topics import CHARGES, PROGRESS, TELEMETRY
from gpuledger.contract.wire import frame
from gpuledger.processor import metrics
from gpuledger.processor.broker_time import BrokerTime
from gpuledger.processor.charging import Configuration, Core, charge
from gpuledger.processor.gathering import Gathered, Gatherer
from gpuledger.processor.ownership import Ownership, take_over
from gpuledger.processor.progress import hours_to_write, progress_key
from gpuledger.processor.protocol import (
    Acknowledge,
    Batch,
    Decision,
    Gather,
    OffsetGap,
    PartitionOwner,
    Progress,
    Publish,
    Reading,
    work,
)
from gpuledger.processor.reading import Decoder, log_record
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.processor.topics_read import TopicsReader, announcements

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0  # between attempts to take over while Kafka or the registry is away
LONGEST_WORK_S = 2.0  # then new records have their turn; what is left is gone on with at the next tick
# A version is published 60 s before the first window that it holds for: whoever has read the topic since
# then knows it. The rest of the 60 s is for publishing itself and for clocks that differ.
KNOWN_AHEAD_NS = 15 * NS_PER_S
_log = structlog.get_logger(__name__)
T = TypeVar("T")


class Superseded(Exception):
    """The partitions were assigned anew meanwhile: what is under way is abandoned, nothing is lost."""


@dataclass(slots=True)
class Round:
    """What a call of the engine came to: offsets to commit, by partition, and windows decided."""

    acknowledge: dict[int, int] = field(default_factory=dict)
    windows: int = 0


class Engine:
    """Carries the protocol's decisions out on Kafka.

    Made, used and closed in one thread, but for ``supersede``. Every call may raise Unavailable,
    ProducerBroken or Fenced: the worker must then stop; the next one finds all that was not acknowledged.
    """

    def __init__(
        self,
        bus: BusSettings,
        settings: ProcessorSettings,
        clock: Clock | None = None,
        core: Core = charge_windows,
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._clock = clock or SystemClock()
        self._core = core
        name = settings.application
        self._reader = PartitionReader(bus, f"{name}-reader")
        self._producer = Producer(bus, f"{name}-charges")
        self._registry = SchemaRegistry(bus, self._clock)
        self._dead_letters = DeadLetters(self._producer, self._registry, self._clock, "processor")
        self._topics = TopicsReader(self._reader, self._registry, self._bury)
        self._gatherer = Gatherer(self._reader, Decoder(self._registry))
        self._broker_time = BrokerTime(self._reader, self._producer, self._clock)
        self._owned: dict[int, Ownership] = {}
        self._held: dict[int, dict[int, tuple[Incoming, RecordHeaders]]] = {}
        self._configuration: Configuration | None = None
        self._configured_ns = 0  # when it was read, Unix ns
        self._epochs: dict[NodeKey, Epoch] = {}  # the latest one read of each node
        self._ask_for_lives: set[int] = set()
        self._partitions = 0  # of gpu.telemetry; never changed
        self._next_mark_ns = 0
        self._assignment = 0  # the latest one known, set from any thread
        self._serving = 0  # the one that what is owned belongs to
        self._lock = threading.Lock()

    def supersede(self, assignment: int) -> None:
        """The partitions were assigned anew; from any thread. Work of an earlier assignment stops early."""
        with self._lock:
            self._assignment = assignment

    def assign(self, assignment: int, partitions: Sequence[int]) -> None:
        """Own these partitions and no others; waits until Kafka and the registry answer."""
        self._drop()
        self._serving = assignment
        try:
            self._patiently(self._configure)
            self._partitions = self._patiently(partial(self._reader.partitions, TELEMETRY))
            for partition in sorted(partitions):
                self._owned[partition] = self._patiently(partial(self._take_over, partition))
                self._held[partition] = {}
        except Superseded:
            self._drop()
        self._next_mark_ns = 0
        metrics.PARTITIONS_OWNED.set(len(self._owned))

    def feed(self, assignment: int, records: Sequence[Incoming]) -> Round:
        """Take the next records of the partitions owned, and do all that has become due."""
        if assignment != self._serving or not self._is_current():
            return Round()
        refused: list[tuple[Incoming, BadRecord]] = []
        self._ask_for_lives.clear()
        for record in records:
            ownership = self._owned.get(record.partition)
            if ownership is not None:
                self._read(ownership.owner, record, refused)
        for partition in sorted(self._ask_for_lives):
            self._hear_lives(self._owned[partition].owner)
        metrics.RECORDS_READ.inc(len(records))
        self._bury(refused)
        return self._work()

    def tick(self, assignment: int) -> Round:
        """Read what the topics beside the log say, take the time, and do all that has become due."""
        if assignment != self._serving or not self._owned or not self._is_current():
            return Round()
        if self._clock.boot_ns() >= self._next_mark_ns:
            self._next_mark_ns = self._clock.boot_ns() + int(self._settings.mark_interval_s * NS_PER_S)
            news = announcements(self._configure().generations)
            for ownership in self._owned.values():
                for announcement in news:
                    ownership.owner.announce(announcement)
            self._mark()
        return self._work()

    def close(self) -> None:
        """Let go of everything."""
        self._drop()
        self._producer.flush(5.0)
        self._producer.close()
        self._reader.close()
        self._registry.close()

    # owning

    def _configure(self) -> Configuration:
        read_ns = self._clock.unix_ns()
        self._configuration = self._topics.configuration()
        self._configured_ns = read_ns
        return self._configuration

    def _configuration_of(self, decisions: Sequence[tuple[int, Decision]]) -> Configuration:
        """What is configured, read late enough for these windows: a worker may have stood still for long.

        The new owner of its partitions charges the same windows at the same revisions.
        """
        newest_ns = max((decision.window_start_ns for _, decision in decisions), default=0)
        if self._configuration is None or newest_ns > self._configured_ns + KNOWN_AHEAD_NS:
            return self._configure()
        return self._configuration

    def _take_over(self, partition: int) -> Ownership:
        assert self._configuration is not None
        return take_over(
            partition, self._bus, self._settings, self._reader, self._topics, self._configuration
        )

    def _patiently(self, attempt: Callable[[], T]) -> T:
        give_up_ns = self._clock.boot_ns() + int(self._settings.patience_s * NS_PER_S)
        pause_s = FIRST_PAUSE_S
        while True:
            if not self._is_current():
                raise Superseded
            try:
                return attempt()
            except Unavailable as error:
                if self._clock.boot_ns() > give_up_ns:
                    raise
                _log.warning("waiting to take over", error=str(error))
            self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _is_current(self) -> bool:
        with self._lock:
            return self._assignment == self._serving

    def _drop(self) -> None:
        for ownership in self._owned.values():
            ownership.transactions.close()
        self._owned.clear()
        self._held.clear()
        self._epochs.clear()

    # reading

    def _read(
        self, owner: PartitionOwner, record: Incoming, refused: list[tuple[Incoming, BadRecord]]
    ) -> None:
        if record.offset > owner.position:
            self._skip(owner, record.offset)
        try:
            headers = RecordHeaders.from_kafka(record.key, record.headers)
            if partition_for_node(headers.id.node_key.key, self._partitions) != record.partition:
                # a second owner would charge the same node, each from a part of its records
                raise BadRecord("wrong_partition", "the key belongs to another partition")
            length_ns = self._settings.grid(headers.id.cluster).length_ns
            if headers.window_length_ns != length_ns:
                raise BadRecord(
                    "wrong_grid", f"the cluster's windows have {length_ns} ns, not {headers.window_length_ns}"
                )
        except BadRecord as error:
            if record.offset >= owner.position:
                owner.pass_over(record.offset)
                refused.append((record, error))
            return
        if headers.goodbye or headers.id.epoch != self._epochs.get(headers.id.node_key):
            # an agent states the life before it begins and before it says goodbye
            self._epochs[headers.id.node_key] = headers.id.epoch
            self._ask_for_lives.add(owner.partition)
        reading = owner.read(log_record(record, headers))
        if reading is Reading.HELD:
            self._held[owner.partition][record.offset] = (record, headers)
        elif reading is not Reading.REPEATED:
            refused.append((record, BadRecord(reading.value, "its window is no time at which it arrived")))

    def _skip(self, owner: PartitionOwner, offset: int) -> None:
        low, _ = self._reader.bounds(TELEMETRY, owner.partition)
        if low <= owner.position:
            if not self._skip_marks(owner, offset):
                raise OffsetGap(
                    f"partition {owner.partition}: {offset} came where {owner.position} was expected"
                )
            return
        _log.error("retention took records unread", partition=owner.partition, first=owner.position, end=low)
        owner.skip_to(min(low, offset))

    def _skip_marks(self, owner: PartitionOwner, end: int) -> bool:
        """Pass over the offsets before ``end`` where no record has any of them; whether that is so.

        Nobody of ours writes in transactions here, but the marks of whoever does have offsets.
        """
        for _ in self._reader.read_range(TELEMETRY, owner.partition, owner.position, end - 1):
            return False
        _log.warning("offsets without a record", partition=owner.partition, first=owner.position, end=end)
        owner.skip_to(end)
        return True

    def _bury(self, refused: Sequence[tuple[Incoming, BadRecord]]) -> None:
        if refused:
            self._dead_letters.publish(refused)
            for record, error in refused:
                metrics.RECORDS_REFUSED.labels(error.reason).inc()
                _log.warning(
                    "record refused", partition=record.partition, offset=record.offset, error=str(error)
                )

    def _mark(self) -> None:
        for owner in [o.owner for o in self._owned.values() if o.owner.has_mark]:
            low, high = self._reader.bounds(TELEMETRY, owner.partition)
            if low <= owner.position < high:  # much to read, or marks that are never read
                self._skip_marks(owner, high)
        waiting = [o.owner for o in self._owned.values() if not o.owner.has_mark]
        broker_ns = self._broker_time.now() if waiting else None
        if broker_ns is None:
            return
        ends = {owner.partition: self._reader.bounds(TELEMETRY, owner.partition)[1] for owner in waiting}
        for owner in waiting:
            # after the time was taken: an end that was told before it must be known when it is used
            self._hear_lives(owner)
            owner.mark(broker_ns, ends[owner.partition])
            if owner.caught_up_ns is not None:
                metrics.CAUGHT_UP_SECONDS.labels(owner.partition).set(owner.caught_up_ns / NS_PER_S)

    def _hear_lives(self, owner: PartitionOwner) -> None:
        for key, life in self._topics.lifetimes(owner.partition):
            owner.state_life(key, life)

    # working

    def _work(self) -> Round:
        total = Round()
        end_ns = self._clock.boot_ns() + int(LONGEST_WORK_S * NS_PER_S)
        while self._is_current() and self._clock.boot_ns() < end_ns:
            started_ns = self._clock.boot_ns()
            try:
                decided = self._one_round(total)
            except Fenced:
                if self._is_current():
                    raise
                return Round()  # the new owner took over while this was under way
            if not decided:
                break
            metrics.ROUND_SECONDS.observe((self._clock.boot_ns() - started_ns) / NS_PER_S)
        for partition, ownership in self._owned.items():
            metrics.RECORDS_HELD.labels(partition).set(ownership.owner.held)
        return total

    def _one_round(self, total: Round) -> int:
        effects = work([ownership.owner for ownership in self._owned.values()])
        gathered = Gathered()
        answer: object = None
        while True:
            try:
                effect = effects.send(answer)
            except StopIteration as end:
                decided: int = end.value
                total.windows += decided
                return decided
            answer = None
            match effect:
                case Gather(tasks):
                    gathered = self._gatherer.gather(tasks, self._held)
                    answer = gathered.unions
                case Publish(batches):
                    self._publish(batches, gathered)
                case Progress(owner, batch):
                    self._write_progress(owner, batch)
                    held = self._held[owner.partition]
                    for offset in batch.finished:
                        held.pop(offset, None)
                case Acknowledge(partition, offset):
                    total.acknowledge[partition] = offset
                    metrics.ACKNOWLEDGED_OFFSET.labels(partition).set(offset)

    def _publish(self, batches: Sequence[tuple[int, Batch]], gathered: Gathered) -> None:
        letters: list[tuple[Incoming, BadRecord]] = []
        decisions: list[tuple[int, Decision]] = []
        for partition, batch in batches:
            held = self._held[partition]
            for record in batch.refused:
                letters.append((held[record.offset][0], gathered.errors[partition, record.offset]))
            for record in batch.expired:
                reason = BadRecord("inputs_expired", "retention took other records of its window")
                letters.append((held[record.offset][0], reason))
            decisions += [(partition, decision) for decision in batch.decisions]
        charged = charge(
            decisions, gathered.bodies, self._window_ns, self._configuration_of(decisions), self._core
        )
        for (partition, _), outcome in zip(decisions, charged, strict=True):
            if outcome.error is not None:
                held = self._held[partition]
                offsets = [r.offset for r in outcome.decision.inputs if r.offset in held]
                letters += [(held[offset][0], outcome.error) for offset in offsets]
        self._bury(letters)
        self._producer.produce_all(
            Outgoing(
                CHARGES,
                NodeKey(outcome.record.cluster, outcome.record.node).key,
                frame(register(self._registry, record_name(outcome.record)), outcome.body),
            )
            for outcome in charged
        )
        now_ns = self._clock.unix_ns()
        for outcome in charged:
            if outcome.decision.inputs:
                newest_ns = max(record.append_ns for record in outcome.decision.inputs)
                metrics.ROW_LATENCY_SECONDS.observe(max(0, now_ns - newest_ns) / NS_PER_S)

    def _write_progress(self, owner: PartitionOwner, batch: Batch) -> None:
        self._owned[owner.partition].transactions.commit(
            Outgoing(
                PROGRESS,
                progress_key(NodeKey(hour.cluster, hour.node), hour.hour_start_ns),
                framed(self._registry, hour),
                partition=owner.partition,
            )
            for hour in hours_to_write(owner, batch)
        )

    def _window_ns(self, cluster: str) -> int:
        return self._settings.grid(cluster).length_ns
