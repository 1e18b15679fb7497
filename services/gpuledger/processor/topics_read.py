"""What a processor reads besides its records: configuration, generations, lifetimes, progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

import structlog

from gpuledger.attribution import Policy
from gpuledger.bus import Incoming, partition_for_node, unframed
from gpuledger.bus.log import Log, Schemas
from gpuledger.contract import topics
from gpuledger.contract.errors import BadRecord, GpuledgerError
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import (
    Generation,
    NodeLifetime,
    NodeProgress,
    PriceBookVersion,
    TeamMapVersion,
)
from gpuledger.contract.windows import DAY_NS, FIRST_LAUNCH_NS
from gpuledger.pricing import PriceBook, Prices, TeamMap, Teams
from gpuledger.processor.charging import Configuration
from gpuledger.processor.protocol import Announcement, Lifetime
from gpuledger.processor.reading import NS_PER_MS

R = TypeVar("R")
_log = structlog.get_logger(__name__)


class Refuses(Protocol):
    """Who keeps what was refused; it stays the caller's."""

    def add(self, message: Incoming, error: BadRecord) -> None:
        """A record was refused, perhaps once more."""

    def forget(self, topic: str, partition: int) -> None:
        """It is read from its beginning next time."""


class TopicsReader:
    """Reads topics from where it last stopped to their ends. Owned by the engine's thread.

    A record that can not be read or understood goes to ``refusals`` and is passed over: what it would have
    said is not known, which must not keep all others from being charged.
    """

    def __init__(self, reader: Log, registry: Schemas, refusals: Refuses) -> None:
        self._reader = reader
        self._registry = registry
        self._refusals = refusals
        self._partitions: int | None = None
        self._next: dict[tuple[str, int], int] = {}
        self._prices: dict[int, PriceBookVersion] = {}
        self._teams: dict[int, TeamMapVersion] = {}
        self._generations: dict[int, Generation] = {}
        self._configuration: Configuration | None = None

    def configuration(self) -> Configuration:
        """Every version of prices and teams, and every generation, as of now."""
        # What is read makes the last one outdated, also where a later topic can not be read now.
        # First: what a generation pins was published before it, and is found below.
        for generation in self._new(topics.GENERATIONS, 0, Generation):
            self._generations.setdefault(generation.number, generation)
            self._configuration = None
        for price in self._new(topics.PRICES, 0, PriceBookVersion):
            self._prices.setdefault(price.version, price)  # of two with one number the first holds
            self._configuration = None
        for team in self._new(topics.TEAMS, 0, TeamMapVersion):
            self._teams.setdefault(team.version, team)
            self._configuration = None
        if self._configuration is None:
            self._configuration = Configuration(
                Prices(self._prices.values()), Teams(self._teams.values()), self._known_generations()
            )
        return self._configuration

    @property
    def price_versions(self) -> list[PriceBookVersion]:
        """The documents of the price book that were read."""
        return list(self._prices.values())

    @property
    def team_versions(self) -> list[TeamMapVersion]:
        """The documents of the team map that were read."""
        return list(self._teams.values())

    def forget(self, partition: int) -> None:
        """Read the topics that the partition's owner answers for from their beginnings next time."""
        answered = [(topics.NODES, partition), (topics.PROGRESS, partition)]
        if partition == 0:
            answered += [(topic, 0) for topic in (topics.PRICES, topics.TEAMS, topics.GENERATIONS)]
        for place in answered:
            self._next.pop(place, None)
            self._refusals.forget(*place)

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
            record = self._read(NodeProgress, message)
            if record is not None:
                yield record

    def progress_bounds(self, partition: int) -> tuple[int, int]:
        """The first offset of gpu.progress that is still there, and the one behind the last."""
        return self._reader.bounds(topics.PROGRESS, partition)

    def progress_between(self, partition: int, first: int, end: int) -> list[Incoming]:
        """What of gpu.progress lies in [first, end), read committed."""
        return list(self._reader.read_range(topics.PROGRESS, partition, first, end - 1))

    def progress_in(self, message: Incoming) -> NodeProgress | None:
        """The record; None where it is a tombstone, or was refused."""
        return self._read(NodeProgress, message)

    def _known_generations(self) -> dict[int, Generation]:
        """Those that pin versions which are there; the others wait for theirs."""
        known = {}
        for number, generation in self._generations.items():
            if generation.price_version in {0, *self._prices} and generation.team_version in {
                0,
                *self._teams,
            }:
                known[number] = generation
            else:
                _log.error("a generation pins a version that is not there", generation=number)
        return known

    def _new(self, topic: str, partition: int, cls: type[R]) -> Iterator[R]:
        for _, record in self._new_with_message(topic, partition, cls):
            yield record

    def _new_with_message(self, topic: str, partition: int, cls: type[R]) -> Iterator[tuple[Incoming, R]]:
        first = self._next.get((topic, partition))
        for message in self._reader.read_to_end(topic, partition, first):
            record = self._read(cls, message)
            if record is not None:
                yield message, record
            self._next[topic, partition] = message.offset + 1

    def _read(self, cls: type[R], message: Incoming) -> R | None:
        """The record; None where it is a tombstone, or was refused."""
        if message.value is None:
            return None
        try:
            record = unframed(cls, message.value, self._registry)
            _check(record)
            if isinstance(record, NodeLifetime):
                self._check_place(record, message)
        except BadRecord as error:
            self._refusals.add(message, error)
            return None
        return record

    def _check_place(self, record: NodeLifetime, message: Incoming) -> None:
        """A statement in another partition than its node's would make a second owner charge that node."""
        if self._partitions is None:
            self._partitions = self._reader.partitions(topics.NODES)
        key = NodeKey(record.cluster, record.node).checked().key
        if partition_for_node(key, self._partitions) != message.partition:
            raise BadRecord("wrong_partition", f"{key.decode()} belongs to another partition", "node")
        if record.launched_ns is not None and record.launched_ns > message.timestamp_ms * NS_PER_MS + DAY_NS:
            raise BadRecord("bad_meaning", "a launch in the future", "launched_ns")


def _check(record: object) -> None:
    """Raise BadRecord where a record is well-formed and can not be used."""
    try:
        if isinstance(record, PriceBookVersion):
            PriceBook(record)
        elif isinstance(record, TeamMapVersion):
            for rule in TeamMap(record).policies:
                Policy(rule.burst, rule.entitlement, rule.mig, rule.idle)
        elif isinstance(record, Generation):
            Policy(**record.policy)
    except (GpuledgerError, ArithmeticError, TypeError, ValueError) as error:
        raise BadRecord("bad_meaning", str(error)) from error
    if isinstance(record, NodeLifetime):
        launched_ns, ended_ns = record.launched_ns, record.ended_ns
        if launched_ns is not None and launched_ns < FIRST_LAUNCH_NS:
            raise BadRecord("bad_meaning", f"a launch at {launched_ns} ns, before 2015", "launched_ns")
        if ended_ns is not None and ended_ns < (FIRST_LAUNCH_NS if launched_ns is None else launched_ns):
            raise BadRecord("bad_meaning", "it ended before it began", "ended_ns")


def announcements(generations: Mapping[int, Generation]) -> list[Announcement]:
    """The generations as the protocol sees them, by number."""
    return [
        Announcement(g.number, g.from_ns, g.to_ns, frozenset(g.clusters))
        for _, g in sorted(generations.items())
    ]
