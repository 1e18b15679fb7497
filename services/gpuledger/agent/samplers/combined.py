"""Two samplers as one: the second only adds what the first does not measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.samplers.samples import Gap, Round, Sample, Sampler
from gpuledger.contract.fields import Field
from gpuledger.contract.records import Device


class ToldSampler(Sampler, Protocol):
    """A sampler that must be told which devices there are."""

    def know(self, devices: Sequence[Device]) -> None:
        """From now on the node has these."""


class CombinedSampler:
    """``first`` measures each second and knows the devices, ``second`` more seldom and less exactly; it owns
    both.

    A value that ``first`` had within the interval of a sample of ``second`` makes that sample superfluous:
    of two sources of one field the core takes one for the whole window.
    """

    def __init__(self, first: Sampler, second: ToldSampler) -> None:
        self._first = first
        self._second = second
        self._measured_ns: dict[tuple[str, Field | None], int] = {}

    def rebase(self, time: AgentTime) -> None:
        """See Sampler.rebase."""
        self._first.rebase(time)
        self._second.rebase(time)
        self._measured_ns.clear()

    def sample(self) -> Round:
        """See Sampler.sample."""
        taken = self._first.sample()
        for sample in taken.samples:
            if sample.pid is None:
                self._measured_ns[sample.device, sample.field] = sample.start_ns + sample.duration_ns
        if taken.devices is not None:
            self._second.know(taken.devices)
        more = self._second.sample()
        taken.samples += [sample for sample in more.samples if not self._has(sample)]
        taken.gaps += [gap for gap in more.gaps if not self._has(gap)]
        return taken

    def close(self) -> None:
        """See Sampler.close."""
        self._first.close()
        self._second.close()

    def _has(self, entry: Sample | Gap) -> bool:
        measured_ns = self._measured_ns.get((entry.device, entry.field))
        return measured_ns is not None and measured_ns > entry.start_ns
