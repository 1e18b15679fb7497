"""Rounds over all devices with NVML, and the devices themselves: they go, come back, or are divided anew."""

from __future__ import annotations

from typing import Any, Final

from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.nvml import NvmlSession
from gpuledger.agent.samplers.gpm import GpmReader
from gpuledger.agent.samplers.nvml_device import NS_PER_US, DeviceRound, DeviceState
from gpuledger.agent.samplers.samples import Gap, Round
from gpuledger.agent.samplers.xid import XidEvents
from gpuledger.contract.clock import Clock
from gpuledger.contract.fields import SampleSource
from gpuledger.contract.records import Device
from gpuledger.logs import EventLog

LAYOUT_ROUNDS: Final = 5  # a MIG layout changes seldom, and only while the GPU is idle
REOPEN_AFTER_ROUNDS: Final = 3  # every device lost at once is a driver that was unloaded; it may come back
REOPEN_PART: Final = 4  # this part of the rounds that it was away passes until the next try
LONGEST_REOPEN_ROUNDS: Final = 30  # a try costs some milliseconds

_log = EventLog(__name__)


class NvmlSampler:
    """A `Sampler` over an NVML session, which it does not own.

    It declares on the session's devices whether SM active is measured; that holds as long as the node has
    these devices, since the occupied share of a device must not change its meaning on the way.
    """

    def __init__(self, session: NvmlSession, clock: Clock, time: AgentTime) -> None:
        self._session = session
        self._clock = clock
        self._time = time
        self._away_rounds = 0
        self._reopen_at = REOPEN_AFTER_ROUNDS
        self._rounds = 0
        self._before_ns = time.now_ns(clock)
        self._open()
        self._declare()

    def _open(self) -> None:
        session, now = self._session, self._time.now_ns(self._clock)
        self._states = [
            DeviceState(device, handle, now)
            for device, handle in zip(session.devices, session.handles, strict=True)
        ]
        self._xids = XidEvents(session.devices, session.handles)
        for state, device in zip(self._states, session.devices, strict=True):
            state.gpm = _gpm_of(session, device, state.handle)
            state.gpm_since_ns = self._time.now_ns(self._clock)
            state.seen_us = self._clock.unix_ns() // NS_PER_US

    def _declare(self) -> None:
        for state, device in zip(self._states, self._session.devices, strict=True):
            device.sm_active_declared = state.gpm is not None

    def rebase(self, time: AgentTime) -> None:
        """Go on in another epoch's time."""
        shift = time.offset_ns - self._time.offset_ns
        self._before_ns += shift
        for state in self._states:
            state.since_ns += shift
            state.gpm_since_ns += shift
        self._time = time

    def sample(self) -> Round:
        """See Sampler.sample."""
        taken = Round(through_ns=self._time.now_ns(self._clock))
        errors = {error.device: error.code for error in self._xids.read()}
        for state in self._states:
            DeviceRound(state, taken, self._clock, self._time).take(errors.get(state.uuid))
        taken.lost = frozenset(state.uuid for state in self._states if state.lost)
        self._rounds += 1
        if len(taken.lost) == len(self._states):
            self._wait_for_driver(taken)
        else:
            self._away_rounds, self._reopen_at = 0, REOPEN_AFTER_ROUNDS
            if self._rounds % LAYOUT_ROUNDS == 0 and self._session.look_again():
                self._begin_anew(taken)
        self._before_ns = taken.through_ns
        return taken

    def _wait_for_driver(self, taken: Round) -> None:
        """All devices are lost, or there never was one: NVML is tried again, ever more seldom."""
        self._away_rounds += 1
        if not self._states:
            span_ns = taken.through_ns - self._before_ns
            taken.gaps.append(Gap("", None, SampleSource.NVML, self._before_ns, span_ns, "lost"))
        if self._away_rounds >= self._reopen_at:
            pause = max(REOPEN_AFTER_ROUNDS, min(self._away_rounds // REOPEN_PART, LONGEST_REOPEN_ROUNDS))
            self._reopen_at = self._away_rounds + pause
            self._begin_anew(taken)

    def _begin_anew(self, taken: Round) -> None:
        """With the devices that there are now, which the round tells where they are others."""
        before = self._session.devices
        self._give_back()
        if not self._session.reopen():
            if self._away_rounds <= REOPEN_AFTER_ROUNDS:
                _log.warning("nvml_away", problem=self._session.away, then="it is tried again")
            return
        self._open()
        _log.info("nvml_there", devices=len(self._states), same=self._session.devices is before)
        if self._session.devices is not before:
            self._declare()
            taken.devices = self._session.devices

    def close(self) -> None:
        """See Sampler.close."""
        self._give_back()

    def _give_back(self) -> None:
        self._xids.close()
        for state in self._states:
            if state.gpm is not None:
                state.gpm.close()
                state.gpm = None


def _gpm_of(session: NvmlSession, device: Device, handle: Any) -> GpmReader | None:
    """GPM of a device. Of a GPU instance that several compute instances share no one of them has a value."""
    if not device.parent_uuid:
        return None if device.sharing == "mig" else GpmReader.open(handle)
    same = [d for d in session.devices if d.parent_uuid == device.parent_uuid]
    if sum(d.gpu_instance == device.gpu_instance for d in same) > 1:
        return None
    parent = next(n for n, d in enumerate(session.devices) if d.uuid == device.parent_uuid)
    return GpmReader.open(session.handles[parent], device.gpu_instance)
