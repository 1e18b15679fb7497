"""What work costs, however busy the machine is: processor seconds of a process and all that it started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s() -> float:
    """User and system seconds of this process and its living descendants, threads that ended included."""
    return sum(map(_ticks, _family(os.getpid()))) / _TICKS_PER_S


def cpu_of_s(pid: int) -> float:
    """User and system seconds of one process."""
    return _ticks(pid) / _TICKS_PER_S


def peak_bytes(pid: int) -> int:
    """The most resident memory that a living process had."""
    status = Path("/proc", str(pid), "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path("/proc", str(pid), "task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _ticks(pid: int) -> int:
    fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
