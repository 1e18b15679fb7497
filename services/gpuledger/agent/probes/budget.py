"""From which rate on a process is tallied: sooner on a node that calls very often in all."""

from __future__ import annotations

from typing import Final

from gpuledger.contract.clock import NS_PER_S

NODE_CALLS_PER_S: Final = 80_000
"""Calls of all processes that the agent takes one by one: some 0.8 us of a core each, on busy cores."""
CALM_RATIO: Final = 0.8  # of it, below which a busy node counts as calm again
BUSY_CALLS_PER_S: Final = 5_000
"""Of one process, on a busy node: sixteen that stay below it fit in what the node may make."""
LEAST_NS: Final = NS_PER_S // 2  # a shorter time says little of a rate


class RateBudget:
    """Given how many calls the node has made, says the rate. Times are of any clock that only rises."""

    def __init__(self, calls_per_s: int | None) -> None:
        """``calls_per_s``: on a calm node; None (never), and what is lower than on a busy one, stay."""
        self._calm = calls_per_s
        self._busy = False
        self._calls = 0
        self._since_ns: int | None = None

    @property
    def calls_per_s(self) -> int | None:
        """From this rate on a process is tallied now."""
        if not self._busy or self._calm is None:
            return self._calm
        return min(self._calm, BUSY_CALLS_PER_S)

    def note(self, calls: int, now_ns: int) -> bool:
        """``calls``: all so far, recorded or tallied. Whether the rate is another one now."""
        if self._since_ns is None:
            self._calls, self._since_ns = calls, now_ns
            return False
        if now_ns - self._since_ns < LEAST_NS:
            return False
        made_per_s = (calls - self._calls) * NS_PER_S / (now_ns - self._since_ns)
        self._calls, self._since_ns = calls, now_ns
        before = self.calls_per_s
        self._busy = made_per_s > NODE_CALLS_PER_S * (CALM_RATIO if self._busy else 1)
        return self.calls_per_s != before
