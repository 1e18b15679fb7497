"""The archiver: from where the manifest ends, every record into a commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from gpuledger.archive import metrics
from gpuledger.archive.buffer import Buffer
from gpuledger.archive.log import IDENTITY, chain_of
from gpuledger.archive.schemas import SchemaKeeper
from gpuledger.archive.source import Deleted, Place, Source
from gpuledger.archive.store import Store
from gpuledger.archive.writing import commit, lost_to_retention, write_run
from gpuledger.bus import BusSettings, PartitionReader, SchemaRegistry
from gpuledger.contract import topics
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import Refused

ARCHIVED = (
    topics.TELEMETRY,
    topics.NODES,
    topics.PRICES,
    topics.TEAMS,
    topics.BUDGETS,
    topics.PERIODS,
    topics.GENERATIONS,
    topics.DEAD_LETTERS,
)
POLL_S = 0.5
COMMIT_BYTES = 32 << 20  # of a partition, before compression: large enough to read fast, small enough to hold
HELD_BYTES = 64 << 20  # of all partitions; then the largest is committed early
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Archived:
    """How much was committed."""

    commits: int = 0
    records: int = 0


class Archiver:
    """Copies the input topics of one Kafka cluster. Owned by one thread; raises Unavailable, Refused.

    After any error make another: it goes on from the manifest. ``every_s`` is how long a record waits to be
    committed.
    """

    def __init__(self, bus: BusSettings, store: Store, clock: Clock, every_s: float = 60.0) -> None:
        self._store = store
        self._clock = clock
        self._every_ns = int(every_s * NS_PER_S)
        self._source = Source(bus)
        self._reader = PartitionReader(bus, "gpuledger-archive")
        self._registry = SchemaRegistry(bus, clock)
        self._schemas = SchemaKeeper(store, self._registry)
        self._buffers: dict[Place, Buffer] = {}
        self.total = Archived()

    def run(self, stopped: Callable[[], bool], once: bool = False) -> Archived:
        """Archive until ``stopped``, or ``once`` all that lies there at the call; returns how much."""
        self._identify()
        ends = self._begin()
        while not stopped():
            self._take()
            if once and all(self._buffers[place].end >= end for place, end in ends.items()):
                break
        self._flush(lambda _: True)
        return self.total

    def close(self) -> None:
        """Close the connections."""
        self._source.close()
        self._reader.close()
        self._registry.close()

    def _identify(self) -> None:
        """An archive holds the offsets of one Kafka cluster; those of another would pass for them."""
        partitions = {topic: self._reader.partitions(topic) for topic in ARCHIVED}
        ours = {"format": 1, "kafka_cluster": self._reader.cluster_id(), "partitions": partitions}
        try:
            self._store.create(IDENTITY, json.dumps(ours).encode() + b"\n")
        except FileExistsError:
            theirs = json.loads(self._store.get(IDENTITY))
            known = theirs.get("partitions", {})  # they are fixed for good
            if {**theirs, "partitions": {**partitions, **known}} != ours:
                raise Refused(
                    f"{self._store.url} is the archive of Kafka cluster {theirs.get('kafka_cluster')}, "
                    f"and this is {ours['kafka_cluster']}; give another URL"
                ) from None
            if known != partitions:  # it was begun before there was one of the topics
                self._store.put(IDENTITY, json.dumps(ours).encode() + b"\n")

    def _begin(self) -> dict[Place, int]:
        """Go on from the manifest; the last readable offset of each partition, as of now."""
        ends: dict[Place, int] = {}
        for topic in ARCHIVED:
            for partition in range(self._reader.partitions(topic)):
                low, high = self._reader.bounds(topic, partition)
                position = chain_of(self._store, topic, partition).end
                if position is not None and position > high:
                    raise Refused(
                        f"{topic}/{partition} ends at {high} and was archived up to {position}: "
                        "the topic was made anew; archive it to another place"
                    )
                self._buffers[topic, partition] = Buffer(low if position is None else position)
                self._skip_lost((topic, partition), low)
                last = self._last_record(topic, partition, high)
                if last >= self._buffers[topic, partition].first:
                    ends[topic, partition] = last + 1
        self._assign()
        return ends

    def _last_record(self, topic: str, partition: int, high: int) -> int:
        """The offset of the last record; marks of transactions may lie behind it. -1 without any."""
        for span in (1, 100, high):
            found = [
                r.offset for r in self._reader.read_range(topic, partition, max(0, high - span), high - 1)
            ]
            if found:
                return found[-1]
        return -1

    def _assign(self) -> None:
        self._source.go_on_from({place: buffer.end for place, buffer in self._buffers.items()})

    def _skip_lost(self, place: Place, low: int) -> None:
        buffer = self._buffers[place]
        if buffer.records or low <= buffer.first:
            return
        _log.error("retention took records that were not archived", place=place, first=buffer.first, end=low)
        commit(self._store, lost_to_retention(*place, buffer.first, low))
        metrics.LOST.labels(place[0]).inc(low - buffer.first)
        self._buffers[place] = Buffer(low)

    def _take(self) -> None:
        try:
            records = self._source.poll(POLL_S)
        except Deleted as error:
            gone = error.place
            self._flush(lambda place: place == gone)
            self._skip_lost(gone, self._reader.bounds(*gone)[0])
            self._assign()
            return
        now_ns = self._clock.boot_ns()
        for record in records:
            place = record.topic, record.partition
            if record.offset < self._buffers[place].end:
                continue
            if not self._buffers[place].fits(record):
                self._commit(place)
            self._buffers[place].add(record, now_ns)
        self._flush(lambda place: self._is_due(self._buffers[place], now_ns))
        while sum(buffer.size_bytes for buffer in self._buffers.values()) > HELD_BYTES:
            self._commit(max(self._buffers, key=lambda place: self._buffers[place].size_bytes))

    def _is_due(self, buffer: Buffer, now_ns: int) -> bool:
        return buffer.size_bytes >= COMMIT_BYTES or now_ns - buffer.since_ns >= self._every_ns

    def _flush(self, chosen: Callable[[Place], bool]) -> None:
        for place, buffer in self._buffers.items():
            if buffer.records and chosen(place):
                self._commit(place)

    def _commit(self, place: Place) -> None:
        """Schemas, files, then the manifest: what it names is always there."""
        buffer = self._buffers[place]
        self._schemas.keep(buffer.records)
        entry = write_run(self._store, buffer.records, buffer.first, buffer.end)
        commit(self._store, entry)
        buffer.clear()
        self.total = Archived(self.total.commits + 1, self.total.records + entry.records)
        metrics.AWAY.set(0)
        metrics.COMMITS.labels(place[0]).inc()
        metrics.RECORDS.labels(place[0]).inc(entry.records)
        _log.info("archived", topic=place[0], partition=place[1], first=entry.first, records=entry.records)
