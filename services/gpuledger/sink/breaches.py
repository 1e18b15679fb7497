"""gpu.breaches to ClickHouse, beside the charges: few records, each change once by its id and number."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from decimal import Decimal

import pyarrow as pa

from gpuledger.bus import BusSettings, DeadLetters, Incoming, Producer, SchemaRegistry, unframed
from gpuledger.bus.membership import Membership
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import BadRecord, Unavailable, UserError, WarehouseError
from gpuledger.contract.money import decimal_from_nano
from gpuledger.contract.records import Breach
from gpuledger.contract.topics import BREACHES
from gpuledger.logs import EventLog
from gpuledger.serving.watch import Watch
from gpuledger.sink.batcher import Place
from gpuledger.sink.source import Source
from gpuledger.warehouse.client import Warehouse

STAGE = "sink-breaches"
POLL_S = 0.5
PAUSE_S = 5.0  # after Kafka, the registry or ClickHouse was away, or refused
SILENT_S = 600.0  # a step asks Kafka, the registry and ClickHouse, this for 300 s at most
STOP_S = 10.0  # what is under way then is written again
NS_PER_MS = 1_000_000
_MONEY = pa.decimal128(38, 9)
_TIME = pa.timestamp("ms", tz="UTC")
_TEXTS = ("id", "state", "previous_state", "why", "budget_id", "budget_name", "rule", "speed", "currency")
_MORE_TEXTS = ("message", "link", "acknowledged_by", "silenced_by")
_LONGS = ("threshold_ppm", "factor_nano", "spent_gpu_ns", "amount_gpu_ns")
_INSTANTS = ("period_start", "period_end", "since", "window_start", "forecast_low", "forecast_high", "at")
_UNTIL = ("acknowledged_until", "silenced_until")

log = EventLog("gpuledger.sink.breaches")


def follow(
    bus: BusSettings,
    group: str,
    session_timeout_s: float,
    connect: Callable[[], Warehouse],
    stop: threading.Event,
) -> None:
    """Write every change until ``stop`` is set; waits for whatever is away or refuses, and for the topic.

    The warehouse's tables may not be there yet. Nothing is acknowledged that is not written.
    """
    while not stop.is_set():
        try:
            _follow(bus, group, session_timeout_s, connect, stop)
        except (Unavailable, UserError, WarehouseError) as error:
            log.warning("breaches wait", error=str(error))
            stop.wait(PAUSE_S)


class Beside:
    """Work in a thread beside the service's own, which does not go on without it.

    However ``work`` ends, ``stop`` is set. `close` waits a little and raises the error that ended it.
    """

    def __init__(self, work: Callable[[], None], stop: threading.Event) -> None:
        self._work = work
        self._stop = stop
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="breaches", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            log.exception("ends")  # whoever closes may be held up before it raises this
            self._error = error
        finally:
            self._stop.set()

    def close(self) -> None:
        """Set ``stop`` and wait up to STOP_S."""
        self._stop.set()
        self._thread.join(STOP_S)
        if self._error is not None:
            raise self._error


def _follow(
    bus: BusSettings,
    group: str,
    session_timeout_s: float,
    connect: Callable[[], Warehouse],
    stop: threading.Event,
) -> None:
    clock, watch = SystemClock(), Watch()
    pulse = watch.pulse("breaches", SILENT_S)
    with watch, ExitStack() as stack:
        warehouse = stack.enter_context(closing(connect()))  # which may migrate, for as long as that takes
        pulse.beat()
        source = Source(bus, BREACHES, group, lambda places, lost: None, session_timeout_s)
        stack.callback(source.close)
        membership = Membership(bus, group, [BREACHES], clock)
        watch.also(lambda: membership.heed(source.owned_count))
        registry = stack.enter_context(SchemaRegistry(bus))
        letters = DeadLetters(stack.enter_context(Producer(bus, STAGE)), registry, clock, STAGE)
        while not stop.is_set():
            pulse.beat()
            records = source.poll(POLL_S)
            if records:
                write(warehouse, _readable(registry, letters, records))
                source.commit(_through(records))


def write(warehouse: Warehouse, changes: Sequence[tuple[Breach, int]]) -> None:
    """Write changes, each with the broker's append time in ms. Repeating it changes nothing."""
    if changes:
        warehouse.insert_arrow("breach_changes", breach_changes(changes))


def breach_changes(changes: Sequence[tuple[Breach, int]]) -> pa.Table:
    """Changes with the columns of the table breach_changes."""
    found = [breach for breach, _ in changes]
    columns: dict[str, pa.Array] = {
        name: pa.array([getattr(breach, name) for breach in found], pa.string())
        for name in (*_TEXTS, *_MORE_TEXTS)
    }
    columns["change"] = pa.array([breach.change for breach in found], pa.uint32())
    columns["budget_version"] = pa.array([breach.budget_version for breach in found], pa.int32())
    columns["scope"] = pa.array(
        [list(breach.scope.items()) for breach in found], pa.map_(pa.string(), pa.string())
    )
    for name in _LONGS:
        columns[name] = pa.array([getattr(breach, name) for breach in found], pa.int64())
    for name in ("spent", "amount"):
        columns[name] = pa.array([_money(getattr(breach, f"{name}_nano")) for breach in found], _MONEY)
    for name in (*_INSTANTS, *_UNTIL):
        columns[name] = _times([getattr(breach, f"{name}_ns") for breach in found])
    for name in ("kind", "namespace", "name"):
        texts = [[getattr(driver, name) for driver in breach.drivers] for breach in found]
        columns[f"driver_{name}"] = pa.array(texts, pa.list_(pa.string()))
    columns["driver_money"] = pa.array(
        [[_money(driver.nano) for driver in breach.drivers] for breach in found], pa.list_(_MONEY)
    )
    columns["driver_gpu_ns"] = pa.array(
        [[driver.gpu_ns for driver in breach.drivers] for breach in found], pa.list_(pa.int64())
    )
    columns["received_at"] = pa.array([ms for _, ms in changes], pa.int64()).cast(_TIME)
    return pa.table(columns)


def _readable(
    registry: SchemaRegistry, letters: DeadLetters, records: Sequence[Incoming]
) -> list[tuple[Breach, int]]:
    found, refused = [], []
    for record in records:
        try:
            breach = unframed(Breach, record.value, registry)
            found.append((breach, max(0, record.timestamp_ms)))
        except BadRecord as error:
            refused.append((record, error))
    if refused:
        letters.publish(refused)
        log.warning("records refused", records=len(refused))
    return found


def _through(records: Sequence[Incoming]) -> dict[Place, int]:
    return {(record.topic, record.partition): record.offset + 1 for record in records}


def _money(nano: int | None) -> Decimal | None:
    return None if nano is None else decimal_from_nano(nano)


def _times(instants_ns: Sequence[int | None]) -> pa.Array:
    values = [None if instant is None else instant // NS_PER_MS for instant in instants_ns]
    return pa.array(values, pa.int64()).cast(_TIME)
