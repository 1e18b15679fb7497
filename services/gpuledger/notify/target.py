"""What every target of notices can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpuledger.contract.records import Breach
from gpuledger.notify.notice import Notice


class Target(Protocol):
    """Owned by the thread of its courier, which closes it.

    Both methods raise TargetAway where the same call may succeed later, and TargetRefused where it will not.
    """

    def send(self, notice: Notice) -> None:
        """Deliver; when it returns, the target has it."""

    def keep(self, firing: Sequence[Breach], now_ns: int) -> None:
        """Called each KEEP_EVERY_S with all that fires, for targets that forget what is not repeated."""

    def close(self) -> None:
        """Let go of connections."""


KEEP_EVERY_S = 60.0  # as often as Prometheus repeats its alerts
