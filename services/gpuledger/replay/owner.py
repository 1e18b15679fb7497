"""The owner of a partition in a replay: the processor's, bounded to a range of windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gpuledger.contract.identity import NodeKey
from gpuledger.contract.windows import WindowGrid
from gpuledger.processor.protocol import (
    MAX_WINDOWS_PER_ROUND,
    Announcement,
    Lifetime,
    LogRecord,
    NodeProgress,
    PartitionOwner,
    Rules,
    WindowTask,
)
from gpuledger.processor.protocol.partition import MAX_BYTES_PER_ROUND


class RangeOwner(PartitionOwner):
    """Decides the windows that start before ``to_ns``, and no others."""

    def __init__(
        self,
        partition: int,
        position: int,
        grid_of: Callable[[str], WindowGrid],
        rules: Rules,
        to_ns: int,
        *,
        progress: Iterable[NodeProgress],
        lifetimes: Iterable[tuple[NodeKey, Lifetime]],
        announcements: Iterable[Announcement],
    ) -> None:
        self._to_ns = to_ns
        super().__init__(
            partition,
            position,
            grid_of,
            rules,
            progress=progress,
            lifetimes=lifetimes,
            announcements=announcements,
        )

    def plan(
        self, limit: int = MAX_WINDOWS_PER_ROUND, size_bytes: int = MAX_BYTES_PER_ROUND
    ) -> list[WindowTask]:
        """See PartitionOwner."""
        return [task for task in super().plan(limit, size_bytes) if task.window_start_ns < self._to_ns]

    def hear_beyond(self, record: LogRecord) -> None:
        """A record of a window behind the range: it is never computed, and says that the node lived on."""
        self._hold(record)


def gone_on(begun: Iterable[NodeProgress], since: Iterable[NodeProgress]) -> list[NodeProgress]:
    """The same once some of it is computed: what was written since, with the rows of the beginning."""
    found = {entry.node: entry for entry in begun}
    for entry in since:
        first = found.get(entry.node)
        found[entry.node] = replace(entry, rows={**first.rows, **entry.rows}) if first else entry
    return list(found.values())
