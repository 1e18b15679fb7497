"""The only way in which logic asks for the time: a clock that is passed in."""

from __future__ import annotations

import time
from typing import Protocol

NS_PER_S = 1_000_000_000


class Clock(Protocol):
    """Two clocks of one machine, in ns."""

    def unix_ns(self) -> int:
        """Wall clock: ns since the Unix epoch (UTC, without leap seconds)."""

    def boot_ns(self) -> int:
        """Boot clock (CLOCK_BOOTTIME): never steps, counts suspend; what eBPF stamps events with."""

    def sleep(self, seconds: float) -> None:
        """Return after about that many seconds."""


class SystemClock:
    """The machine's own clocks."""

    def unix_ns(self) -> int:
        """See Clock.unix_ns."""
        return time.time_ns()

    def boot_ns(self) -> int:
        """See Clock.boot_ns."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        """See Clock.sleep."""
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told: ``advance`` moves both, ``step`` only the wall clock."""

    def __init__(self, unix_ns: int = 0, boot_ns: int = 0) -> None:
        self._unix_ns = unix_ns
        self._boot_ns = boot_ns

    def unix_ns(self) -> int:
        """See Clock.unix_ns."""
        return self._unix_ns

    def boot_ns(self) -> int:
        """See Clock.boot_ns."""
        return self._boot_ns

    def sleep(self, seconds: float) -> None:
        """Advance instead of waiting."""
        self.advance(int(seconds * NS_PER_S))

    def advance(self, ns: int) -> None:
        """Let ``ns`` pass on both clocks."""
        self._unix_ns += ns
        self._boot_ns += ns

    def step(self, ns: int) -> None:
        """Set the wall clock forward (or back) as an administrator or NTP would."""
        self._unix_ns += ns
