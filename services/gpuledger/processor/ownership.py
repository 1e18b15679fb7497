"""Becoming the owner of a partition, in the order that makes it exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from gpuledger.bus import BusSettings, Incoming, PartitionReader, TransactionalProducer, committed_offsets
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.charging import Configuration
from gpuledger.processor.progress import loaded, told
from gpuledger.processor.progress_writer import ProgressWriter
from gpuledger.processor.protocol import PartitionOwner
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.processor.topics_read import TopicsReader, announcements

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Ownership:
    """A partition's owner, and the producer whose transactional id fences all earlier owners."""

    owner: PartitionOwner
    transactions: TransactionalProducer
    progress: ProgressWriter
    told: dict[str, int] = field(default_factory=dict)
    """Of each topic beside the log, the offset below which all that was refused is told."""
    held: dict[int, tuple[Incoming, RecordHeaders]] = field(default_factory=dict)
    """The records that the owner holds, by offset."""


def committed(
    bus: BusSettings, settings: ProcessorSettings, partitions: Sequence[int]
) -> Mapping[int, int | None]:
    """The offset that the application would go on from, for each partition."""
    application = settings.application
    return committed_offsets(bus, f"{application}-offsets", application, TELEMETRY, partitions)


def take_over(
    partition: int,
    bus: BusSettings,
    settings: ProcessorSettings,
    reader: PartitionReader,
    topics: TopicsReader,
    configuration: Configuration,
) -> Ownership:
    """Fetch the committed offset, fence, read gpu.progress to its end, then gpu.nodes.

    What an owner wrote before it was fenced is then all there, and it writes nothing more. Raises
    Unavailable; then nothing is owned.
    """
    application = settings.application
    position = committed(bus, settings, [partition])[partition]
    if position is None:
        position, _ = reader.bounds(TELEMETRY, partition)
    transactions = TransactionalProducer(bus, f"{application}-progress", f"{application}-{partition}")
    try:
        topics.forget(partition)
        written = list(topics.progress(partition))
        lifetimes = list(topics.lifetimes(partition))
    except BaseException:
        transactions.close()
        raise
    progress = loaded(written)
    owner = PartitionOwner(
        partition,
        position,
        settings.grid,
        settings.rules(),
        progress=progress,
        lifetimes=lifetimes,
        announcements=announcements(configuration.generations),
    )
    _log.info(
        "partition taken over",
        partition=partition,
        position=position,
        nodes=len(owner.nodes),
        windows=sum(len(entry.rows) for entry in progress),
    )
    return Ownership(owner, transactions, ProgressWriter(progress), told(written))
