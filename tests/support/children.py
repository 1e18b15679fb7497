"""Processes that a test starts and that must not outlive it, however it ends."""

from __future__ import annotations

from collections.abc import Sequence


def tied(command: Sequence[str]) -> list[str]:
    """The command, killed by the kernel when the thread that starts it has gone; it keeps its pid.
    A starter that is killed within the millisecond before the tie is made leaves it behind.

    No ``preexec_fn``: that would fork this process, and gRPC's threads do not survive a fork.
    """
    return ["setpriv", "--pdeathsig", "KILL", *command]
