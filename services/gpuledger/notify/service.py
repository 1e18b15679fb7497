"""All couriers, each in a thread of its own, until the process is stopped or one of them can not go on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass

from gpuledger.bus import BusSettings, DeadLetters, Incoming, Producer, SchemaRegistry
from gpuledger.bus.membership import Membership
from gpuledger.contract.clock import Clock, SystemClock
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.topics import BREACHES
from gpuledger.logs import EventLog
from gpuledger.notify.build import build
from gpuledger.notify.courier import Courier
from gpuledger.notify.document import AnyTarget
from gpuledger.notify.source import Source
from gpuledger.serving import stop_signals
from gpuledger.serving.watch import Watch

STAGE = "notify"
GROUP = "gpuledger-notify"
SILENT_S = 300.0  # who has not polled for so long has lost its place in the group: max.poll.interval
SESSION_TIMEOUT_S = 45.0  # librdkafka's default; shorter only where a test kills members

log = EventLog("gpuledger.notify")


@dataclass(frozen=True)
class NotifyOptions:
    """How notify runs; the defaults are those of production. A target's group is ``group-NAME``."""

    bus: BusSettings
    targets: Sequence[AnyTarget]
    topic: str = BREACHES
    group: str = GROUP
    session_timeout_s: float = SESSION_TIMEOUT_S


def run(options: NotifyOptions, stop: threading.Event | None = None, clock: Clock | None = None) -> None:
    """Until ``stop`` is set (default: SIGTERM or SIGINT).

    Raises ConfigError, KafkaUnavailable and RegistryUnavailable; a target that is away is no error.
    """
    clock = clock or SystemClock()
    stop = stop or stop_signals()
    watch = Watch(clock)
    closing = watch.pulse("closing", SILENT_S)
    with watch, ExitStack() as stack:
        registry = SchemaRegistry(options.bus, clock)
        stack.callback(registry.close)
        letters = _Letters(options.bus, registry, clock)
        stack.callback(letters.close)
        targets = [(described, build(described, clock)) for described in options.targets]
        couriers = [
            Courier(
                described.name,
                target,
                _source(options, described.name, watch, clock),
                registry,
                clock,
                described.wants,
                described.concerns,
                letters.keep,
                watch.pulse(described.name, SILENT_S),
            )
            for described, target in targets
        ]
        try:
            _run_all(couriers, stop)
        finally:
            closing.beat()


def _source(options: NotifyOptions, target: str, watch: Watch, clock: Clock) -> Source:
    group = f"{options.group}-{target}"
    source = Source(options.bus, options.topic, group, options.session_timeout_s, clock)
    membership = Membership(options.bus, group, [options.topic], clock)
    watch.also(lambda: membership.heed(source.owned))
    return source


def _run_all(couriers: Sequence[Courier], stop: threading.Event) -> None:
    with ThreadPoolExecutor(len(couriers), thread_name_prefix="notify") as threads:
        running = [threads.submit(courier.run, stop) for courier in couriers]
        ended, _ = wait(running, return_when=FIRST_COMPLETED)
        stop.set()
        for error in filter(None, (future.exception() for future in ended)):
            log.error("ends, once all is closed", error=str(error))
    for future in (*ended, *running):
        future.result()


class _Letters:
    """Dead letters from any courier; the producer belongs to one thread at a time."""

    def __init__(self, bus: BusSettings, registry: SchemaRegistry, clock: Clock) -> None:
        self._producer = Producer(bus, "gpuledger-notify")
        self._letters = DeadLetters(self._producer, registry, clock, STAGE)
        self._lock = threading.Lock()

    def keep(self, record: Incoming, why: BadRecord) -> None:
        with self._lock:
            self._letters.publish([(record, why)])

    def close(self) -> None:
        self._producer.close()
