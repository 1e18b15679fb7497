"""What /proc says about one process."""

from __future__ import annotations

import os
from pathlib import Path

_NS_PER_S = 1_000_000_000


def start_ticks(stat: str) -> int:
    """Field 22 of /proc/PID/stat, ticks of the boot clock. The name in brackets may hold anything."""
    return int(stat[stat.rindex(")") + 2 :].split(" ")[19])


def process_start_ns(pid: int, root: Path = Path("/proc")) -> int | None:
    """Boot clock in ns at the start of ``pid``, cut down to a tick (10 ms); None where it is gone.

    The same start as ``start_ns`` of a RAW_EVENT, which is exact: compare them with `same_start`.
    """
    try:
        stat = Path(root, str(pid), "stat").read_text(errors="replace")
    except OSError:
        return None
    return start_ticks(stat) * tick_ns()


def tick_ns() -> int:
    """Length of the clock tick in which /proc counts."""
    return _NS_PER_S // os.sysconf("SC_CLK_TCK")


def same_start(event_start_ns: int, proc_start_ns: int) -> bool:
    """Whether an event's exact start and /proc's cut-down one agree; 0 (not told) agrees with all."""
    return event_start_ns == 0 or event_start_ns // tick_ns() == proc_start_ns // tick_ns()
