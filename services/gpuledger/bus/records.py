"""A record on its way to Kafka, where it came to lie, and a record read."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Outgoing(NamedTuple):
    """A record to be sent; `value` is framed Avro, None a tombstone.

    `partition` None: the key's, by murmur2.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


class Placed(NamedTuple):
    """Where the broker put a record."""

    topic: str
    partition: int
    offset: int


class Incoming(NamedTuple):
    """A record read; `timestamp_ms` is the broker's append time (ms since the Unix epoch), -1 if unknown."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def place(self) -> Placed:
        """Topic, partition and offset."""
        return Placed(self.topic, self.partition, self.offset)
