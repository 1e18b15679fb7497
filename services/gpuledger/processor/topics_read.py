"""What a processor reads besides its records: configuration, generations, lifetimes, progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from gpuledger.bus import Incoming, PartitionReader, SchemaRegistry
from gpuledger.contract import topics
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import (
    Generation,
    NodeLifetime,
    NodeProgress,
    PriceBookVersion,
    TeamMapVersion,
    decode_as,
)
from gpuledger.contract.wire import unframe
from gpuledger.pricing import Prices, Teams
from gpuledger.processor.charging import Configuration
from gpuledger.processor.protocol import Announcement, Lifetime
from gpuledger.processor.reading import NS_PER_MS

R = TypeVar("R")


class TopicsReader:
    """Reads topics from where it last stopped to their ends. Owned by the engine's thread.

    A record of these topics that can not be read is an error of whoever wrote it, and going on without it
    would charge wrongly: BadRecord is raised and stops the worker.
    """

    def __init__(self, reader: PartitionReader, registry: SchemaRegistry) -> None:
        self._reader = reader
        self._registry = registry
        self._next: dict[tuple[str, int], int] = {}
        self._prices: dict[int, PriceBookVersion] = {}
        self._teams: dict[int, TeamMapVersion] = {}
        self._generations: dict[int, Generation] = {}
        self._configuration: Configuration | None = None

    def configuration(self) -> Configuration:
        """Every version of prices and teams, and every generation, as of now."""
        found = False
        for price in self._new(topics.PRICES, 0, PriceBookVersion):
            self._prices.setdefault(price.version, price)  # of two with one number the first holds
            found = True
        for team in self._new(topics.TEAMS, 0, TeamMapVersion):
            self._teams.setdefault(team.version, team)
            found = True
        for generation in self._new(topics.GENERATIONS, 0, Generation):
            self._generations.setdefault(generation.number, generation)
            found = True
        if self._configuration is None or found:
            self._configuration = Configuration(
                Prices(self._prices.values()), Teams(self._teams.values()), dict(self._generations)
            )
        return self._configuration

    def forget(self, partition: int) -> None:
        """Read the partition's topics from their beginnings next time: it has a new owner."""
        self._next.pop((topics.NODES, partition), None)

    def lifetimes(self, partition: int) -> Iterator[tuple[NodeKey, Lifetime]]:
        """What gpu.nodes says since it was last read."""
        for message, record in self._new_with_message(topics.NODES, partition, NodeLifetime):
            told_ns = message.timestamp_ms * NS_PER_MS if record.ended_ns is not None else None
            yield (
                NodeKey(record.cluster, record.node),
                Lifetime(record.launched_ns, record.ended_ns, told_ns, record.layout.instance_id),
            )

    def progress(self, partition: int) -> Iterator[NodeProgress]:
        """All of gpu.progress of a partition, read committed, to its end."""
        for message in self._reader.read_to_end(topics.PROGRESS, partition):
            if message.value is not None:
                yield self._decode(NodeProgress, message)

    def _new(self, topic: str, partition: int, cls: type[R]) -> Iterator[R]:
        for _, record in self._new_with_message(topic, partition, cls):
            yield record

    def _new_with_message(self, topic: str, partition: int, cls: type[R]) -> Iterator[tuple[Incoming, R]]:
        first = self._next.get((topic, partition))
        for message in self._reader.read_to_end(topic, partition, first):
            if message.value is not None:
                yield message, self._decode(cls, message)
            self._next[topic, partition] = message.offset + 1

    def _decode(self, cls: type[R], message: Incoming) -> R:
        schema_id, body = unframe(message.value or b"")
        writer: Mapping[str, Any] = self._registry.schema(schema_id)
        return decode_as(cls, body, writer)


def announcements(generations: Mapping[int, Generation]) -> list[Announcement]:
    """The generations as the protocol sees them, by number."""
    return [
        Announcement(g.number, g.from_ns, g.to_ns, frozenset(g.clusters))
        for _, g in sorted(generations.items())
    ]
