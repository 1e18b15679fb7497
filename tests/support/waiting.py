"""Waiting for what comes by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 240.0  # of a machine with much else to do; it costs nothing where all goes well


def until(condition: Callable[[], object], timeout_s: float = PATIENCE_S, pause_s: float = 0.05) -> None:
    """Return once the condition holds; an AssertionError after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about in {timeout_s:.0f} s"
        time.sleep(pause_s)
