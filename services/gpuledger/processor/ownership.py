"""Becoming the owner of a partition, in the order that makes it exact."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from gpuledger.bus import BusSettings, PartitionReader, TransactionalProducer, committed_offsets
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.charging import Configuration
from gpuledger.processor.progress import loaded
from gpuledger.processor.protocol import PartitionOwner
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.processor.topics_read import TopicsReader, announcements

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Ownership:
    """A partition's owner, and the producer whose transactional id fences all earlier owners."""

    owner: PartitionOwner
    transactions: TransactionalProducer


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
    committed = committed_offsets(bus, f"{application}-offsets", application, TELEMETRY, [partition])[
        partition
    ]
    low, _ = reader.bounds(TELEMETRY, partition)
    transactions = TransactionalProducer(bus, f"{application}-progress", f"{application}-{partition}")
    try:
        progress = loaded(topics.progress(partition))
        topics.forget(partition)
        lifetimes = list(topics.lifetimes(partition))
    except BaseException:
        transactions.close()
        raise
    position = low if committed is None else max(committed, low)
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
    return Ownership(owner, transactions)
