"""What may be read by offsets: topics of a Kafka, or of an archive of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from gpuledger.bus.records import Incoming


class Log(Protocol):
    """Partitions of records with ascending offsets. Owned by one thread; closed by who made it.

    Every method raises Unavailable where nothing answers, ConfigError for a topic that is not there.
    """

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that is still there, and the offset behind the last record."""

    def offset_at(self, topic: str, partition: int, unix_ns: int) -> int:
        """The first offset appended at or after that instant (ns since the Unix epoch); the end if none."""

    def read_to_end(self, topic: str, partition: int, first: int | None = None) -> Iterator[Incoming]:
        """Every record from ``first`` (the first one there) to the end as it is at the call."""

    def read_range(self, topic: str, partition: int, first: int, last: int) -> Iterator[Incoming]:
        """Every record with an offset in [first, last] that is still there."""


class Schemas(Protocol):
    """The schemas that records were written with."""

    def schema(self, schema_id: int) -> Mapping[str, Any]:
        """The parsed schema of an id. Raises BadRecord where it is not known, Unavailable."""
