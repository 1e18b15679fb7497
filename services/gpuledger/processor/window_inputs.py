"""Where the inputs of a window that was closed before are read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import structlog

from gpuledger.archive.log import ArchiveLog
from gpuledger.archive.store import open_store
from gpuledger.bus import Incoming, PartitionReader
from gpuledger.bus.log import Log
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.protocol import WindowTask

_log = structlog.get_logger(__name__)
NEAR_OFFSETS = 2000  # ranges closer than this are fetched in one go: seeking costs more than skipping


class WindowInputs(Protocol):
    """The records of windows by the offsets that gpu.progress holds. Owned by the engine's thread."""

    def read(self, partition: int, windows: Sequence[WindowTask]) -> Iterator[Incoming]:
        """Every record that is still there between the lowest and highest offset of each of ``windows``.

        Records of others may come between. Raises Unavailable.
        """


class KafkaInputs:
    """From gpu.telemetry, as long as its retention keeps them. The reader stays the caller's."""

    def __init__(self, reader: Log) -> None:
        self._reader = reader

    def read(self, partition: int, windows: Sequence[WindowTask]) -> Iterator[Incoming]:
        """See WindowInputs."""
        for low, high in coalesce([window.fetch for window in windows if window.fetch is not None]):
            yield from self._reader.read_range(TELEMETRY, partition, low, high)


class ArchivedInputs:
    """From gpu.telemetry; what retention took there, from an archive. The reader stays the caller's.

    The archive is opened when it is first needed. What it has not either is left out: the owner then keeps
    what it charged. Raises StoreUnavailable, and Refused for the archive of another Kafka cluster.
    """

    def __init__(self, reader: Log, open_archive: Callable[[], Log]) -> None:
        self._reader = reader
        self._open = open_archive
        self._archive: Log | None = None

    def read(self, partition: int, windows: Sequence[WindowTask]) -> Iterator[Incoming]:
        """See WindowInputs."""
        low, _ = self._reader.bounds(TELEMETRY, partition)
        for first, last in coalesce([window.fetch for window in windows if window.fetch is not None]):
            if first < low:
                yield from self._archived(partition, first, min(last, low - 1))
            yield from self._reader.read_range(TELEMETRY, partition, max(first, low), last)

    def _archived(self, partition: int, first: int, last: int) -> list[Incoming]:
        known = self._archive
        if known is not None and last < known.bounds(TELEMETRY, partition)[1]:
            try:
                return list(known.read_range(TELEMETRY, partition, first, last))
            except BadRecord:
                pass  # its files were compacted since
        try:
            self._archive = self._open()
            return list(self._archive.read_range(TELEMETRY, partition, first, last))
        except BadRecord as error:
            _log.error("the archive can not be read", partition=partition, first=first, error=str(error))
            return []


def inputs_of(reader: PartitionReader, archive_url: str | None) -> WindowInputs:
    """From Kafka, and from the archive at a URL where one is given."""
    if not archive_url:
        return KafkaInputs(reader)

    def open_archive() -> Log:
        log = ArchiveLog(open_store(archive_url))
        ours = reader.cluster_id()
        if log.kafka_cluster != ours:
            raise Refused(f"{archive_url} is the archive of Kafka cluster {log.kafka_cluster}, not of {ours}")
        return log

    return ArchivedInputs(reader, open_archive)


def coalesce(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Inclusive offset ranges, joined where they overlap or lie near each other."""
    current: tuple[int, int] | None = None
    for low, high in sorted(spans):
        if current is None:
            current = (low, high)
        elif low <= current[1] + NEAR_OFFSETS:
            current = (current[0], max(current[1], high))
        else:
            yield current
            current = (low, high)
    if current is not None:
        yield current
