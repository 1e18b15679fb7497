"""Asking the warehouse for what restated windows counted, once it has all that came before the tail."""

from __future__ import annotations

from collections.abc import Mapping

from gpuledger.budgets import metrics
from gpuledger.budgets.counting import PartitionCount
from gpuledger.budgets.lines import Replaced, Window
from gpuledger.budgets.replaced import replaced
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.bus import BusSettings, committed_offsets
from gpuledger.contract.errors import Unavailable
from gpuledger.contract.topics import CHARGES
from gpuledger.warehouse import Warehouse, connect


class Questions:
    """A connection that is made when it is first needed. Owned by one thread."""

    def __init__(self, bus: BusSettings, settings: BudgetSettings, warehouse_url: str) -> None:
        self._bus, self._settings, self._url = bus, settings, warehouse_url
        self._warehouse: Warehouse | None = None

    def replaced(self, count: PartitionCount, asked: Mapping[Window, int | None]) -> dict[Window, Replaced]:
        """What ``count.to_ask`` named. Raises Unavailable, also while the sink has not written all of it."""
        group = self._settings.sink_group
        offsets = committed_offsets(self._bus, f"{group}-asked", group, CHARGES, [count.partition])
        written = offsets[count.partition] or 0
        if written < count.tail_offset:
            raise Unavailable(
                f"{len(asked)} windows of partition {count.partition} are restated, and the warehouse lacks "
                f"charges from offset {written} on: is the sink (group {group}) running?"
            )
        if self._warehouse is None:
            self._warehouse = connect(self._url)
        metrics.WINDOWS_ASKED.inc(len(asked))
        return replaced(self._warehouse, asked, count.counters.tail_start_ms)

    def close(self) -> None:
        """Let go of the connection."""
        if self._warehouse is not None:
            self._warehouse.close()
