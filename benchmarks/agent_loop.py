"""The agent's loop alone, from drained calls to encoded records in the spool: what an event costs it, and
whether it grows.

A node that is made up (tests/support/passing.py) stands behind the agent's interfaces, with a clock that is
moved by hand: an hour passes in a minute or two. No kernel, no Kafka, no NVML, one thread. The cost is CPU
time of the process, less what it takes to make the calls up. Growth is told by Python's live blocks and
glibc's heap, which other work on the machine does not touch, beside resident memory:
`python -m benchmarks.agent_loop [--hours N]`.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks._agent import resident_mib
from benchmarks.figures import Runs, write_figure
from tests.support.agent import S
from tests.support.passing import PassingAgent
from tests.support.passing_node import Passing

RUNS = 5
STEADY = Passing(living=8, life_ns=200 * S, calls_per_s=1250)
STEADY_S = 40  # four windows
COMING = Passing(living=8, life_ns=3 * S // 2, calls_per_s=200)
SETTLE_S = 400  # names of pods that went are kept for five minutes
MIB = 1 << 20


_MALLINFO = ("arena", "ordblks", "smblks", "hblks", "hblkhd")
_MALLINFO += ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class _Mallinfo(ctypes.Structure):
    """struct mallinfo2 of malloc.h."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLINFO)


class Held(NamedTuple):
    """What the process holds: Python's blocks, MiB in use of glibc's heap, MiB resident."""

    blocks: int
    heap_mib: float
    resident_mib: float


def held() -> Held:
    """What it holds now."""
    gc.collect()
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo
    info = libc.mallinfo2()
    return Held(sys.getallocatedblocks(), (info.uordblks + info.hblkhd) / MIB, resident_mib(os.getpid()))


def cost_ns(passing: PassingAgent) -> tuple[float, float]:
    """(ns of CPU that an event took the agent, that it took to make it up)."""
    source = passing.source
    made, making_ns, began_ns = source.made, source.making_ns, time.process_time_ns()
    passing.pass_ns(STEADY_S * S)
    making_ns = source.making_ns - making_ns
    whole_ns, made = time.process_time_ns() - began_ns, source.made - made
    return (whole_ns - making_ns) / made, making_ns / made


def measure_cost(directory: Path) -> None:
    """Eight processes that make 10,000 calls a second."""
    passing = PassingAgent(directory, STEADY)
    passing.pass_ns(STEADY.life_ns + STEADY_S * S)  # as many live by then as shall
    taken = [cost_ns(passing) for _ in range(RUNS)]
    own, making = (Runs(tuple(one[i] for one in taken)) for i in (0, 1))
    write_figure(
        "agent_loop",
        own.median,
        "ns/event",
        making.median,
        own.median / making.median,
        own.n,
        median=own.median,
        spread=own.spread,
        baseline_name="to make the same events up, with numpy",
    )


def measure_growth(directory: Path, hours: float) -> None:
    """Five processes a second that come and go."""
    passing = PassingAgent(directory, COMING)
    passing.pass_ns(SETTLE_S * S)
    before, seen = held(), passing.node.seen
    passing.pass_ns(int(hours * 3600) * S)
    after, seen = held(), passing.node.seen - seen
    write_figure(
        "agent_growth",
        (after.heap_mib - before.heap_mib) / hours,
        "MiB of heap an hour",
        None,
        None,
        1,
        hours=hours,
        processes=seen,
        blocks=(before.blocks, after.blocks),
        heap_mib=(before.heap_mib, after.heap_mib),
        resident_mib=(before.resident_mib, after.resident_mib),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hours", type=float, default=1.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name:
        measure_cost(Path(name, "cost"))
        measure_growth(Path(name, "growth"), arguments.hours)


if __name__ == "__main__":
    main()
