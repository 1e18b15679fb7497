"""gpu.breaches as one target's group reads it: always from the first record, delivered from where it was.

What lies before the group's offset is only learned: which breaches live, and what people were told. The
topic holds the few changes of 90 days, so this takes less than a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from gpuledger.bus import BusSettings, Incoming
from gpuledger.bus.kafka_errors import KAFKA_LOGGER, typed
from gpuledger.bus.reader import consumer_options, incoming
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import ConfigError
from gpuledger.logs import EventLog

ASK_TIMEOUT_S = 30.0
NS_PER_MS = 1_000_000
NEW_TARGET_HEARS_S = 86_400  # of changes; of what is older it hears only if it still fires

Place: TypeAlias = tuple[str, int]
log = EventLog("gpuledger.notify")


class Source:
    """A member of a target's group, owned by one thread; ``poll`` and ``wait`` keep its place."""

    def __init__(
        self, settings: BusSettings, topic: str, group: str, session_timeout_s: float, clock: Clock
    ) -> None:
        options = consumer_options(settings, "gpuledger-notify", group).with_options(
            {
                "session.timeout.ms": int(session_timeout_s * 1000),
                "heartbeat.interval.ms": int(session_timeout_s * 1000 / 5),
                "partition.assignment.strategy": "range",
                "enable.partition.eof": True,
            }
        )
        self._topic = topic
        self._clock = clock
        self._starts: dict[Place, int] = {}
        self._new: dict[Place, int] = {}
        self._learning: set[Place] = set()
        self._held = False
        self.assignments = 0
        """Grows whenever partitions come or go: what was learned before is not to be used any more."""
        self._consumer = confluent_kafka.Consumer(options, logger=KAFKA_LOGGER)
        self._closing = False
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._gone, on_lost=self._gone)

    @property
    def owned(self) -> int | None:
        """How many partitions are ours; None once it is being closed. Any thread may ask."""
        return None if self._closing else len(self._starts)

    @property
    def caught_up(self) -> bool:
        """Whether partitions are owned and all that lies before their offsets was read."""
        return bool(self._starts) and not self._learning

    def poll(self, timeout_s: float) -> Incoming | None:
        """The next record, or None. Raises KafkaUnavailable, ConfigError."""
        try:
            message = self._consumer.poll(timeout_s)
        except KafkaException as failure:  # also of the callbacks below, which run inside
            raise typed(failure, f"reading {self._topic}") from failure
        if message is None:
            return None
        error = message.error()
        if error is None:
            return incoming(message)
        if error.code() == KafkaError._PARTITION_EOF:
            self._learning.discard((str(message.topic()), int(message.partition() or 0)))
        elif error.fatal() or not error.retriable():
            raise typed(error, f"reading {self._topic}")
        return None

    def learning(self, record: Incoming) -> bool:
        """Whether the record lies before what has to be delivered."""
        place = (record.topic, record.partition)
        start = self._starts.get(place, 0)
        if record.offset + 1 >= start:
            self._learning.discard(place)
        return record.offset < start

    def wait(self, timeout_s: float) -> bool:
        """Take no record for that long; False when partitions came or went meanwhile."""
        before = self.assignments
        self._hold(True)
        try:
            self.poll(timeout_s)
        finally:
            self._hold(False)
        return self.assignments == before

    def new(self) -> Mapping[Place, int]:
        """Partitions of which the group has committed nothing yet, with the offset that it begins at."""
        return self._new

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Everything below these offsets is delivered. Raises ConfigError.

        An offset that can not be committed now is one that a later commit covers, or is delivered again.
        """
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        try:
            self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            meant = typed(error, f"committing {self._topic}")
            if isinstance(meant, ConfigError):
                raise meant from error
            log.info("not committed yet", why=str(meant))
            return
        for place in offsets:
            self._new.pop(place, None)

    def lag(self) -> int:
        """Records that were not read yet, as of the last fetch."""
        waiting = 0
        for position in self._consumer.position([TopicPartition(*place) for place in self._starts]):
            _, end = self._consumer.get_watermark_offsets(position, cached=True)
            waiting += max(0, end - position.offset) if position.offset >= 0 else 0
        return waiting

    def close(self) -> None:
        """Leave the group."""
        self._closing = True
        self._consumer.close()

    def _hold(self, held: bool) -> None:
        self._held = held
        partitions = [TopicPartition(*place) for place in self._starts]
        if partitions:
            (self._consumer.pause if held else self._consumer.resume)(partitions)

    def _assigned(self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self._forget()
        recent_ms = self._clock.unix_ns() // NS_PER_MS - NEW_TARGET_HEARS_S * NS_PER_S // NS_PER_MS
        for found in consumer.committed(partitions, timeout=ASK_TIMEOUT_S):
            place = (found.topic, found.partition)
            low, end = consumer.get_watermark_offsets(found, timeout=ASK_TIMEOUT_S)
            start = found.offset
            if start < 0:
                asked = TopicPartition(*place, recent_ms)
                (at,) = consumer.offsets_for_times([asked], timeout=ASK_TIMEOUT_S)
                start = self._new[place] = at.offset if at.offset >= 0 else end
            self._starts[place] = start
            if low < start:
                self._learning.add(place)
        first = [TopicPartition(*place, OFFSET_BEGINNING) for place in self._starts]
        consumer.assign(first)
        if self._held and first:
            consumer.pause(first)

    def _gone(self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self._forget()

    def _forget(self) -> None:
        self.assignments += 1
        self._starts.clear()
        self._new.clear()
        self._learning.clear()
