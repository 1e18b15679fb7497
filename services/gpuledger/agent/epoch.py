"""Agent time: the boot clock plus an offset that is fixed for one life of the agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.identity import Epoch

BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
MAX_ERROR_NS = NS_PER_S  # beyond it events would be priced in the wrong second; a new epoch begins
OFFSET_READINGS = 5  # the reading with the least time between its two clock calls is the best


def boot_id() -> str:
    """The kernel's id of this boot."""
    return BOOT_ID_FILE.read_text(encoding="ascii").strip()


@dataclass(frozen=True, slots=True)
class AgentTime:
    """One epoch's time: ns since the Unix epoch = boot clock + ``offset_ns``, which never steps."""

    epoch: Epoch
    offset_ns: int

    @staticmethod
    def begin(clock: Clock, boot: str) -> AgentTime:
        """A new epoch that starts now."""
        best: tuple[int, int] | None = None
        for _ in range(OFFSET_READINGS):
            before = clock.boot_ns()
            unix = clock.unix_ns()
            after = clock.boot_ns()
            if best is None or after - before < best[0]:
                best = (after - before, unix - (before + after) // 2)
        assert best is not None
        return AgentTime(Epoch(boot, clock.boot_ns()), best[1])

    def unix_ns(self, boot_ns: int) -> int:
        """Agent time of an instant of the boot clock."""
        return boot_ns + self.offset_ns

    def now_ns(self, clock: Clock) -> int:
        """Agent time now."""
        return clock.boot_ns() + self.offset_ns

    def error_ns(self, clock: Clock) -> int:
        """How far the wall clock is from agent time now; beyond MAX_ERROR_NS the epoch is over."""
        return clock.unix_ns() - self.now_ns(clock)

    def is_over(self, clock: Clock) -> bool:
        """Whether the wall clock was stepped so far that a new epoch must begin."""
        return abs(self.error_ns(clock)) > MAX_ERROR_NS
