"""A topic of numbered records, read as it grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from gpuledger.bus import BusAccess, PartitionReader, SchemaRegistry, unframed
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import BadRecord, NoTopic
from gpuledger.contract.topics import topic_of

R = TypeVar("R")
PARTITION = 0  # numbers have one order


class NumberedTopic(Generic[R]):
    """The records of one kind by their number; of two with one number the first holds.

    Used by one thread, which connects at its first reading; closed by any. A record that can not be read is
    passed over: who answers for the topic tells it.
    """

    def __init__(self, bus: BusAccess, clock: Clock, record: type[R], number_of: Callable[[R], int]) -> None:
        self._bus = bus
        self._clock = clock
        self._record = record
        self._number_of = number_of
        self._client_id = f"gpuledger-numbered-{record.__name__}"
        self._reader: PartitionReader | None = None
        self._registry: SchemaRegistry | None = None
        self._known: dict[int, R] = {}
        self._next = 0  # offset

    @property
    def known(self) -> Mapping[int, R]:
        """What was read so far."""
        return self._known

    @property
    def connected(self) -> bool:
        """Whether it was read since it was made, or closed."""
        return self._reader is not None

    def read(self) -> None:
        """Read on to the end as it is now. A topic that is not there has no records. Raises Unavailable."""
        if self._reader is None or self._registry is None:
            self._reader = PartitionReader(self._bus, self._client_id)
            self._registry = SchemaRegistry(self._bus, self._clock)
        try:
            for message in self._reader.read_to_end(topic_of(self._record.__name__), PARTITION, self._next):
                try:
                    found = unframed(self._record, message.value, self._registry)
                    self._known.setdefault(self._number_of(found), found)
                except BadRecord:
                    pass
                self._next = message.offset + 1  # not before: what no registry tells now is read again
        except NoTopic:
            pass

    def close(self) -> None:
        """Let go of the connections."""
        if self._reader is not None:
            self._reader.close()
        if self._registry is not None:
            self._registry.close()
        self._reader = self._registry = None
