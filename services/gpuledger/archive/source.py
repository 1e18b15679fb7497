"""Every partition of the input topics, read from stated offsets, without a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from gpuledger.bus import BusSettings, Incoming
from gpuledger.bus.kafka_errors import KAFKA_LOGGER, typed
from gpuledger.bus.reader import consumer_options, incoming
from gpuledger.bus.topics import MAX_BATCH_BYTES

FETCH_RECORDS = 200  # of one poll; some megabytes
QUEUE_KBYTES = 1 << 10  # fetched ahead of each partition; memory stays flat with hundreds of them
FETCH_BYTES = MAX_BATCH_BYTES  # of one answer of a broker, whatever many partitions have to say
_GROUP = "gpuledger-unjoined"  # a group id is asked for even by those who only assign
_DELETED = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})

Place = tuple[str, int]
"""Topic and partition."""


class Deleted(Exception):
    """Retention took the next record of a partition before it was read."""

    def __init__(self, place: Place) -> None:
        super().__init__(f"{place[0]}/{place[1]}")
        self.place = place


class Source:
    """Reads on in all partitions at once. Owned by one thread. Raises KafkaUnavailable, ConfigError."""

    def __init__(self, bus: BusSettings) -> None:
        options = consumer_options(bus, "gpuledger-archive", _GROUP).with_options(
            {"queued.max.messages.kbytes": QUEUE_KBYTES, "fetch.max.bytes": FETCH_BYTES}
        )
        self._consumer = confluent_kafka.Consumer(options, logger=KAFKA_LOGGER)
        self._deleted: list[Place] = []

    def go_on_from(self, positions: Mapping[Place, int]) -> None:
        """Read these partitions from these offsets from now on."""
        try:
            self._consumer.assign([TopicPartition(*place, offset) for place, offset in positions.items()])
        except KafkaException as error:
            raise typed(error, "assigning") from error

    def poll(self, timeout_s: float) -> Sequence[Incoming]:
        """What has come, in the order of each partition. Raises Deleted too, for each once."""
        if self._deleted:
            raise Deleted(self._deleted.pop())
        try:
            messages = self._consumer.consume(FETCH_RECORDS, timeout=timeout_s)
        except KafkaException as error:
            raise typed(error, "reading") from error
        records = []
        for message in messages:
            failure = message.error()
            if failure is None:
                records.append(incoming(message))
            elif failure.code() in _DELETED:
                self._deleted.append((str(message.topic()), int(message.partition() or 0)))
            elif failure.fatal() or not failure.retriable():
                raise typed(failure, f"reading {message.topic()}")
        return records

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()
