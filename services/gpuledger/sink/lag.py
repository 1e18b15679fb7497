"""How far the sink is behind, for /metrics."""

from __future__ import annotations

from collections.abc import Iterable

from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.sink import metrics
from gpuledger.sink.batcher import Batch
from gpuledger.sink.source import Source

SHOW_EVERY_S = 1  # far below any scrape interval, and far above what it costs
MS_PER_S = 1_000
NS_PER_MS = 1_000_000


class Lag:
    """Shows the lag of what is owned. Called in the thread that owns the source."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shown_ns: int | None = None
        self._partitions: set[int] = set()

    def show(self, source: Source, waiting: Iterable[Batch]) -> None:
        """Bring the gauges up to date, if it is time; ``waiting`` is what is read and not acknowledged."""
        now_ns = self._clock.boot_ns()
        if self._shown_ns is not None and now_ns - self._shown_ns < SHOW_EVERY_S * NS_PER_S:
            return
        self._shown_ns = now_ns
        positions = source.positions()
        for partition in self._partitions - positions.keys():
            metrics.COMMITTED_OFFSET.remove(str(partition))
            metrics.LAG_RECORDS.remove(str(partition))
        self._partitions = set(positions)
        for partition, position in positions.items():
            metrics.COMMITTED_OFFSET.labels(str(partition)).set(position.committed)
            metrics.LAG_RECORDS.labels(str(partition)).set(max(0, position.end - position.committed))
        taken_ms = [arrival.received_ms for batch in waiting for arrival in batch.arrivals]
        age_ms = self._clock.unix_ns() // NS_PER_MS - min(taken_ms) if taken_ms else 0
        metrics.LAG_SECONDS.set(max(0, age_ms) / MS_PER_S)
