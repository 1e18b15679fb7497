"""gpu.charges as a group reads it: assignment, revocation, pausing, commits of what is still ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from gpuledger.bus import BusSettings, Incoming
from gpuledger.bus.kafka_errors import KAFKA_LOGGER, typed
from gpuledger.bus.reader import consumer_options, incoming
from gpuledger.contract.errors import KafkaUnavailable
from gpuledger.logs import EventLog
from gpuledger.sink.batcher import Flow, Place

FETCH_RECORDS = 2_000  # at once: a few ms of decoding between two looks at the writer
COMMITTED_TIMEOUT_S = 30.0
# The group moved on while we committed: the next owner reads those records again, and equal rows collapse.
_NOT_OURS = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._STATE,
    }
)

log = EventLog("gpuledger.sink")


@dataclass(frozen=True, slots=True)
class Position:
    """A partition: the offset below which all is acknowledged, and the offset behind its last record."""

    committed: int
    end: int


class Source:
    """A member of the group. Owned by one thread; ``leave`` is called with partitions before they go.

    ``leave(places, lost)``: when not lost, offsets may still be committed inside the call.
    """

    def __init__(
        self,
        settings: BusSettings,
        topic: str,
        group: str,
        leave: Callable[[Collection[Place], bool], None],
        session_timeout_s: float,
    ) -> None:
        options = consumer_options(settings, "gpuledger-sink", group).with_options(
            {
                "session.timeout.ms": int(session_timeout_s * 1000),
                "heartbeat.interval.ms": int(session_timeout_s * 1000 / 5),
                "partition.assignment.strategy": "range",  # eager: a lost assignment is always told as lost
            }
        )
        self._topic = topic
        self._leave = leave
        self._consumer = confluent_kafka.Consumer(options, logger=KAFKA_LOGGER)
        self.owned: set[Place] = set()
        self._closing = False
        self._paused = False
        self._committed: dict[Place, int] = {}
        self._uncommitted: dict[Place, int] = {}  # what the group's coordinator, being away, has not got yet
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    @property
    def owned_count(self) -> int | None:
        """How many partitions are ours; None once it is being closed. Any thread may ask."""
        return None if self._closing else len(self.owned)

    def poll(self, timeout_s: float) -> Sequence[Incoming]:
        """Records that came, in the order of each partition. Raises KafkaUnavailable, ConfigError."""
        if self._uncommitted:
            self.commit({})
        records = []
        try:
            messages = self._consumer.consume(FETCH_RECORDS, timeout=timeout_s)
        except KafkaException as failure:  # also of the callbacks below, which run inside
            raise typed(failure, f"reading {self._topic}") from failure
        for message in messages:
            error = message.error()
            if error is None:
                records.append(incoming(message))
            elif error.fatal() or not error.retriable():
                raise typed(error, f"reading {self._topic}")
        return [r for r in records if (r.topic, r.partition) in self.owned]

    def positions(self) -> dict[int, Position]:
        """Where each owned partition stands, as of its last fetch; without those not fetched from yet."""
        found = {}
        for place in self.owned:
            first, end = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
            if end >= 0:
                found[place[1]] = Position(self._committed.get(place, max(0, first)), end)
        return found

    def steer(self, flow: Flow) -> None:
        """Pause or resume all partitions; a paused member keeps its place in the group."""
        if (flow is Flow.PAUSED) == self._paused:
            return
        partitions = [TopicPartition(topic, number) for topic, number in self.owned]
        if partitions:
            (self._consumer.pause if flow is Flow.PAUSED else self._consumer.resume)(partitions)
        self._paused = flow is Flow.PAUSED

    def commit(self, through: Mapping[Place, int]) -> None:
        """Commit what is still ours and await it; what can not be committed now is tried again at each poll.

        A group that moved on is no error, nor is a coordinator that is away. Raises ConfigError.
        """
        waited, self._uncommitted = bool(self._uncommitted), {**self._uncommitted, **through}
        offsets = [
            TopicPartition(*place, offset)
            for place, offset in self._uncommitted.items()
            if place in self.owned
        ]
        if not offsets:
            self._uncommitted.clear()
            return
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.code() in _NOT_OURS:
                log.info("not committed, will be read again", why=cause.str())
                self._uncommitted.clear()
                return
            meant = typed(error, f"committing {self._topic}")
            if not isinstance(meant, KafkaUnavailable):
                raise meant from error
            if not waited:
                log.warning("not committed yet", why=cause.str())
            return
        self._uncommitted.clear()
        for answer in answers:
            if answer.error is None:
                self._committed[(answer.topic, answer.partition)] = answer.offset
            else:
                log.info(
                    "not committed, will be read again", partition=answer.partition, why=answer.error.str()
                )

    def close(self) -> None:
        """Leave the group."""
        self._closing = True
        self._consumer.close()

    def _assigned(self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        starts = []
        for found in consumer.committed(partitions, timeout=COMMITTED_TIMEOUT_S):
            if found.error is not None:
                raise KafkaException(found.error)
            # A new group reads all that is there; an offset that was lost since is an error, not a jump.
            offset = found.offset if found.offset >= 0 else OFFSET_BEGINNING
            starts.append(TopicPartition(found.topic, found.partition, offset))
            self.owned.add((found.topic, found.partition))
            if found.offset >= 0:
                self._committed[(found.topic, found.partition)] = found.offset
        consumer.assign(starts)
        self._paused = False

    def _revoked(self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self._gone(partitions, lost=False)

    def _lost(self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self._gone(partitions, lost=True)

    def _gone(self, partitions: list[TopicPartition], lost: bool) -> None:
        places = {(partition.topic, partition.partition) for partition in partitions}
        if lost:
            self.owned -= places
        self._leave(places, lost)
        self.owned -= places
        for place in places:
            self._uncommitted.pop(place, None)
            self._committed.pop(place, None)
