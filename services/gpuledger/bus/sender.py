"""librdkafka's producer with typed errors: what Producer and TransactionalProducer share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from gpuledger.bus.access import BusAccess, ClientConfig
from gpuledger.bus.kafka_errors import KAFKA_LOGGER, Complaints, typed
from gpuledger.bus.records import Outgoing, Placed
from gpuledger.bus.topics import MAX_RECORD_BYTES
from gpuledger.contract.errors import BadRecord, GpuledgerError, ProducerBroken

LINGER_MS = 5  # long enough to fill a batch in a burst, short beside the 5 s from window end to row
BATCH_BYTES = 1 << 20  # some windows of a node in one request; larger only adds memory
QUEUE_KIB = 64 << 10  # memory that records in flight may take
POLL_S = 0.1
METADATA_TIMEOUT_S = 10.0  # a broker that is there answers at once
PURGE_S = 2.0  # what was given up is settled by the client itself, at once unless the machine is busy
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

Settled = Callable[[Placed | GpuledgerError], None]


class Sender:
    """Idempotent, all in-sync replicas, zstd, murmur2 like Java's; `options` win. Owned by one thread."""

    def __init__(self, settings: BusAccess, client_id: str, options: ClientConfig) -> None:
        self._complaints = Complaints()
        self.fatal: GpuledgerError | None = None
        """What ended the client: it delivers nothing more."""
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
                **options,
            }
        )
        # with a callback, an error of the client as a whole reaches us with the records that it fails
        self.client = confluent_kafka.Producer(
            {**config, "error_cb": self._complaints},
            logger=KAFKA_LOGGER,
        )

    def enqueue(self, record: Outgoing, settled: Settled) -> None:
        """Queue one record; `settled` gets its place or its error. Blocks while the queue is full."""
        where = record.topic if record.partition is None else f"{record.topic}/{record.partition}"
        doing = f"sending to {where}"

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                settled(Placed(record.topic, int(message.partition() or 0), int(message.offset() or 0)))
            elif error.code() in _PURGED:
                settled(ProducerBroken(f"{doing}: given up{self._complaints}"))
            else:
                settled(typed(error, doing))

        while True:
            try:
                self.client.produce(
                    record.topic,
                    value=record.value,
                    key=record.key,
                    partition=-1 if record.partition is None else record.partition,
                    headers=list(record.headers),
                    on_delivery=delivered,
                )
            except BufferError:
                self.serve(POLL_S)
            except KafkaException as error:
                raise typed(error, doing) from error
            else:
                return

    def send_all(self, records: Iterable[Outgoing], timeout_s: float) -> list[Placed]:
        """See Producer.produce_all."""
        places: dict[int, Placed] = {}
        errors: list[GpuledgerError] = []
        sent = 0
        deadline = time.monotonic() + timeout_s

        def settle(position: int, outcome: Placed | GpuledgerError) -> None:
            if isinstance(outcome, GpuledgerError):
                errors.append(outcome)
            else:
                places[position] = outcome

        def unsettled() -> bool:
            return len(places) + len(errors) < sent

        def await_sent() -> None:
            while unsettled():
                self.serve(POLL_S)
                if self.fatal is not None or time.monotonic() > deadline:
                    self.give_up()
                    break
            else:
                return
            settled_by = time.monotonic() + PURGE_S
            while unsettled() and time.monotonic() < settled_by:
                self.serve(POLL_S)
            lost = (
                f"{sent - len(places)} of {sent} records not delivered in {timeout_s:g} s{self._complaints}"
            )
            raise _telling(errors) or self.fatal or ProducerBroken(lost)

        for record in records:
            try:
                self.enqueue(record, partial(settle, sent))
            except BadRecord:
                await_sent()  # those before it were sent, and must be known to be there or not
                raise
            sent += 1
            self.serve(0)
        await_sent()
        if errors:
            raise _telling(errors) or errors[0]
        return [places[position] for position in range(sent)]

    def serve(self, timeout_s: float) -> None:
        """Run the callbacks of what was settled; waits at most `timeout_s` for the first.

        What ends the client is kept in `fatal`; the records that it fails are settled like any others.
        """
        try:
            self.client.poll(timeout_s)
        except KafkaException as error:
            self.fatal = self.fatal or typed(error, "sending")

    def partitions(self, topic: str) -> int | None:
        """How many partitions a topic has, None where there is none; raises KafkaUnavailable."""
        try:
            # of all topics: asked for one that is not there, a broker may create it
            found = self.client.list_topics(timeout=METADATA_TIMEOUT_S).topics.get(topic)
        except KafkaException as error:
            raise typed(error, f"listing topics{self._complaints}") from error
        return None if found is None else len(found.partitions)

    def give_up(self) -> None:
        """Fail, at once, all that is not settled."""
        self.client.purge()
        self.serve(0)

    def close(self) -> None:
        """Close the client, with what it still holds."""
        self.give_up()
        try:
            self.client.close()
        except (KafkaException, SystemError) as error:
            # confluent-kafka 2.16 ends close() of a fenced producer with a SystemError; it is closed anyhow
            KAFKA_LOGGER.info("closing a producer: %s", error)


def _telling(errors: list[GpuledgerError]) -> GpuledgerError | None:
    """The first error that is a record's own: it says more than what became of the client."""
    return next((error for error in errors if not isinstance(error, ProducerBroken)), None)
