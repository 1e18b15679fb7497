"""The engine: records in, charges out, and what may be acknowledged. All of it in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from gpuledger.bus import BusSettings, DeadLetters, Incoming, PartitionReader, Producer, SchemaRegistry
from gpuledger.contract.clock import NS_PER_S, Clock, SystemClock
from gpuledger.contract.errors import Fenced
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor import metrics
from gpuledger.processor.broker_time import BrokerTime
from gpuledger.processor.charging import Configuration, Core, steady_core
from gpuledger.processor.gathering import Gatherer
from gpuledger.processor.intake import Intake
from gpuledger.processor.letters import Letters
from gpuledger.processor.ownership import Ownership, committed, take_over
from gpuledger.processor.patience import Superseded, patiently
from gpuledger.processor.protocol import Decision, PartitionOwner
from gpuledger.processor.reading import Decoder
from gpuledger.processor.refusals import Refusals
from gpuledger.processor.rounds import Round, Rounds
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.processor.topics_read import TopicsReader, announcements
from gpuledger.processor.window_inputs import inputs_of

LONGEST_WORK_S = 2.0  # then new records have their turn; what is left is gone on with at the next tick
LOAD_AT_TICK_S = 0.5  # of older rows, while records may come
LOAD_BESIDE_RECORDS_S = 0.1
MOST_WAITING_BYTES = 128 << 20  # of a partition, for older rows; as much as a round takes
# A version is published 60 s before the first window that it holds for: whoever has read the topic since
# then knows it. The rest of the 60 s is for publishing itself and for clocks that differ.
KNOWN_AHEAD_NS = 15 * NS_PER_S
CLOSE_FLUSH_S = 5.0  # what is not delivered by then is sent again by the next owner
_log = structlog.get_logger(__name__)
T = TypeVar("T")


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
        core: Core | None = None,
        archive_url: str | None = None,
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._clock = clock or SystemClock()
        name = settings.application
        self._reader = PartitionReader(bus, f"{name}-reader")
        self._producer = Producer(bus, f"{name}-charges")
        self._registry = SchemaRegistry(bus, self._clock)
        self._dead_letters = DeadLetters(self._producer, self._registry, self._clock, "processor")
        self._letters = Letters(self._dead_letters)
        self._refusals = Refusals()
        self._topics = TopicsReader(self._reader, self._registry, self._refusals)
        self._intake = Intake(self._reader, self._letters, settings)
        gatherer = Gatherer(inputs_of(self._reader, archive_url), Decoder(self._registry))
        core = core or steady_core()
        self._rounds = Rounds(
            settings, gatherer, self._letters, self._producer, self._registry, self._clock, core
        )
        self._broker_time = BrokerTime(self._reader, self._producer, self._clock)
        self._owned: dict[int, Ownership] = {}
        self._configuration: Configuration | None = None
        self._configured_ns = 0  # when it was read, Unix ns
        self._next_mark_ns = 0
        self._stood: dict[int, int] = {}  # the position of each partition when marks were last looked at
        self._assignment = 0  # the latest one known, set from any thread
        self._serving = 0  # the one that what is owned belongs to
        self._lock = threading.Lock()

    def supersede(self, assignment: int) -> None:
        """The partitions were assigned anew; from any thread. Work of an earlier assignment stops early."""
        with self._lock:
            self._assignment = assignment

    def assign(self, assignment: int, partitions: Sequence[int]) -> None:
        """Own these partitions and no others; waits until Kafka and the registry answer.

        What stays is not read anew: an owner between would have fenced its progress.
        """
        self._serving = assignment
        try:
            self._patiently(self._configure)
            self._patiently(self._intake.count_partitions)
            self._patiently(partial(self._let_go, set(partitions)))
            for partition in sorted(set(partitions) - self._owned.keys()):
                self._owned[partition] = self._patiently(partial(self._take_over, partition))
        except Superseded:
            _log.info("assigned anew while taking over")
        self._next_mark_ns = 0
        metrics.PARTITIONS_OWNED.set(len(self._owned))
        self._show_loading()

    def feed(self, assignment: int, records: Sequence[Incoming]) -> Round:
        """Take the next records of the partitions owned, and do all that has become due."""
        if assignment != self._serving or not self._is_current():
            return Round()
        for partition in sorted(self._intake.feed(records, self._owned)):
            self._hear_lives(self._owned[partition].owner)
        done = self._work()
        self._load(LOAD_BESIDE_RECORDS_S)
        return done

    def tick(self, assignment: int) -> Round:
        """Read what the topics beside the log say, take the time, and do all that has become due."""
        if assignment != self._serving or not self._owned or not self._is_current():
            return Round()
        if self._clock.boot_ns() >= self._next_mark_ns:
            self._next_mark_ns = self._clock.boot_ns() + int(self._settings.mark_interval_s * NS_PER_S)
            self._announce()
            self._mark()
            if not any(ownership.loading for ownership in self._owned.values()):  # what is told is known
                self._refusals.tell(self._owned.values(), self._dead_letters, self._registry)
        done = self._work()
        self._load(LOAD_AT_TICK_S)
        return done

    def close(self) -> None:
        """Let go of everything."""
        for ownership in self._owned.values():
            ownership.transactions.close()
        self._owned.clear()
        self._producer.flush(CLOSE_FLUSH_S)
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

    def _let_go(self, wanted: set[int]) -> None:
        """Drop what leaves, and what somebody else acknowledged records of since."""
        staying = sorted(wanted & self._owned.keys())
        at = committed(self._bus, self._settings, staying) if staying else {}
        for partition, ownership in list(self._owned.items()):
            if partition not in at or not ownership.owner.goes_on_from(at[partition]):
                ownership.transactions.close()
                del self._owned[partition]

    def _take_over(self, partition: int) -> Ownership:
        assert self._configuration is not None
        ownership = take_over(
            partition, self._bus, self._settings, self._reader, self._topics, self._configuration
        )
        self._intake.skip_lost(ownership.owner)
        return ownership

    def _load(self, within_s: float) -> None:
        """Go on with what is loading, for a moment; where too much waits for it, to its end."""
        end_ns = self._clock.boot_ns() + int(within_s * NS_PER_S)
        loading = [ownership for ownership in self._owned.values() if ownership.loading]
        for ownership in loading:
            hurry = ownership.held_bytes > MOST_WAITING_BYTES
            while ownership.loading and (hurry or self._clock.boot_ns() < end_ns) and self._is_current():
                self._letters.bury(ownership.load())
        if loading:
            self._show_loading()

    def _show_loading(self) -> None:
        metrics.PARTITIONS_LOADING.set(sum(bool(ownership.loading) for ownership in self._owned.values()))

    def _patiently(self, attempt: Callable[[], T]) -> T:
        return patiently(attempt, self._is_current, self._clock, self._settings.patience_s)

    def _is_current(self) -> bool:
        with self._lock:
            return self._assignment == self._serving

    # time

    def _announce(self) -> None:
        news = announcements(self._configure().generations)
        for owner in [ownership.owner for ownership in self._owned.values()]:
            for announcement in news:
                if owner.announce(announcement):
                    _log.warning(
                        "a generation reaches further back than windows are kept: publish a replay",
                        generation=announcement.number,
                        partition=owner.partition,
                        kept_from_ns=owner.open_from_ns,
                    )

    def _mark(self) -> None:
        stood = self._stood
        self._stood = {o.owner.partition: o.owner.position for o in self._owned.values()}
        for owner in [o.owner for o in self._owned.values() if o.owner.has_mark]:
            if stood.get(owner.partition) != owner.position:
                continue  # it is being read
            low, high = self._reader.bounds(TELEMETRY, owner.partition)
            if low <= owner.position < high:  # much to read, or marks that are never read
                self._intake.skip_marks(owner, high)
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
                decided = self._rounds.one(self._owned, self._configuration_of, total)
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
