"""How often the agent's loop goes round: rarely, for a round costs something however little there is to do;
but before the source is full, and soon after each second, when a window may have ended."""

from __future__ import annotations

import threading
from typing import Final, Protocol

from gpuledger.contract.clock import NS_PER_S

ROUND_NS: Final = NS_PER_S  # holders, libraries and figures need no better; windows are whole seconds
AFTER_NS: Final = 50_000_000  # behind the instant at which all of a second is settled
LEAST_NS: Final = 100_000_000  # a round that was woken a little too early is not followed by one at once
LOOK_S: Final = 0.1  # a ring holds a sixth of a second of a million calls a second
MUCH_RATIO: Final = 1 / 8  # of what the source can hold


class Filling(Protocol):
    """What fills while the loop rests."""

    @property
    def filled_ratio(self) -> float:
        """How full it is, 0 to 1."""

    @property
    def probes_changed(self) -> bool:
        """Whether there is something new to be said of what it can see."""

    def follow(self, seconds: float) -> bool:
        """Lets so much time pass while it watches processes begin. False where it has not."""


def until_round_s(now_ns: int, delay_ns: int) -> float:
    """How long to rest at that time (agent time), where calls are settled ``delay_ns`` after they returned:
    until a little after the next second is."""
    left_ns = ROUND_NS - (now_ns - delay_ns - AFTER_NS) % ROUND_NS
    return (left_ns if left_ns > LEAST_NS else left_ns + ROUND_NS) / NS_PER_S


def rest(stop: threading.Event, source: Filling | None, seconds: float) -> None:
    """Wait so long, less if the source fills, if it sees more than before, or if all ends."""
    looks = max(1, round(seconds / LOOK_S))
    for _ in range(looks):
        if source is not None and (source.filled_ratio > MUCH_RATIO or source.probes_changed):
            return
        if source is None or not source.follow(seconds / looks):
            stop.wait(seconds / looks)
        if stop.is_set():
            return
