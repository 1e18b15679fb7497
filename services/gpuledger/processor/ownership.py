"""Becoming the owner of a partition, in the order that makes it exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from gpuledger.bus import BusSettings, Incoming, PartitionReader, TransactionalProducer, committed_offsets
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.charging import Configuration
from gpuledger.processor.letters import because
from gpuledger.processor.loading import Loading
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
    loading: Loading | None = None
    """What of gpu.progress was written before what is known; None: all is known."""

    @property
    def held_bytes(self) -> int:
        """How much the owner holds."""
        return sum(len(message.value or b"") for message, _ in self.held.values())

    def load(self) -> list[tuple[Incoming, BadRecord]]:
        """Take a record more of what is loading; with the last one the owner learns all of it.

        Returns what it then finds to be too old: for dead letters, awaited, before anything is acknowledged.
        """
        if self.loading is not None:
            self.loading.go_on()
        return self.learn()

    def learn(self) -> list[tuple[Incoming, BadRecord]]:
        """Let the owner know what was loaded, once that is all; see ``load``."""
        if self.loading is None or not self.loading.is_done:
            return []
        nodes = list(self.loading.history.nodes())
        self.told.update(self.loading.told)
        self.progress.know(nodes)
        self.loading = None
        too_old = self.owner.complete(nodes)
        _log.info(
            "history loaded",
            partition=self.owner.partition,
            nodes=len(nodes),
            windows=sum(len(packed.starts) for node in nodes for packed in node.hours),
        )
        return [(self.held.pop(record.offset)[0], because("too_old")) for record in too_old]


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
    """Fetch the committed offset, fence, read the end of gpu.progress, then gpu.nodes.

    What an owner wrote before it was fenced is then all there, and it writes nothing more: so the rest of
    gpu.progress may be read later (``Ownership.load``), and what needs it waits. Raises Unavailable; then
    nothing is owned.
    """
    application = settings.application
    position = committed(bus, settings, [partition])[partition]
    if position is None:
        position, _ = reader.bounds(TELEMETRY, partition)
    transactions = TransactionalProducer(bus, f"{application}-progress", f"{application}-{partition}")
    try:
        topics.forget(partition)
        loading = Loading(topics, partition, settings.history_step)
        loading.step()
        lifetimes = list(topics.lifetimes(partition))
    except BaseException:
        transactions.close()
        raise
    owner = PartitionOwner(
        partition,
        position,
        settings.grid,
        settings.rules(),
        progress=() if loading.is_done else loading.history.recent(),
        lifetimes=lifetimes,
        announcements=announcements(configuration.generations),
        whole=False,
    )
    _log.info("partition taken over", partition=partition, position=position, nodes=len(owner.nodes))
    ownership = Ownership(owner, transactions, ProgressWriter(), loading=loading)
    ownership.learn()
    return ownership
