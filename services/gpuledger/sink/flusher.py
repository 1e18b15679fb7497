"""The thread that writes: one batch at a time, patient while ClickHouse is away.

The reading thread must keep polling Kafka, or it loses its place in the group; so it never waits for
ClickHouse. It hands over a batch, looks in now and then, and commits what came back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import Unavailable, WarehouseUnavailable
from gpuledger.contract.records import Generation
from gpuledger.logs import EventLog
from gpuledger.serving.watch import Pulse
from gpuledger.sink import metrics
from gpuledger.sink.batcher import Batch, Place
from gpuledger.sink.writer import Writer, nothing_is_announced, nothing_is_closed
from gpuledger.warehouse.client import Warehouse

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0  # ClickHouse back after an hour is noticed within seconds
ATTEMPT_SILENT_S = 900.0  # an attempt asks ClickHouse a few times, each for 300 s at most
HOURS_EVERY_S = 10  # an hour that changes a lot is summed at most that often

T = TypeVar("T")
log = EventLog("gpuledger.sink")


@dataclass(frozen=True)
class Written:
    """A batch that is in; its offsets may be committed."""

    batch: Batch
    rows: int


class Flusher:
    """Owns the writing thread and, in it, the connection that ``connect`` makes.

    Called by one thread. ``close`` stops the thread; what is not written by then is not committed.
    """

    def __init__(
        self,
        connect: Callable[[], Warehouse],
        clock: Clock,
        closed_through: Callable[[int], str] = nothing_is_closed,
        generation_of: Callable[[int], Generation | None] = nothing_is_announced,
        *,
        pulse: Pulse,
    ) -> None:
        self._pulse = pulse
        self._connect = connect
        self._closed_through = closed_through
        self._generation_of = generation_of
        self._clock = clock
        self._stopped = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="warehouse")
        self._running: Future[int] | None = None
        self._batch: Batch | None = None
        self._storing: Future[None] | None = None
        self._stored_ns = clock.boot_ns()
        self._warehouse: Warehouse | None = None
        self._writer: Writer | None = None
        self._away = False

    @property
    def batch(self) -> Batch | None:
        """The batch that is under way."""
        return self._batch

    @property
    def busy(self) -> bool:
        """Whether a batch is under way."""
        return self._running is not None

    def submit(self, batch: Batch) -> None:
        """Start to write a batch; not while ``busy``."""
        if self._running is not None:
            raise RuntimeError("a batch is under way")
        if batch.arrivals:
            batch.prepare()
        self._batch = batch
        self._running = self._thread.submit(self._watched, lambda: self._write(batch))

    def collect(self, wait_s: float = 0) -> Written | None:
        """The batch that was submitted, if it is in by now. Raises WarehouseError when it can never be."""
        if self._running is None or self._batch is None:
            return None
        try:
            rows = self._running.result(wait_s)
        except TimeoutError:
            return None
        written = Written(self._batch, rows)
        self._running = self._batch = None
        return written

    def forget(self, places: Collection[Place]) -> None:
        """The batch under way no longer answers for these partitions."""
        if self._batch is not None:
            self._batch.forget(places)

    def store_hours(self) -> None:
        """Let changed hours be summed, if it is time and nothing else is to do."""
        if self._running is not None or (self._storing is not None and not self._storing.done()):
            return
        if self._storing is not None:
            self._storing.result()
            self._storing = None
        now_ns = self._clock.boot_ns()
        if now_ns - self._stored_ns >= HOURS_EVERY_S * NS_PER_S:
            self._stored_ns = now_ns
            self._storing = self._thread.submit(self._watched, self._store)
        elif self._writer is not None and self._writer.waits:
            self._storing = self._thread.submit(self._watched, self._show_waiting)

    def close(self) -> None:
        """Stop the thread and close the connection."""
        self._stopped.set()
        self._thread.shutdown(wait=True)
        self._disconnect()

    def _ready(self) -> Writer:
        if self._writer is None:
            self._warehouse = self._connect()
            self._writer = Writer(self._warehouse, self._clock, self._closed_through, self._generation_of)
        return self._writer

    def _disconnect(self) -> None:
        if self._warehouse is not None:
            self._warehouse.close()
        self._warehouse = self._writer = None

    def _watched(self, work: Callable[[], T]) -> T:
        self._pulse.beat()
        try:
            return work()
        finally:
            self._pulse.rest()

    @metrics.INSERT_SECONDS.time()
    def _write(self, batch: Batch) -> int:
        pause_s = FIRST_PAUSE_S
        while True:
            self._pulse.beat()
            try:
                rows = self._ready().write(batch)
            except WarehouseUnavailable as error:
                if not self._away:
                    log.warning("clickhouse is away, waiting", error=str(error), sets=len(batch.arrivals))
                self._show(away=True)
                metrics.RETRIES.inc()
                if self._stopped.wait(pause_s):
                    raise
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except Unavailable as error:
                log.warning("what is closed or announced can not be read, waiting", error=str(error))
                if self._stopped.wait(pause_s):
                    raise
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                if self._away:
                    log.info("clickhouse is back")
                self._show(away=False)
                return rows

    def _show(self, *, away: bool) -> None:
        self._away = away
        metrics.WAREHOUSE_AWAY.set(away)

    def _store(self) -> None:
        self._show_waiting()
        try:
            self._ready().store_hours()
        except WarehouseUnavailable as error:
            log.warning("hours not stored, will be tried again", error=str(error))

    def _show_waiting(self) -> None:
        try:
            self._ready().show_waiting()
        except Unavailable as error:
            log.warning("restated hours not shown, will be tried again", error=str(error))
