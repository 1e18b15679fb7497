"""The sink's loop: read, decode, batch, hand to the writer, commit what is in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field

from gpuledger.bus import BusSettings, DeadLetters, Incoming, Producer, SchemaRegistry
from gpuledger.bus.membership import Membership
from gpuledger.contract.clock import Clock, SystemClock
from gpuledger.contract.errors import BadRecord, Refused, WarehouseError
from gpuledger.contract.topics import CHARGES
from gpuledger.logs import EventLog
from gpuledger.serving import stop_signals
from gpuledger.serving.watch import Watch
from gpuledger.sink import metrics
from gpuledger.sink.announced import AnnouncedGenerations
from gpuledger.sink.batcher import Batcher, Flow, Place
from gpuledger.sink.decoding import decoded
from gpuledger.sink.flusher import ATTEMPT_SILENT_S, Flusher
from gpuledger.sink.lag import Lag
from gpuledger.sink.periods import ClosedPeriods
from gpuledger.sink.source import Source
from gpuledger.warehouse.client import DEFAULT_URL, Warehouse, connect
from gpuledger.warehouse.migrations import migrate, missing

STAGE = "sink"
GROUP = "gpuledger-sink"
POLL_S = 0.05  # how late a batch that became due may be noticed
REVOKE_WAIT_S = 10.0  # for the batch under way when partitions leave: an insert takes 0.3 s
STOP_WAIT_S = 20.0  # a clean stop writes what it has read, unless ClickHouse is away
SESSION_TIMEOUT_S = 45.0  # librdkafka's default; shorter only where a test kills members
CLOSING_SILENT_S = 2 * ATTEMPT_SILENT_S  # what is under way is waited for, and what is queued behind it
LOOP_SILENT_S = 300.0  # who has not polled for so long has lost its place in the group: max.poll.interval

log = EventLog("gpuledger.sink")
_migrating = threading.Lock()


@dataclass(frozen=True)
class SinkOptions:
    """How one sink runs; the defaults are those of production."""

    bus: BusSettings
    warehouse_url: str = DEFAULT_URL
    topic: str = CHARGES
    group: str = GROUP
    session_timeout_s: float = SESSION_TIMEOUT_S
    migrate: bool = False


@dataclass
class Counts:
    """What the sink did since it started."""

    sets: int = 0
    rows: int = 0
    batches: int = 0
    refused: int = 0
    revoked: int = 0


@dataclass
class _Parts:
    registry: SchemaRegistry
    dead_letters: DeadLetters
    batcher: Batcher
    flusher: Flusher
    lag: Lag
    counts: Counts = field(default_factory=Counts)


def run(
    options: SinkOptions,
    clock: Clock | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[Counts], None] | None = None,
) -> Counts:
    """Run until ``stop`` is set (default: SIGTERM or SIGINT), then write what was read and leave the group.

    ``progress`` is called after every batch. Raises KafkaUnavailable, RegistryUnavailable, ConfigError, and
    WarehouseError or Refused when ClickHouse will never take the rows (schema missing, no right to write).
    """
    clock = clock or SystemClock()
    stop = stop or stop_signals()
    watch = Watch(clock)
    loop, closing = watch.pulse("reading", LOOP_SILENT_S), watch.pulse("closing", CLOSING_SILENT_S)
    with watch, ExitStack() as stack:
        loop.beat()
        registry = SchemaRegistry(options.bus, clock)
        stack.callback(registry.close)
        producer = stack.enter_context(Producer(options.bus, "gpuledger-sink"))
        periods = ClosedPeriods(options.bus, clock)
        stack.callback(periods.close)
        generations = AnnouncedGenerations(options.bus, clock)
        stack.callback(generations.close)
        flusher = Flusher(
            lambda: open_warehouse(options),
            clock,
            periods.through,
            generations.of,
            pulse=watch.pulse("warehouse", ATTEMPT_SILENT_S),
        )
        stack.callback(flusher.close)
        dead_letters = DeadLetters(producer, registry, clock, STAGE)
        parts = _Parts(registry, dead_letters, Batcher(clock), flusher, Lag(clock))

        def leave(places: Collection[Place], lost: bool) -> None:
            parts.counts.revoked += len(places)
            metrics.REVOKED.inc(len(places))
            parts.batcher.drop(places)
            if lost:
                flusher.forget(places)
            else:
                _settle(parts, source, REVOKE_WAIT_S)
                flusher.forget(places)

        source = Source(options.bus, options.topic, options.group, leave, options.session_timeout_s)
        stack.callback(source.close)
        membership = Membership(options.bus, options.group, [options.topic], clock)
        watch.also(lambda: membership.heed(source.owned_count))
        try:
            while not stop.is_set():
                loop.beat()
                _step(parts, source, progress)
            _finish(parts, source)
        except Exception as error:
            log.error("ends, once all is closed", error=str(error))  # which may take minutes
            raise
        finally:
            loop.rest()
            closing.beat()
    return parts.counts


def _step(parts: _Parts, source: Source, progress: Callable[[Counts], None] | None) -> None:
    source.steer(parts.batcher.flow)
    records = source.poll(POLL_S if parts.batcher.flow is Flow.OPEN else POLL_S * 4)
    _take(parts, records)
    if _commit(parts, source, 0) and progress:
        progress(parts.counts)
    under_way = [parts.flusher.batch] if parts.flusher.batch else []
    parts.lag.show(source, [parts.batcher.waiting, *under_way])
    if parts.flusher.busy:
        return
    if parts.batcher.due():
        parts.flusher.submit(parts.batcher.take())
    else:
        parts.flusher.store_hours()


def _take(parts: _Parts, records: Collection[Incoming]) -> None:
    refused: list[tuple[Incoming, BadRecord]] = []
    for record, found in decoded(parts.registry, records):
        metrics.READ_BYTES.inc(len(record.value or b""))
        if isinstance(found, BadRecord):
            refused.append((record, found))
        else:
            parts.batcher.add(found)
    if not refused:
        return
    # Kept elsewhere, and awaited, before anything behind them can be committed.
    parts.dead_letters.publish(refused)
    for record, why in refused:
        log.warning("record refused", partition=record.partition, offset=record.offset, why=str(why))
        metrics.REFUSED.labels(why.reason).inc()
        parts.batcher.skip(record.topic, record.partition, record.offset)
    parts.counts.refused += len(refused)


def _commit(parts: _Parts, source: Source, wait_s: float) -> bool:
    written = parts.flusher.collect(wait_s)
    if written is None:
        return False
    source.commit(written.batch.through)
    parts.counts.batches += 1
    parts.counts.rows += written.rows
    parts.counts.sets += len(written.batch.arrivals)
    metrics.BATCHES.inc()
    metrics.ROWS.inc(written.rows)
    metrics.SETS.inc(len(written.batch.arrivals))
    return True


def _settle(parts: _Parts, source: Source, wait_s: float) -> None:
    """Wait for the batch under way and commit it; a longer one is written again by the next owner."""
    try:
        _commit(parts, source, wait_s)
    except WarehouseError as error:
        log.error("the batch under way was refused", error=str(error))


def _finish(parts: _Parts, source: Source) -> None:
    _commit(parts, source, STOP_WAIT_S)
    if not parts.flusher.busy:
        parts.flusher.submit(parts.batcher.take())
        _commit(parts, source, STOP_WAIT_S)


def open_warehouse(options: SinkOptions) -> Warehouse:
    """A connection to a warehouse whose tables are up to date. Raises Refused where they are not.

    Threads may call it: one of them migrates, the others find it done.
    """
    if options.migrate:
        with _migrating:
            warehouse = connect(options.warehouse_url, create_database=True)
            try:
                migrate(warehouse)
            except BaseException:
                warehouse.close()
                raise
        return warehouse
    warehouse = connect(options.warehouse_url)
    if lacking := missing(warehouse):
        warehouse.close()
        raise Refused(f"the warehouse lacks {len(lacking)} migrations; run `gpuledger warehouse migrate`")
    return warehouse
