"""Processes that a test starts and that must not outlive it, however it ends."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def die_with_parent() -> None:
    """For ``preexec_fn``: the kernel kills the child when the thread that started it has gone."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
