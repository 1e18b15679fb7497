"""A service whose work stands still without a word: told, with where each thread stands, and ended.

Whatever waits here waits for a stated time and tries again, so that a thread which does not come round is
one that nobody thought of. Its process is of no use any more and holds what others could own; who supervises
it starts it anew, and nothing is lost, as by kill -9.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable

from gpuledger.contract.clock import NS_PER_S, Clock, SystemClock
from gpuledger.contract.errors import Unavailable
from gpuledger.logs import EventLog

LOOK_EVERY_S = 5.0
JOIN_S = 1.0  # a check may be waiting for a broker that is gone; the thread ends with its process
EXIT_STUCK = 75  # EX_TEMPFAIL of sysexits.h: try again

log = EventLog("gpuledger.serving")


class Pulse:
    """One thread's sign of life. ``beat`` is called by that thread, the rest by any."""

    def __init__(self, name: str, limit_s: float, clock: Clock) -> None:
        self.name = name
        self.limit_s = limit_s
        self._clock = clock
        self._beat_ns: int | None = None

    def beat(self) -> None:
        """Here we are: it is awaited again within the limit."""
        self._beat_ns = self._clock.boot_ns()

    def rest(self) -> None:
        """There is nothing to do: until the next beat nothing is awaited."""
        self._beat_ns = None

    def silent_s(self) -> float:
        """Seconds since the last beat; 0 at rest."""
        beat_ns = self._beat_ns
        return 0.0 if beat_ns is None else (self._clock.boot_ns() - beat_ns) / NS_PER_S


class Watch:
    """Looks at pulses from a thread of its own, and ends the process when one has stopped.

    It looks while it is used in a `with`, which is to be left last: what is closed may stand still too.
    ``end`` is called with the exit status, in that thread, once all is told.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        end: Callable[[int], object] = os._exit,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._clock = clock or SystemClock()
        self._end = end
        self._every_s = every_s
        self._pulses: list[Pulse] = []
        self._checks: list[Callable[[], None]] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def pulse(self, name: str, limit_s: float) -> Pulse:
        """A pulse that may be silent for so long; at rest until its first beat."""
        made = Pulse(name, limit_s, self._clock)
        self._pulses.append(made)
        return made

    def also(self, check: Callable[[], None]) -> None:
        """Call ``check`` at each look, in the watch's thread: it raises Unavailable when all is in vain."""
        self._checks.append(check)

    def look(self) -> bool:
        """Whether all goes on; if not, it is told and ``end`` is called."""
        told = [
            f"thread {pulse.name} has not come round for {pulse.silent_s():.0f} s, of {pulse.limit_s:.0f}"
            for pulse in list(self._pulses)
            if pulse.silent_s() > pulse.limit_s
        ]
        for check in list(self._checks):
            try:
                check()
            except Unavailable as error:
                told.append(str(error))
            except Exception:  # nobody watches the watch
                log.exception("a check failed")
        if not told or self._closed.is_set():
            return True
        log.error("no progress, ends to be started anew", why=told, threads=stacks())
        sys.stderr.flush()
        self._end(EXIT_STUCK)
        return False

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(JOIN_S)

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            if not self.look() or self._closed.is_set():
                return


def stacks() -> dict[str, list[str]]:
    """Where each thread of this process stands: its name -> calls, the innermost last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return {
        f"{names.get(ident, 'unknown')} ({ident})": [
            f"{call.filename}:{call.lineno} {call.name}" for call in traceback.extract_stack(frame)
        ]
        for ident, frame in sys._current_frames().items()
    }
