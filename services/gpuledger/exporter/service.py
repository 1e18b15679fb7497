"""The warehouse is asked once an interval, whoever scrapes and how often; scrapes get what it last told.

While the warehouse is away its last answer stands for KEEP_INTERVALS, then there are no values: a graph with
a hole is right, a line at zero is not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import WarehouseError, WarehouseUnavailable
from gpuledger.exporter import metrics
from gpuledger.exporter.budgets import ask_budgets, budget_families
from gpuledger.exporter.families import MS_PER_S, NS_PER_MS, Limits, families
from gpuledger.exporter.question import ask
from gpuledger.logs import EventLog
from gpuledger.warehouse import Warehouse

DEFAULT_INTERVAL_S = 60.0  # money that is a minute old is news; a query of an hour's windows costs seconds
KEEP_INTERVALS = 3  # one lost answer is no hole

log = EventLog("gpuledger.exporter")


class Exporter(Collector):
    """A collector to register. ``connect`` makes the connection, which the thread that calls ``run`` owns."""

    def __init__(
        self, connect: Callable[[], Warehouse], clock: Clock, interval_s: float, limits: Limits
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._interval_s = interval_s
        self._limits = limits
        self._warehouse: Warehouse | None = None
        self._told: tuple[int, Sequence[Metric]] = (0, ())

    def collect(self) -> Iterator[Metric]:
        """The last answer, unless it is too old."""
        at_ns, told = self._told
        if self._clock.boot_ns() - at_ns <= KEEP_INTERVALS * self._interval_s * NS_PER_S:
            yield from told

    def describe(self) -> Iterator[Metric]:
        """Nothing, so that registering it asks nobody."""
        return iter(())

    def run(self, stop: threading.Event) -> None:
        """Ask each interval until ``stop``; a warehouse that is away, or refuses, is asked again."""
        while not stop.is_set():
            began_ns = self._clock.boot_ns()
            self.refresh()
            took_s = (self._clock.boot_ns() - began_ns) / NS_PER_S
            metrics.QUERY_SECONDS.set(took_s)
            stop.wait(max(0.0, self._interval_s - took_s))
        self._disconnect()

    def refresh(self) -> None:
        """Ask once."""
        now_ns = self._clock.unix_ns()
        try:
            if self._warehouse is None:
                self._warehouse = self._connect()
            rows = ask(self._warehouse, now_ns)
            breached = ask_budgets(self._warehouse, now_ns // NS_PER_S)
        except (WarehouseUnavailable, WarehouseError) as error:
            log.warning("no answer", why=str(error))
            metrics.WAREHOUSE_UP.set(0)
            self._disconnect()
            return
        told = [
            *families(rows, now_ns // NS_PER_MS, self._limits),
            *budget_families(breached, self._limits.budgets),
        ]
        self._told = (self._clock.boot_ns(), told)
        metrics.WAREHOUSE_UP.set(1)
        metrics.ANSWERED.set(now_ns // NS_PER_MS / MS_PER_S)

    def _disconnect(self) -> None:
        if self._warehouse is not None:
            self._warehouse.close()
            self._warehouse = None
