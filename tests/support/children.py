"""Processes that a test starts and that must not outlive it, however it ends."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_S, until


def tied(command: Sequence[str]) -> list[str]:
    """The command, killed by the kernel when the thread that starts it has gone; it keeps its pid.
    A starter that is killed within the millisecond before the tie is made leaves it behind.

    No ``preexec_fn``: that would fork this process, and gRPC's threads do not survive a fork.
    """
    return ["setpriv", "--pdeathsig", "KILL", *command]


def asked_to_end(
    process: subprocess.Popen[Any], number: signal.Signals = signal.SIGTERM, within_s: float = PATIENCE_S
) -> int:
    """Send the signal once the process has a handler of its own for it, before which it would die of it;
    its exit status."""
    until(lambda: process.poll() is not None or handles(process.pid, number))
    process.send_signal(number)
    return process.wait(within_s)


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process that is not reaped yet has a handler for that signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)
