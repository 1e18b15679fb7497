"""The order of work of one round, as a generator of effects.

The shell carries each effect out and answers it; the fault tests stop it at every step. Charges first,
awaited; then progress; then acknowledge, strictly in offset order.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuledger.contract.identity import NodeKey
from gpuledger.processor.protocol.partition import (
    MAX_BYTES_PER_ROUND,
    MAX_WINDOWS_PER_ROUND,
    PartitionOwner,
)
from gpuledger.processor.protocol.values import Batch, LogRecord, WindowTask

Unions = Mapping[tuple[NodeKey, int], Sequence[LogRecord]]


@dataclass(frozen=True, slots=True)
class Gather:
    """Decode the held records of these windows, and read and decode those to be fetched. Answer: Unions."""

    tasks: tuple[tuple[int, WindowTask], ...]  # with the partition


@dataclass(frozen=True, slots=True)
class Publish:
    """Send dead letters and charges, all together, and await them all."""

    batches: tuple[tuple[int, Batch], ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Write the rows to gpu.progress in one transaction; raises Fenced where another owner took over."""

    owner: PartitionOwner
    batch: Batch


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Commit ``offset``: everything below it is finished."""

    partition: int
    offset: int


Effect = Gather | Publish | Progress | Acknowledge


def work(
    owners: Sequence[PartitionOwner],
    limit: int = MAX_WINDOWS_PER_ROUND,
    size_bytes: int = MAX_BYTES_PER_ROUND,
) -> Generator[Effect, Any, int]:
    """One round over all partitions owned; returns how many windows were decided.

    ``limit``: windows of a partition; ``size_bytes``: records of all of them, as they lie in Kafka.
    """
    share_bytes = size_bytes // max(1, len(owners))
    planned = [(owner, tasks) for owner in owners if (tasks := owner.plan(limit, share_bytes))]
    decided = 0
    if planned:
        unions: Unions = yield Gather(tuple((o.partition, task) for o, tasks in planned for task in tasks))
        settled = [(owner, owner.settle(tasks, unions)) for owner, tasks in planned]
        wider = [
            (owner, owner.widened(tasks, batch))
            for (owner, tasks), (_, batch) in zip(planned, settled, strict=True)
        ]
        if sum(len(tasks) for _, tasks in wider) > sum(len(tasks) for _, tasks in planned):
            planned = wider
            unions = yield Gather(tuple((o.partition, task) for o, tasks in planned for task in tasks))
            settled = [(owner, owner.settle(tasks, unions)) for owner, tasks in planned]
        decided = sum(len(batch.decisions) for _, batch in settled)
        yield Publish(tuple((owner.partition, batch) for owner, batch in settled))
        for owner, batch in settled:
            yield Progress(owner, batch)
            owner.commit(batch)
    for owner in owners:
        offset = owner.acknowledgeable()
        if offset is not None:
            yield Acknowledge(owner.partition, offset)
    return decided
