"""Reading a partition by its offsets, without a group: nothing is committed, nothing is rebalanced."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar, cast

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from gpuledger.bus.access import BusAccess, ClientConfig
from gpuledger.bus.kafka_errors import KAFKA_LOGGER, says_no_topic, typed
from gpuledger.bus.records import Incoming
from gpuledger.bus.topics import MAX_BATCH_BYTES
from gpuledger.contract.errors import ConfigError, GpuledgerError, KafkaUnavailable

T = TypeVar("T")
REQUEST_TIMEOUT_S = 30.0
STALL_TIMEOUT_S = 60.0  # nothing at all for so long, while records are known to lie there: the broker is away
LEADER_WITHIN_S = 5.0  # of a partition that is new, or whose broker has just come back: milliseconds at rest
LEADER_POLL_S = 0.02
METADATA_EVERY_S = 10
POLL_S = 0.5
BATCH_RECORDS = 1_000
NS_PER_MS = 1_000_000
_LEADS_SOON = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
_UNJOINED = "gpuledger-unjoined"  # a group id is asked for even by those who only assign


def consumer_options(settings: BusAccess, client_id: str, group: str) -> ClientConfig:
    """Options of every consumer: read committed, commit nothing by itself, an error at a lost offset."""
    return settings.client_config().with_options(
        {
            "client.id": client_id,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            # a record that retention took before it was read is an error to be seen, not a jump
            "auto.offset.reset": "error",
            "allow.auto.create.topics": False,
            "fetch.message.max.bytes": MAX_BATCH_BYTES,
            # a large record must not wait for a fetch of other partitions to be used up
            "fetch.wait.max.ms": 100,
            # a broker that has just come back may not know the topic yet: who asked then knows of no
            # partition, gives nobody one as the group's leader, and by default asks again after 5 minutes
            "topic.metadata.refresh.interval.ms": METADATA_EVERY_S * 1000,
        }
    )


def incoming(message: Message) -> Incoming:
    """A message of librdkafka as our record."""
    kind, timestamp = message.timestamp()
    return Incoming(
        str(message.topic()),
        int(message.partition() or 0),
        int(message.offset() or 0),
        -1 if kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE else timestamp,
        message.key(),
        message.value(),
        tuple(cast("list[tuple[str, bytes | None]]", message.headers() or [])),
    )


class PartitionReader:
    """Reads committed records of named partitions. Owned by one thread; close it, or use it in a `with`.

    Each method raises KafkaUnavailable when no broker answers, ConfigError for a topic that does not exist.
    """

    def __init__(self, settings: BusAccess, client_id: str) -> None:
        options = consumer_options(settings, client_id, _UNJOINED).with_options(
            {"enable.partition.eof": True}
        )
        self._consumer = confluent_kafka.Consumer(options, logger=KAFKA_LOGGER)

    def cluster_id(self) -> str:
        """What the Kafka cluster calls itself."""
        try:
            return str(self._consumer.list_topics(timeout=REQUEST_TIMEOUT_S).cluster_id)
        except KafkaException as error:
            raise typed(error, "asking for the cluster's id") from error

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        try:
            found = self._consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic]
        except KafkaException as error:
            raise typed(error, f"describing {topic}") from error
        if found.error is not None:
            raise typed(found.error, f"describing {topic}")
        return len(found.partitions)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that is still there, and the offset behind the last committed record.

        A transaction that was committed just now by another may be missing for some milliseconds.
        """
        asked = TopicPartition(topic, partition)
        try:
            low, high = _of_leader(
                lambda: self._consumer.get_watermark_offsets(asked, timeout=REQUEST_TIMEOUT_S)
            )
        except KafkaException as error:
            raise self._typed(error, topic, partition, "asking for the bounds of") from error
        return low, high

    def offset_at(self, topic: str, partition: int, unix_ns: int) -> int:
        """The first offset appended at or after that instant (ns since the Unix epoch); the end if none."""
        # rounded down: kafka#4473 reads finer timestamps as ms, and starting early is harmless
        asked = TopicPartition(topic, partition, unix_ns // NS_PER_MS)

        def ask() -> TopicPartition:
            (found,) = self._consumer.offsets_for_times([asked], timeout=REQUEST_TIMEOUT_S)
            if found.error is not None:
                raise KafkaException(found.error)
            return found

        try:
            found = _of_leader(ask)
        except KafkaException as error:
            raise self._typed(error, topic, partition, "searching by time in") from error
        return found.offset if found.offset >= 0 else self.bounds(topic, partition)[1]

    def read_to_end(self, topic: str, partition: int, first: int | None = None) -> Iterator[Incoming]:
        """Every record from `first` (the first one there) to the end as it is at the call."""
        low, end = self.bounds(topic, partition)
        return self._read(topic, partition, low if first is None else max(first, low), end)

    def read_range(self, topic: str, partition: int, first: int, last: int) -> Iterator[Incoming]:
        """Every record with an offset in [first, last] that is still there and committed."""
        low, end = self.bounds(topic, partition)
        return self._read(topic, partition, max(first, low), min(last + 1, end))

    def _read(self, topic: str, partition: int, first: int, end: int) -> Iterator[Incoming]:
        if first >= end:
            return
        place = f"{topic}/{partition}"
        try:
            self._consumer.assign([TopicPartition(topic, partition, first)])
            heard_at = time.monotonic()
            while True:
                messages = self._consumer.consume(BATCH_RECORDS, timeout=0)
                if not messages:  # with a timeout it would wait for a whole batch
                    messages = self._consumer.consume(1, timeout=POLL_S)
                spoken = any(message.error() is None for message in messages)
                if not spoken and time.monotonic() - heard_at > STALL_TIMEOUT_S:
                    why = "".join(f" ({error.str()})" for m in messages[-1:] if (error := m.error()))
                    raise KafkaUnavailable(
                        f"reading {place} before {end}: no record for {STALL_TIMEOUT_S:.0f} s{why}"
                    )
                for message in messages:
                    error = message.error()
                    if error is None:
                        record = incoming(message)
                        if record.offset >= end:
                            return
                        yield record
                        if record.offset + 1 >= end:
                            return
                    elif error.code() == KafkaError._PARTITION_EOF:
                        # markers of transactions and compacted records have offsets and are never seen
                        if int(message.offset() or 0) >= end:
                            return
                    elif error.fatal() or not error.retriable():
                        raise self._typed(error, topic, partition, "reading")
                if spoken:  # now, whatever time was spent on them
                    heard_at = time.monotonic()
        except KafkaException as error:
            raise self._typed(error, topic, partition, "reading") from error
        finally:
            self._consumer.unassign()

    def _typed(
        self, error: KafkaError | KafkaException, topic: str, partition: int, doing: str
    ) -> GpuledgerError:
        """A client without brokers knows no topic any more: the cluster is asked whether there is none."""
        meant = typed(error, f"{doing} {topic}/{partition}")
        if not says_no_topic(error):
            return meant
        try:
            found = self._consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic]
        except KafkaException as away:
            return typed(away, f"{doing} {topic}/{partition}")
        if found.error is None and partition in found.partitions:
            return KafkaUnavailable(f"{doing} {topic}/{partition}: its broker was away")
        return meant

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _of_leader(ask: Callable[[], T]) -> T:
    """What a partition's leader answers. A new topic is known, and a broker back, before it leads."""
    deadline = time.monotonic() + LEADER_WITHIN_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _LEADS_SOON or time.monotonic() > deadline:
                raise
        time.sleep(LEADER_POLL_S)


def committed_offsets(
    settings: BusAccess, client_id: str, group: str, topic: str, partitions: Sequence[int]
) -> Mapping[int, int | None]:
    """Offset that a group will read next, for each partition; None where it never committed."""
    consumer = confluent_kafka.Consumer(consumer_options(settings, client_id, group), logger=KAFKA_LOGGER)
    try:
        asked = [TopicPartition(topic, partition) for partition in partitions]
        answers = consumer.committed(asked, timeout=REQUEST_TIMEOUT_S)
    except KafkaException as error:
        raise typed(error, f"asking for the offsets of {group} on {topic}") from error
    finally:
        consumer.close()
    for answer in answers:
        if answer.error is not None:
            raise ConfigError(f"offsets of {group} on {topic}/{answer.partition}: {answer.error.str()}")
    return {answer.partition: answer.offset if answer.offset >= 0 else None for answer in answers}
