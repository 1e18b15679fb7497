"""Sending: in order, once, awaited."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Self

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from gpuledger.bus.kafka_errors import typed
from gpuledger.bus.records import Outgoing, Placed
from gpuledger.bus.settings import BusSettings, ClientConfig
from gpuledger.bus.topics import MAX_RECORD_BYTES
from gpuledger.contract.errors import BadRecord, GpuledgerError, ProducerBroken

LINGER_MS = 5  # long enough to fill a batch in a burst, short beside the 5 s from window end to row
BATCH_BYTES = 1 << 20  # some windows of a node in one request; larger only adds memory
QUEUE_KIB = 64 << 10  # memory that records in flight may take
DELIVERY_TIMEOUT_S = 60.0  # a leader election takes seconds; after a minute the cluster is down
POLL_S = 0.1
_LOGGER = logging.getLogger("gpuledger.bus.kafka")
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

Settled = Callable[[Placed | GpuledgerError], None]


def make_producer(
    settings: BusSettings, client_id: str, options: ClientConfig | None = None
) -> confluent_kafka.Producer:
    """A librdkafka producer: idempotent, all in-sync replicas, zstd, murmur2 like Java's; `options` win."""
    config = settings.client_config().with_options(
        {
            "client.id": client_id,
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": "murmur2_random",
            "compression.type": "zstd",
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "message.max.bytes": MAX_RECORD_BYTES,
            "queue.buffering.max.kbytes": QUEUE_KIB,
            **(options or {}),
        }
    )
    return confluent_kafka.Producer(config, logger=_LOGGER)


class Producer:
    """An idempotent producer: what it delivers is in the order in which it was sent, each record once.

    It never gives up one record of a partition and goes on with the next. Once something can not be
    delivered it is broken as a whole, and every call raises ProducerBroken: close it, make another, and send
    again from the first record that was not delivered. Owned by one thread; the callbacks of `send` run in
    `poll`, `flush`, `produce_all` and `close`.
    """

    def __init__(self, settings: BusSettings, client_id: str) -> None:
        # Without an end: a record that timed out by itself would let later ones overtake its repetition.
        # How long to wait is the caller's, and giving up empties the whole queue at once.
        endless = ClientConfig({"delivery.timeout.ms": 0, "enable.gapless.guarantee": True})
        self._producer = make_producer(settings, client_id, endless)
        self._broken: ProducerBroken | None = None

    def send(self, record: Outgoing, settled: Settled) -> None:
        """Queue one record; `settled` gets its place or its error. Blocks while the queue is full.

        It stays queued until it is delivered or the producer is closed. Raises BadRecord (over_limit) for a
        record that no broker would take, and ProducerBroken.
        """
        self._check()
        enqueue(self._producer, record, partial(self._settle, settled))

    def produce_all(self, records: Iterable[Outgoing], timeout_s: float = DELIVERY_TIMEOUT_S) -> list[Placed]:
        """Send all together and await them all; places in the order of `records`.

        Raises the first error; some records may have been delivered then. After `timeout_s` it gives up
        (ProducerBroken).
        """
        self._check()
        try:
            return send_all(self._producer, records, timeout_s)
        except BadRecord:
            raise  # refused before it was sent: the others are delivered
        except GpuledgerError as error:
            self._broken = error if isinstance(error, ProducerBroken) else ProducerBroken(str(error))
            raise

    def poll(self, timeout_s: float = 0.0) -> None:
        """Run the callbacks of what was settled; waits at most `timeout_s` for the first."""
        serve(self._producer, timeout_s)

    def flush(self, timeout_s: float) -> int:
        """Wait until all is settled, at most `timeout_s`; returns how many records are not."""
        return int(self._producer.flush(timeout_s))

    @property
    def in_flight(self) -> int:
        """Records queued or sent that are not settled."""
        return len(self._producer)

    def close(self) -> None:
        """Give up what is not settled (its callbacks get ProducerBroken); flush first to keep it."""
        discard(self._producer)
        self._broken = self._broken or ProducerBroken("the producer is closed")

    def _check(self) -> None:
        if self._broken is not None:
            raise ProducerBroken(str(self._broken))

    def _settle(self, settled: Settled, outcome: Placed | GpuledgerError) -> None:
        if isinstance(outcome, GpuledgerError) and self._broken is None:
            self._broken = ProducerBroken(str(outcome))
        settled(outcome)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def enqueue(producer: confluent_kafka.Producer, record: Outgoing, settled: Settled) -> None:
    """Queue one record; see Producer.send."""
    where = record.topic if record.partition is None else f"{record.topic}/{record.partition}"
    doing = f"sending to {where}"

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            settled(Placed(record.topic, int(message.partition() or 0), int(message.offset() or 0)))
        elif error.code() in _PURGED:
            settled(ProducerBroken(f"{doing}: given up"))
        else:
            settled(typed(error, doing))

    while True:
        try:
            producer.produce(
                record.topic,
                value=record.value,
                key=record.key,
                partition=-1 if record.partition is None else record.partition,
                headers=list(record.headers),
                on_delivery=delivered,
            )
        except BufferError:
            serve(producer, POLL_S)
        except KafkaException as error:
            raise typed(error, doing) from error
        else:
            return


def send_all(
    producer: confluent_kafka.Producer, records: Iterable[Outgoing], timeout_s: float
) -> list[Placed]:
    """See Producer.produce_all; for a transactional producer too."""
    places: dict[int, Placed] = {}
    errors: list[GpuledgerError] = []
    sent = 0
    deadline = time.monotonic() + timeout_s

    def settle(position: int, outcome: Placed | GpuledgerError) -> None:
        if isinstance(outcome, GpuledgerError):
            errors.append(outcome)
        else:
            places[position] = outcome

    def await_sent() -> None:
        while len(places) + len(errors) < sent:
            serve(producer, POLL_S)
            if time.monotonic() > deadline:
                producer.purge()
                serve(producer, 0)
                lost = sent - len(places)
                raise ProducerBroken(f"{lost} of {sent} records not delivered in {timeout_s:g} s")

    for record in records:
        try:
            enqueue(producer, record, partial(settle, sent))
        except BadRecord:
            await_sent()  # those before it were sent, and must be known to be there or not
            raise
        sent += 1
        serve(producer, 0)
    await_sent()
    if errors:
        raise errors[0]
    return [places[position] for position in range(sent)]


def serve(producer: confluent_kafka.Producer, timeout_s: float) -> None:
    """Run callbacks; raises what the client itself broke on."""
    try:
        producer.poll(timeout_s)
    except KafkaException as error:
        raise typed(error, "serving the producer") from error


def discard(producer: confluent_kafka.Producer) -> None:
    """Close it, with what it still holds."""
    producer.purge()
    try:
        producer.poll(0)
        producer.close()
    except (KafkaException, SystemError) as error:
        # confluent-kafka 2.16 ends close() of a fenced producer with a SystemError; it is closed all the same
        _LOGGER.info("closing a producer: %s", error)
