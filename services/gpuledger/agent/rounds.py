"""Whether the agent's loop still comes round: its sign of life for who supervises it."""

from __future__ import annotations

from typing import Final

from gpuledger.contract.clock import NS_PER_S, Clock

STUCK_S: Final = 300.0  # a round takes milliseconds; from a disk that is slow for minutes it recovers


class Rounds:
    """Of one loop. Its thread calls ``come``, any thread the rest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._came_ns: int | None = None

    def come(self) -> None:
        """A round begins: the next is awaited within `STUCK_S`."""
        self._came_ns = self._clock.boot_ns()

    def problem(self) -> str:
        """What is wrong, in a line; empty while the loop comes round, and before it begins."""
        came_ns = self._came_ns
        silent_s = 0.0 if came_ns is None else (self._clock.boot_ns() - came_ns) / NS_PER_S
        return f"the agent's loop has not come round for {silent_s:.0f} s" if silent_s > STUCK_S else ""
