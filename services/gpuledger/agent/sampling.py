"""The thread that measures once a second, on the second of agent time: window borders are whole seconds, so
a window's last sample ends right at its border. A driver that hangs leaves the loop alone."""

from __future__ import annotations

import threading
from collections import deque

from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.samplers import Round, Sampler
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.logs import EventLog

PERIOD_NS = NS_PER_S

_log = EventLog(__name__)


class SamplerThread:
    """Runs a sampler, which it owns; rounds wait here until the loop takes them."""

    def __init__(self, sampler: Sampler, clock: Clock, time: AgentTime) -> None:
        self._sampler = sampler
        self._clock = clock
        self._time = time
        self._new_time: AgentTime | None = None
        self._rounds: deque[Round] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Begin to measure."""
        self._thread.start()

    def rebase(self, time: AgentTime) -> None:
        """From the next round on measure in another epoch's time; rounds of the old one are dropped."""
        self._new_time = time
        self._rounds.clear()

    def take(self) -> list[Round]:
        """The rounds since the last call."""
        taken = []
        while self._rounds:
            taken.append(self._rounds.popleft())
        return taken

    def stop(self, timeout_s: float = 2.0) -> None:
        """End the thread, with a last round up to now; one that hangs in the driver is left behind."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._measure()
            self._sampler.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            now_ns = self._time.now_ns(self._clock)
            due_ns = now_ns - now_ns % PERIOD_NS + PERIOD_NS
            if self._stop.wait((due_ns - now_ns) / NS_PER_S):
                return
            if self._time.now_ns(self._clock) < due_ns:
                continue  # not there yet, by however little: a round must reach its second
            new_time, self._new_time = self._new_time, None
            if new_time is not None:
                self._time = new_time
                self._sampler.rebase(new_time)
            self._measure()

    def _measure(self) -> None:
        try:
            self._rounds.append(self._sampler.sample())
        except Exception:
            # a fault in one round must not end all later ones: the cutter writes the gap
            _log.exception("sampler_failed")
