"""Sending in transactions, as the one owner of an id: gpu.progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException

from gpuledger.bus.access import BusAccess, ClientConfig
from gpuledger.bus.kafka_errors import typed
from gpuledger.bus.records import Outgoing, Placed
from gpuledger.bus.sender import Sender
from gpuledger.bus.topics import CONTIGUOUS
from gpuledger.contract.errors import Fenced, GpuledgerError, ProducerBroken, Refused

TRANSACTION_TIMEOUT_S = 60.0  # the broker aborts the transaction of an owner that fell silent in its middle
REQUEST_TIMEOUT_S = 30.0  # a coordinator that moves takes seconds


class TransactionalProducer:
    """The current owner of `transactional_id`: making one fences whoever had it before.

    `commit` then raises Fenced in the old one, which must stop at once. After any error close it; after
    another one than Fenced make a new one, and send again. Owned by one thread.
    """

    def __init__(self, settings: BusAccess, client_id: str, transactional_id: str) -> None:
        timeout_ms = int(TRANSACTION_TIMEOUT_S * 1000)
        options = ClientConfig(
            {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "delivery.timeout.ms": timeout_ms,
            }
        )
        self.transactional_id = transactional_id
        self._sender = Sender(settings, client_id, options)
        self._ended: GpuledgerError | None = None
        try:
            self._do("taking over", lambda: self._sender.client.init_transactions(REQUEST_TIMEOUT_S))
        except GpuledgerError:
            self.close()
            raise

    def commit(self, records: Iterable[Outgoing]) -> list[Placed]:
        """Write the records in one transaction and await it; returns their places.

        Readers see them some milliseconds later, when the broker has written the markers; the next owner of
        the id waits for that before it owns it.

        Raises Fenced, and Refused for a topic whose offsets must stay contiguous: then none of them is
        there. Raises ProducerBroken where the broker did not answer: then all of them are, or none.
        """
        batch = list(records)
        for record in batch:
            if record.topic in CONTIGUOUS:
                raise Refused(f"no transactions on {record.topic}: their markers leave holes in the offsets")
        if self._ended is not None:
            raise self._ended
        try:
            self._do("beginning", self._sender.client.begin_transaction)
            places = self._sender.send_all(batch, TRANSACTION_TIMEOUT_S)
            self._do("committing", lambda: self._sender.client.commit_transaction(REQUEST_TIMEOUT_S))
        except GpuledgerError as error:
            self._ended = self._after(error)
            raise self._ended from error
        return places

    def close(self) -> None:
        """Let go of the connection; the id stays this one's until another takes it."""
        self._sender.close()

    def _do(self, doing: str, step: Callable[[], object]) -> None:
        try:
            step()
        except KafkaException as error:
            raise typed(error, f"{doing} a transaction of {self.transactional_id}") from error

    def _after(self, error: GpuledgerError) -> GpuledgerError:
        """What an error means for the owner, once the transaction is aborted: often only that tells."""
        if isinstance(error, Fenced):
            return error
        try:
            self._do("aborting", lambda: self._sender.client.abort_transaction(REQUEST_TIMEOUT_S))
        except Fenced as fenced:
            return fenced
        except GpuledgerError:
            return ProducerBroken(str(error))  # the broker aborts it by itself, or the next owner does
        return ProducerBroken(str(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
