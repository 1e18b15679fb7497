"""When a window is ready to go out, how large its parts are, and how coarse they may be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuledger.contract.windows import WindowGrid

EVENT_GRACE_NS = 200_000_000  # the kernel hands an event over within microseconds, a stalled CPU within 0.1 s
SAMPLE_WAIT_NS = 800_000_000  # a driver that answers later than that has a gap; rows are due within 5 s
NAME_WAIT_NS = 30_000_000_000  # a cluster that has not told a pod's name by then is not going to soon
MAX_EVENTS_PER_BATCH = 16_384  # a record costs a millisecond whatever is in it; 0.3 to 1.2 MB of 8
MAX_SAMPLES_PER_BATCH = 8192
RAW, TALLY, HOLLOW = 0, 1, 2
"""Coarsening of a window: its calls are as the kernel gave them, tallied, or its frame alone is kept."""


class Lost(NamedTuple):
    """Cumulative losses since the epoch began, as the header states them."""

    kernel: int = 0
    user: int = 0
    unpaired_returns: int = 0


@dataclass(frozen=True, slots=True)
class CutterRules:
    """When the cutter waits for whom, and how large a part becomes."""

    grid: WindowGrid
    event_grace_ns: int = EVENT_GRACE_NS
    sample_wait_ns: int = SAMPLE_WAIT_NS
    name_wait_ns: int = NAME_WAIT_NS
    max_events: int = MAX_EVENTS_PER_BATCH
    max_samples: int = MAX_SAMPLES_PER_BATCH
    samples_expected: bool = True
    agent_version: str = ""

    def impatient(self) -> CutterRules:
        """The same for a stop: whoever is late by now is not waited for."""
        return replace(self, event_grace_ns=0, sample_wait_ns=0, name_wait_ns=0)
