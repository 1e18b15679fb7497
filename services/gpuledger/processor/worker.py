"""The Faust worker, which ends in time whatever it waits for."""

from __future__ import annotations

import os
import threading

import faust
import structlog

STOP_WITHIN_S = 8.0  # then it ends as by kill -9, of which nothing is lost; orchestrators wait 10 s or more
EXIT_ENDED = 1
_log = structlog.get_logger(__name__)


class Worker(faust.Worker):  # type: ignore[misc]
    """Stops in good order where it can; a client that waits for a broker that is gone keeps it no longer."""

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
