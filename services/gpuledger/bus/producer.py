"""Sending: in order, once, awaited."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import Self

from gpuledger.bus.access import BusAccess, ClientConfig
from gpuledger.bus.records import Outgoing, Placed
from gpuledger.bus.sender import POLL_S, Sender, Settled
from gpuledger.contract.errors import BadRecord, GpuledgerError, ProducerBroken

DELIVERY_TIMEOUT_S = 60.0  # a leader election takes seconds; after a minute the cluster is down


class Producer:
    """An idempotent producer: what it delivers is in the order in which it was sent, each record once.

    It never gives up one record of a partition and goes on with the next. Once something can not be
    delivered it is broken as a whole, and every call raises ProducerBroken: close it, make another, and send
    again from the first record that was not delivered. Owned by one thread; the callbacks of `send` run in
    `send`, `poll`, `flush`, `produce_all` and `close`.
    """

    def __init__(self, settings: BusAccess, client_id: str) -> None:
        # Without an end: a record that timed out by itself would let later ones overtake its repetition.
        # How long to wait is the caller's, and giving up empties the whole queue at once.
        endless = ClientConfig({"delivery.timeout.ms": 0, "enable.gapless.guarantee": True})
        self._sender = Sender(settings, client_id, endless)
        self._broken: ProducerBroken | None = None

    def send(self, record: Outgoing, settled: Settled) -> None:
        """Queue one record; `settled` gets its place or its error. Blocks while the queue is full.

        It stays queued until it is delivered or the producer is closed. Raises BadRecord (over_limit) for a
        record that no broker would take, and ProducerBroken.
        """
        self._check()
        self._sender.enqueue(record, partial(self._settle, settled))

    def produce_all(self, records: Iterable[Outgoing], timeout_s: float = DELIVERY_TIMEOUT_S) -> list[Placed]:
        """Send all together and await them all; places in the order of `records`.

        Raises the first error; some records may have been delivered then. After `timeout_s` it gives up
        (ProducerBroken). Raises BadRecord for a record that no broker would take: those before it are
        delivered, and the producer goes on.
        """
        self._check()
        try:
            return self._sender.send_all(records, timeout_s)
        except BadRecord:
            raise
        except GpuledgerError as error:
            self._broken = error if isinstance(error, ProducerBroken) else ProducerBroken(str(error))
            raise

    def poll(self, timeout_s: float = 0.0) -> None:
        """Run the callbacks of what was settled; waits at most `timeout_s` for the first. Raises nothing."""
        self._sender.serve(timeout_s)
        if self._sender.fatal is not None and self._broken is None:
            self._broken = ProducerBroken(str(self._sender.fatal))

    def partitions(self, topic: str) -> int | None:
        """How many partitions a topic has, None where there is none; raises KafkaUnavailable."""
        return self._sender.partitions(topic)

    def flush(self, timeout_s: float) -> int:
        """Wait until all is settled, at most `timeout_s`; returns how many records are not."""
        deadline = time.monotonic() + timeout_s
        while self.in_flight and (left_s := deadline - time.monotonic()) > 0:
            self.poll(min(left_s, POLL_S))
        return self.in_flight

    @property
    def in_flight(self) -> int:
        """Records queued or sent that are not settled."""
        return len(self._sender.client)

    def close(self) -> None:
        """Give up what is not settled (its callbacks get ProducerBroken); flush first to keep it."""
        self._broken = self._broken or ProducerBroken("the producer is closed")
        self._sender.close()

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
