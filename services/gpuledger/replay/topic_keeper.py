"""What a worker has computed of a partition, on the topics of the replay: charges first, then progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuledger.bus import (
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    TransactionalProducer,
)
from gpuledger.bus.schemas import register
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import NodeProgress as HourRecord
from gpuledger.contract.records import decode, encode, record_name
from gpuledger.contract.wire import frame, unframe
from gpuledger.processor.progress import hours_of, loaded, progress_key
from gpuledger.processor.protocol import LogRecord, NodeProgress
from gpuledger.replay.beginning import Beginning
from gpuledger.replay.replay_topics import (
    POSITION,
    SIDE,
    ReplayTopics,
    position_from_bytes,
    position_to_bytes,
)
from gpuledger.replay.request import Request
from gpuledger.replay.state import Position, Stored

Kept = tuple[Position, list[NodeProgress], list[LogRecord]]
"""Position, progress, and the records behind the range; see ``state.State``."""


class TopicKeeper:
    """The owner of one partition of a replay: making one fences whoever had it before.

    See ``computing.Keeper``. Owned by one thread; producer and registry stay the caller's.
    """

    def __init__(
        self,
        request: Request,
        partition: int,
        topics: ReplayTopics,
        producer: Producer,
        registry: SchemaRegistry,
    ) -> None:
        self._request = request
        self._partition = partition
        self._topics = topics
        self._producer = producer
        self._registry = registry
        self._transactions = TransactionalProducer(
            request.bus, "gpuledger-replay", f"{topics.group}-{partition}"
        )

    def load(self, reader: PartitionReader) -> Kept | None:
        """What earlier owners kept; None where nobody has begun. Raises KafkaUnavailable."""
        hours: dict[bytes, HourRecord] = {}
        kept = None
        for message in reader.read_to_end(self._topics.progress, self._partition):
            if message.key == POSITION:
                kept = position_from_bytes(message.value or b"")
            else:
                hours[message.key or b""] = decode(HourRecord, bytes(unframe(message.value or b"")[1]))
        return None if kept is None else (kept[0], loaded(hours.values()), kept[1])

    def begin(self, beginning: Beginning, position: Position) -> None:
        """Write down what is known at the beginning."""
        grid = self._request.settings.grid
        hours = [
            hour
            for progress in beginning.progress
            for hour in hours_of(progress, grid(progress.node.cluster).length_ns)
        ]
        self._commit(hours, position, ())

    def save(
        self,
        sets: Iterable[Stored],
        hours: Iterable[HourRecord],
        position: Position,
        beyond: Sequence[LogRecord],
    ) -> None:
        """See Keeper. What is sent twice collapses: of a window the greatest revision holds."""
        self._producer.produce_all(
            Outgoing(
                self._topics.charges,
                NodeKey(one.charges.cluster, one.charges.node).key,
                frame(register(self._registry, record_name(one.charges)), one.body),
                ((SIDE, one.side.encode()),),
                self._partition,
            )
            for one in sets
        )
        self._commit(hours, position, beyond)

    def close(self) -> None:
        """Let go of the connection."""
        self._transactions.close()

    def _commit(self, hours: Iterable[HourRecord], position: Position, beyond: Sequence[LogRecord]) -> None:
        self._transactions.commit(self._records(hours, position, beyond))

    def _records(
        self, hours: Iterable[HourRecord], position: Position, beyond: Sequence[LogRecord]
    ) -> Iterator[Outgoing]:
        topic = self._topics.progress
        for hour in hours:
            key = progress_key(NodeKey(hour.cluster, hour.node), hour.hour_start_ns)
            value = frame(register(self._registry, record_name(hour)), encode(hour))
            yield Outgoing(topic, key, value, partition=self._partition)
        yield Outgoing(topic, POSITION, position_to_bytes(position, beyond), partition=self._partition)
