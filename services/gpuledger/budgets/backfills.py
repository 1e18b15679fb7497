"""Making up for the time before a version as a worker does: read in a thread, counted in the engine's."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

import structlog

from gpuledger.budgets import metrics
from gpuledger.budgets.backfill import Round, Sheet
from gpuledger.budgets.backfill_read import Reading
from gpuledger.budgets.backfilling import begin
from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.counting import PartitionCount
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.bus import BusSettings, committed_offsets
from gpuledger.contract.errors import GpuledgerError, Unavailable
from gpuledger.contract.topics import CHARGES
from gpuledger.warehouse import connect

REST_RATIO = 2  # of the rests to the reading: the counting goes before it, on the same cores
LONGEST_REST_S = 2.0
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0  # between attempts while the warehouse, the sink or Kafka is away
_log = structlog.get_logger(__name__)


class _Abandoned(Exception):
    """Nobody wants it any more."""


class Job(NamedTuple):
    """A round of a partition that is to be read."""

    partition: int
    partitions: int
    catalog: Catalog
    round: Round


class Backfills:
    """The rounds of the partitions that a worker owns; one at a time is read. Used by the engine's thread."""

    def __init__(self, bus: BusSettings, settings: BudgetSettings, warehouse_url: str) -> None:
        self._bus, self._settings, self._url = bus, settings, warehouse_url
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[tuple[Job, Sheet]] = queue.SimpleQueue()
        self._wanted: dict[int, Round] = {}  # by partition
        self._read: dict[int, Sheet] = {}
        self._thread: threading.Thread | None = None
        self._end = threading.Event()

    def look(self, counts: Mapping[int, PartitionCount], partitions: int) -> None:
        """Begin what is to be begun, and let it be read."""
        for partition, count in counts.items():
            begun = begin(count)
            if begun is not None:
                budgets = {reach.key for reach in begun.reached.all}
                _log.info("counts what lay before the budgets", partition=partition, meters=len(budgets))
            pending = count.backfill.round
            if pending is None or pending.before_ms is None or self._wanted.get(partition) is pending:
                continue
            self._wanted[partition] = pending
            self._jobs.put(Job(partition, partitions, count.catalog, pending))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="backfills", daemon=True)
                self._thread.start()
        waiting = {
            reach.key
            for count in counts.values()
            if count.backfill.round is not None
            for reach in count.backfill.round.reached.all
        }
        metrics.BACKFILLS_WAITING.set(len(waiting))

    def ready(self, counts: Mapping[int, PartitionCount]) -> tuple[int, Sheet] | None:
        """A partition whose round is read, and what was read. It is forgotten here."""
        while not self._found.empty():
            job, sheet = self._found.get()
            if self._wanted.get(job.partition) is job.round:
                self._read[job.partition] = sheet
        for partition in self._read:
            if partition in counts:
                del self._wanted[partition]
                return partition, self._read.pop(partition)
        return None

    def abandon(self) -> None:
        """The partitions leave."""
        self._wanted.clear()
        self._read.clear()
        metrics.BACKFILLS_WAITING.set(0)

    def close(self) -> None:
        """End the thread; a question under way is not waited for."""
        self.abandon()
        self._end.set()
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._found.put((job, self._patiently(job)))
            except _Abandoned:
                _log.info("what lay before the budgets is not read any more", partition=job.partition)

    def _patiently(self, job: Job) -> Sheet:
        pause_s = FIRST_PAUSE_S
        while True:
            self._check(job)
            try:
                return self._attempt(job)
            except GpuledgerError as error:
                _log.warning(
                    "budgets count from their version on: what was charged before it can not be read yet",
                    partition=job.partition,
                    meters=len({reach.key for reach in job.round.reached.all}),
                    error=str(error),
                )
            self._end.wait(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _attempt(self, job: Job) -> Sheet:
        group = self._settings.sink_group
        client = f"{self._settings.application}-backfills"
        offsets = committed_offsets(self._bus, client, group, CHARGES, [job.partition])
        written = offsets[job.partition] or 0
        if written < job.round.tail_offset:
            raise Unavailable(
                f"the warehouse lacks charges from offset {written} on: is the sink (group {group}) running?"
            )
        warehouse = connect(self._url)
        began_s = time.monotonic()

        def rest() -> None:
            nonlocal began_s
            self._check(job)
            self._end.wait(min(LONGEST_REST_S, REST_RATIO * (time.monotonic() - began_s)))
            began_s = time.monotonic()

        try:
            found = Reading(warehouse, job.catalog, job.round, rest).base(job.partition, job.partitions)
        finally:
            warehouse.close()
        _log.info("read what lay before the budgets", partition=job.partition, totals=len(found.totals))
        return found

    def _check(self, job: Job) -> None:
        if self._end.is_set() or self._wanted.get(job.partition) is not job.round:
            raise _Abandoned
