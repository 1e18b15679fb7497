"""NVML whose driver may hang in any call: the agent goes on without it, and meets it when it answers.

A thread that is stuck in the driver can not be helped: it waits, no second call is made beside it, and
nothing is measured meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.nvml import NvmlSession
from gpuledger.agent.samplers.asking import Answer, Asking
from gpuledger.agent.samplers.nvml import NvmlSampler
from gpuledger.agent.samplers.samples import Round
from gpuledger.contract.clock import Clock
from gpuledger.contract.records import Device
from gpuledger.logs import EventLog

START_WAIT_S: Final = 5.0  # a driver without persistence takes seconds; then it is met on the way
ROUND_WAIT_S: Final = 0.6  # of a second; a healthy round takes some 10 ms a GPU
HANGING_ROUNDS: Final = 5  # one that is only slow is late, as ever
CLOSE_WAIT_S: Final = 1.0

_log = EventLog(__name__)


class PatientNvml:
    """A `Sampler` over NVML, which it starts and owns. NVML starts beside whatever else there is to do, until
    `open` is called, once, before any round."""

    def __init__(self) -> None:
        self._asking = Asking("nvml")
        self._session = self._asking.begin(lambda: NvmlSession(may_wait=True))
        self._opening: Answer[NvmlSampler] | None = None
        self._round: Answer[Round] | None = None
        self._sampler: NvmlSampler | None = None
        self._lost: frozenset[str] = frozenset()
        self._closed = self._hangs = False
        self._unanswered_rounds = 0
        self._asked_in: AgentTime | None = None

    def wait(self, wait_s: float = START_WAIT_S) -> bool:
        """Whether NVML has started, or said that it can not, within that time."""
        return self._session.wait(wait_s)

    def open(self, clock: Clock, time: AgentTime) -> list[Device]:
        """The node's devices; none where NVML is away, or does not answer. They are then told by a round."""
        self._clock, self._time = clock, time
        self._before_ns = time.now_ns(clock)
        self._opening = self._asking.begin(lambda: NvmlSampler(self._session.result, clock, time))
        if not (self.wait(0) and self._opening.wait(START_WAIT_S)):
            self._say_hanging()
            return []
        return self._opened(self._opening.result)

    def _opened(self, sampler: NvmlSampler) -> list[Device]:
        self._sampler = sampler
        session = self._session.result
        if session.away:
            _log.warning("nvml_away", problem=session.away, then="it is tried again; no device is known yet")
        return session.devices

    @property
    def problem(self) -> str:
        """Why nothing is measured now; empty while NVML answers. Only after `open`."""
        if self._hangs:
            return "NVML does not answer: its driver hangs"
        return self._session.result.away

    def rebase(self, time: AgentTime) -> None:
        """See Sampler.rebase."""
        self._before_ns += time.offset_ns - self._time.offset_ns
        self._time = time

    def sample(self) -> Round:
        """See Sampler.sample: a round with nothing in it where NVML does not answer."""
        if self._sampler is None:
            return self._await_start()
        if self._round is None:
            self._begin_round(self._sampler)
        assert self._round is not None
        if not self._round.wait(ROUND_WAIT_S):
            self._unanswered_rounds += 1
            if self._unanswered_rounds == HANGING_ROUNDS:
                self._say_hanging()
            return self._unanswered()
        self._unanswered_rounds = 0
        answer, self._round = self._round, None
        self._say_answering()
        taken = answer.result
        self._lost = taken.lost
        if self._asked_in is not self._time:  # it is of an epoch that is over, but for who is there
            return replace(self._unanswered(), devices=taken.devices)
        self._before_ns = max(self._before_ns, taken.through_ns)
        return taken

    def _begin_round(self, sampler: NvmlSampler) -> None:
        time, known = self._time, self._asked_in

        def ask() -> Round:
            if time is not known:
                sampler.rebase(time)
            return sampler.sample()

        self._asked_in = time
        self._round = self._asking.begin(ask)

    def _await_start(self) -> Round:
        assert self._opening is not None
        taken = self._unanswered()
        if self._opening.wait(ROUND_WAIT_S):
            self._say_answering()
            taken.devices = self._opened(self._opening.result) or None
        return taken

    def _unanswered(self) -> Round:
        """Nothing is measured beyond what was: the window whose end is not reached in time says `timeout`."""
        return Round(through_ns=self._before_ns, lost=self._lost)

    def _say_hanging(self) -> None:
        if not self._hangs:
            self._hangs = True
            _log.warning("nvml_hangs", then="the agent goes on without it until the call returns")

    def _say_answering(self) -> None:
        if self._hangs:
            self._hangs = False
            _log.info("nvml_answers")

    def close(self) -> None:
        """See Sampler.close. A driver that hangs is left behind. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._asking.begin(self._give_back).wait(CLOSE_WAIT_S)

    def _give_back(self) -> None:
        if self._sampler is not None:
            self._sampler.close()
        self._session.result.close()
