"""The archiver as a service: it waits while Kafka or the store is away, and stops when it is told to."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from gpuledger.archive import metrics
from gpuledger.archive.archiver import Archived, Archiver
from gpuledger.archive.store import Store
from gpuledger.bus import BusSettings
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import Unavailable
from gpuledger.serving.watch import Watch

SILENT_S = 1_800.0  # between two polls all partitions may be due, each a few requests to the store
PAUSE_S = 5.0  # until the next attempt while something is away
_log = structlog.get_logger(__name__)


def serve(bus: BusSettings, store: Store, clock: Clock, every_s: float, once: bool) -> Archived:
    """Archive until SIGTERM or SIGINT, or ``once`` all that lies there; returns how much.

    Raises Refused, ConfigError, and Unavailable where it is to run once.
    """
    total = Archived()
    with _stopping() as stop, Watch(clock) as watch:
        pulse = watch.pulse("archiving", SILENT_S)

        def stopped() -> bool:
            pulse.beat()
            return stop.is_set()

        while not stopped():
            archiver = Archiver(bus, store, clock, every_s)
            try:
                archiver.run(stopped, once)
                if once:
                    break
            except Unavailable as error:
                if once:
                    raise
                metrics.AWAY.set(1)
                _log.warning("waiting to archive", error=str(error))
                stop.wait(PAUSE_S)
            finally:
                done = archiver.total
                total = Archived(total.commits + done.commits, total.records + done.records)
                archiver.close()
    return total


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
