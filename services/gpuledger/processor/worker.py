"""The Faust worker, which ends in time whatever it waits for."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

import faust
import structlog

from gpuledger.serving.watch import Watch

STOP_WITHIN_S = 8.0  # then it ends as by kill -9, of which nothing is lost; orchestrators wait 10 s or more
EXIT_ENDED = 1
LOOP_SILENT_S = 300.0  # of the event loop, which waits for nothing: the group has thrown it out long before
BEAT_S = 1.0
_log = structlog.get_logger(__name__)


class Worker(faust.Worker):  # type: ignore[misc]
    """Stops in good order where it can; a client that waits for a broker that is gone keeps it no longer.

    ``watch`` also looks at its event loop.
    """

    def __init__(self, app: faust.App, *, watch: Watch, **options: Any) -> None:
        super().__init__(app, loglevel="WARNING", quiet=True, redirect_stdouts=False, **options)
        self._pulse = watch.pulse("event loop", LOOP_SILENT_S)

    async def on_first_start(self) -> None:
        """Begin to show signs of life."""
        self.add_future(self._beats())
        await super().on_first_start()

    async def _beats(self) -> None:
        while not self.should_stop:
            self._pulse.beat()
            await asyncio.sleep(BEAT_S)
        self._pulse.rest()

    async def stop(self) -> None:
        """On SIGTERM, SIGINT, and after a crash."""
        end_within(STOP_WITHIN_S)
        await super().stop()


def end_within(seconds: float) -> None:
    """End this process after so long, however it is by then."""
    timer = threading.Timer(seconds, _end, (seconds,))
    timer.daemon = True
    timer.start()


def _end(seconds: float) -> None:
    _log.warning("not stopped in time, ends all the same", seconds=seconds)
    os._exit(EXIT_ENDED)
