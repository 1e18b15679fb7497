"""``python -m tests.chaos.stepped ...``: gpuledger with a wall clock that a chaos run can step.

What is added to the wall clock, in ns, is the first line of the file that CHAOS_CLOCK names. An agent becomes
another program once it has read its options: that one is this module again, with a number as its argument.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

CLOCK = "CHAOS_CLOCK"


def step_ns(clock: Path) -> int:
    """What a clock is stepped by now."""
    return int(clock.read_text()) if clock.exists() else 0


def set_step(clock: Path, ns: int) -> None:
    """Step a clock: whoever reads it sees the old step or the new one."""
    beside = clock.with_suffix(".new")
    beside.write_text(str(ns))
    beside.replace(clock)


def call() -> None:
    """What was asked for; the agent's own program imports nothing of the command line."""
    if sys.argv[1:2] and sys.argv[1].isdecimal():
        from gpuledger.agent import lean

        lean.main()
    else:
        from gpuledger.agent import handover
        from gpuledger.cli import main

        setattr(handover, "LEAN_MODULE", "tests.chaos.stepped")  # noqa: B010  # it is final elsewhere
        main()


if __name__ == "__main__":
    unstepped_ns, its_clock = time.time_ns, Path(os.environ[CLOCK])
    time.time_ns = lambda: unstepped_ns() + step_ns(its_clock)
    call()
