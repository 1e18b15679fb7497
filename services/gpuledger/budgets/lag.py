"""How far counting is behind, for /metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpuledger.budgets import metrics
from gpuledger.bus import Incoming
from gpuledger.contract.clock import NS_PER_S, Clock

MS_PER_S = 1_000


class Lag:
    """Shows up to when each partition is counted. It does not move while a worker hangs: its age tells."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shown: set[int] = set()
        self._next_offset: dict[int, int] = {}

    def own(self, partitions: Collection[int]) -> None:
        """Show these and no others; one that is new, once something is known of it."""
        for partition in self._shown.difference(partitions):
            metrics.CAUGHT_UP_SECONDS.remove(str(partition))
        self._shown.intersection_update(partitions)
        self._next_offset.clear()

    def counted(self, records: Iterable[Incoming]) -> None:
        """These are counted or refused, in the order of their offsets."""
        for record in records:
            self._next_offset[record.partition] = record.offset + 1
            self._show(record.partition, record.timestamp_ms / MS_PER_S)

    def look(self, partition: int, position: int, bounds: tuple[int, int]) -> None:
        """All below ``position`` was counted before; ``bounds`` as the partition has them now."""
        first, end = bounds
        if max(first, position, self._next_offset.get(partition, 0)) >= end:
            self._show(partition, self._clock.unix_ns() / NS_PER_S)

    def _show(self, partition: int, unix_s: float) -> None:
        self._shown.add(partition)
        metrics.CAUGHT_UP_SECONDS.labels(str(partition)).set(unix_s)
