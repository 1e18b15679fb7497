"""The thread that makes what waits coarser, at a hundredth of a core: neither the loop nor who sends waits
for it."""

from __future__ import annotations

import threading
import time
from typing import Final

from gpuledger.agent import metrics
from gpuledger.agent.coarser.spool import SpoolCoarsener
from gpuledger.logs import EventLog

CORE_RATIO: Final = 0.01
LOOK_S: Final = 1.0  # how often it is looked whether there is something to do
STRETCH_S: Final = 0.005  # so long at a stretch, and at least one record
STOP_S: Final = 5.0  # a disk that hangs is left behind

_log = EventLog(__name__)


class CoarsenerThread:
    """Runs a coarsener, which it owns, until stopped."""

    def __init__(self, coarsener: SpoolCoarsener) -> None:
        self._coarsener = coarsener
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coarsener", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a segment that it was at stays as it was."""
        self._stop.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        pause_s = LOOK_S
        while not self._stop.wait(pause_s):
            began_s = time.thread_time()
            try:
                pause_s = self._stretch(began_s)
            except Exception:
                # a fault in what waits must not end the agent: the spool then only fills sooner
                _log.exception("coarsener_failed")
                self._coarsener.close()
                pause_s = LOOK_S
            metrics.COARSEN_SECONDS.inc(time.thread_time() - began_s)
        self._coarsener.close()

    def _stretch(self, began_s: float) -> float:
        """Work for a while; how long to rest then."""
        while self._coarsener.step():
            spent_s = time.thread_time() - began_s
            if spent_s >= STRETCH_S or self._stop.is_set():
                return spent_s / CORE_RATIO
        return LOOK_S
