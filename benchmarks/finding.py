"""How soon the calls of a process with a libcuda of its own are seen, from the moment that it loads it.

The kernel's records of mappings against a look at all processes each second, in turns; each run is a new
process with a new copy of the library, and each time is that of its first call that was seen, which
includes the loading itself. Also what a mapping of any other file costs the agent. Needs root, and a C
compiler as the tests of the probes do: `python -m benchmarks.finding`.
"""

from __future__ import annotations

import mmap
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Runs, write_figure
from gpuledger.agent.probes import ProbeSource
from gpuledger.agent.probes.mappings import MappingWatch
from tests.bpf.workbench import Bench, Running, build, events_of

RUNS = 7
WAIT_S = 30.0
LOOK_S = 1.0
MAPPINGS = 5000
AT_ONCE = 50  # fit in the ring of a CPU

CHILD = """
import ctypes, select, sys, time
print(time.clock_gettime_ns(time.CLOCK_BOOTTIME), flush=True)
driver = ctypes.CDLL(sys.argv[1])
while not select.select([sys.stdin], [], [], 0.001)[0]:
    driver.cuInit(0)
"""


def looked(source: ProbeSource) -> None:
    """One second of an agent that looks once in it, at any moment."""
    before_s = random.uniform(0, LOOK_S)
    time.sleep(before_s)
    source.refresh()
    time.sleep(LOOK_S - before_s)


def delay_ms(source: ProbeSource, bench: Bench, wait: Callable[[ProbeSource], object]) -> float:
    """From the load of a library that was never seen to the first call in it that is."""
    with tempfile.TemporaryDirectory() as directory:
        library = bench.copy_library(Path(directory))
        with Running([sys.executable, "-c", CHILD, library], Path(directory)) as running:
            began_ns = int(running.line())
            deadline = time.monotonic() + WAIT_S
            while not len(seen := events_of(source, running.pid)):
                if time.monotonic() > deadline:
                    raise SystemExit("finding: the process was not found")
                wait(source)
            running.finish()
    return (int(seen["time_ns"].min()) - began_ns) / 1e6


def mapping_us() -> float:
    """CPU microseconds that it takes to be told of a mapping of a file that is no libcuda."""
    watch = MappingWatch()
    spent_ns = 0
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(bytes(mmap.PAGESIZE))
        file.flush()
        for _ in range(MAPPINGS // AT_ONCE):
            for _ in range(AT_ONCE):
                protection = mmap.PROT_READ | mmap.PROT_EXEC
                mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE, protection).close()
            start = time.process_time_ns()
            watch.take()
            spent_ns += time.process_time_ns() - start
    watch.close()
    return spent_ns / 1e3 / MAPPINGS


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        bench = build(Path(directory))
        source = ProbeSource()
        source.start()
        source.refresh()
        told, looking = [], []
        for _ in range(RUNS):
            told.append(delay_ms(source, bench, lambda source: source.follow(0.1)))
            looking.append(delay_ms(source, bench, looked))
        source.close()
    one, other = Runs(tuple(told)), Runs(tuple(looking))
    write_figure(
        "finding",
        one.median,
        "ms",
        other.median,
        one.median / other.median,
        one.n,
        spread=one.spread,
        baseline_name="a look at all processes each second",
        baseline_spread=other.spread,
        mapping_us=Runs(tuple(mapping_us() for _ in range(RUNS))).median,
    )


if __name__ == "__main__":
    main()
