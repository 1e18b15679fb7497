"""The thread that sends the queue to Kafka, in order, and never gives a record up.

When the broker or the registry is away it waits and tries again. When a producer breaks it is replaced, and
everything that was not delivered is sent again from the first such record: repeats are harmless, since a
record is known by its identity (cluster, node, epoch, sequence) wherever it lies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpuledger.agent import metrics
from gpuledger.agent.spool import NodeQueue, Ticket
from gpuledger.bus import (
    BusAccess,
    Outgoing,
    Placed,
    Producer,
    SchemaRegistry,
    partition_for_node,
    register,
)
from gpuledger.contract.errors import BadRecord, GpuledgerError, KafkaUnavailable, Unavailable
from gpuledger.contract.topics import topic_of
from gpuledger.contract.wire import frame
from gpuledger.logs import EventLog

MAX_FLYING = 256  # records; a round trip takes milliseconds, more would only be sent twice after a break
MAX_FLYING_BYTES = 4 << 20  # queue, record and client hold each byte: after an outage there is much to send
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
IDLE_S = 0.5  # how soon a stop is heard; a record that comes wakes it at once
DRAIN_S = 0.1
STOP_S = 5.0  # a thread that waits for a broker's answer longer than that is left behind: it sends no more
POLL_S = 0.02
REGISTRY_RETRY_S = 1.0  # the pause is ours, so that a stop is heard within a second

_log = EventLog(__name__)


class Publisher:
    """Sends until stopped. Owns the producer and the registry client; borrows the queue."""

    def __init__(self, settings: BusAccess, queue: NodeQueue, client_id: str) -> None:
        self._settings = settings
        self._queue = queue
        self._client_id = client_id
        self._stop = threading.Event()
        self._broken: GpuledgerError | None = None
        self._flying_bytes = 0
        self._partitions: dict[str, int] = {}
        self._topic = ""  # of the record that was handed over last
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def drain(self, timeout_s: float, sleep: Callable[[float], None]) -> bool:
        """Wait until Kafka has everything; False where it has not after that time."""
        waited = 0.0
        while not self._queue.is_empty and waited < timeout_s:
            sleep(DRAIN_S)
            waited += DRAIN_S
        return self._queue.is_empty

    def stop(self) -> None:
        """End the thread; what is not delivered stays in the queue."""
        self._stop.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        with SchemaRegistry(self._settings, retry_for_s=REGISTRY_RETRY_S) as registry:
            while not self._stop.is_set():
                try:
                    self._send(registry)
                    pause_s = FIRST_PAUSE_S
                except (Unavailable, OSError) as error:
                    metrics.PUBLISH_ERRORS.inc()
                    _log.warning("kafka_or_registry_away", error=str(error), retry_in_s=pause_s)
                    self._stop.wait(pause_s)
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                except GpuledgerError as error:
                    metrics.PUBLISH_ERRORS.inc()
                    _log.error("publishing_refused", error=str(error), retry_in_s=LONGEST_PAUSE_S)
                    self._stop.wait(LONGEST_PAUSE_S)
                finally:
                    self._queue.rewind()

    def _send(self, registry: SchemaRegistry) -> None:
        """Send with one producer until it breaks or the thread is stopped."""
        self._broken = None
        self._flying_bytes = 0
        with Producer(self._settings, self._client_id) as producer:
            while not self._stop.is_set():
                producer.poll(POLL_S if self._has_much_flying(producer) else 0)
                if self._broken is not None:
                    raise self._broken
                if self._has_much_flying(producer):
                    continue
                ticket = self._queue.take(POLL_S if producer.in_flight else IDLE_S)
                if ticket is not None:
                    self._hand_over(producer, registry, ticket)

    def _has_much_flying(self, producer: Producer) -> bool:
        return producer.in_flight >= MAX_FLYING or self._flying_bytes >= MAX_FLYING_BYTES

    def _hand_over(self, producer: Producer, registry: SchemaRegistry, ticket: Ticket) -> None:
        def settled(outcome: Placed | GpuledgerError) -> None:
            self._flying_bytes -= ticket.entry.size
            if isinstance(outcome, GpuledgerError):
                self._broken = self._broken or outcome
            else:
                self._queue.acknowledge(ticket)
                metrics.RECORDS_DELIVERED.labels(ticket.entry.record).inc()

        entry = ticket.entry
        topic = topic_of(entry.record)
        if topic != self._topic:
            self._await_all(producer)  # order holds across topics too: a life is stated before its goodbye
            self._topic = topic
        record = Outgoing(
            topic=topic,
            key=entry.key,
            value=frame(register(registry, entry.record), entry.body),
            headers=entry.headers,
            partition=self._partition(producer, topic, entry.node_key) if entry.node_key else None,
        )
        self._flying_bytes += entry.size
        try:
            producer.send(record, settled)
        except BadRecord as error:
            self._flying_bytes -= entry.size
            # no broker will ever take it: it is lost, its window shows the missing part, and the rest goes on
            metrics.RECORDS_REFUSED.inc()
            _log.error("record_refused", record=entry.record, bytes=len(entry.body), error=str(error))

    def _await_all(self, producer: Producer) -> None:
        while producer.in_flight and not self._stop.is_set():
            producer.poll(POLL_S)
            if self._broken is not None:
                raise self._broken

    def _partition(self, producer: Producer, topic: str, node_key: bytes) -> int:
        if topic not in self._partitions:
            count = producer.partitions(topic)
            if not count:
                raise KafkaUnavailable(f"there is no topic {topic}: run gpuledger topics apply")
            self._partitions[topic] = count
        return partition_for_node(node_key, self._partitions[topic])
