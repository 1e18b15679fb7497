"""A measurement, a measurement that could not be had, and the one who takes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gpuledger.agent.epoch import AgentTime
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.records import Device


class Sample(NamedTuple):
    """One measured value and the interval that it speaks for, in agent time; 0 ns long: an instant.

    ``pid`` is None for a value of the whole device. ``value`` is in the field's unit.
    """

    device: str
    pid: int | None
    field: Field
    source: SampleSource
    start_ns: int
    duration_ns: int
    value: float


class Gap(NamedTuple):
    """A value that should have been measured and was not; ``device`` empty: the node, field None: all."""

    device: str
    field: Field | None
    source: SampleSource
    start_ns: int
    duration_ns: int
    reason: str


@dataclass(slots=True)
class Round:
    """What one pass over the devices gave.

    ``through_ns``: all that was to be measured before that instant is in this or an earlier round.
    ``contexts``: pids that the driver says have a context on a device (uuid), None where it does not answer.
    """

    through_ns: int
    samples: list[Sample] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    contexts: dict[str, dict[int, int | None]] = field(default_factory=dict)
    """Of each device that answered: pid -> resident bytes, None where the driver does not say."""
    lost: frozenset[str] = frozenset()
    """Devices that fell off the bus."""
    devices: list[Device] | None = None
    """The node's devices from the next round on, where they are not those that they were."""


class Sampler(Protocol):
    """Takes one round of measurements when asked. Called from one thread, which may block in it."""

    def sample(self) -> Round:
        """Measure now. Never raises for a device that does not answer: that is a gap."""

    def rebase(self, time: AgentTime) -> None:
        """Go on in another epoch's time."""

    def close(self) -> None:
        """Give back what the sampler holds."""
