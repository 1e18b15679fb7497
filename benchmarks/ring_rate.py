"""How many calls are lost at a rate: none, recorded or tallied.

Two ways of making calls. `recorded`, `default`, `tallied`: threads launch and wait on a stub library as fast
as they can, and what came out is compared with what they say that they called; the trap of each call bounds
the rate on a small machine. `offered`: the kernel itself tells of calls that nobody made, by all that is
behind a probe but the trap (benchmarks/ring_offer.bpf.c), for 25 processes at 40,000 a second each: a million
a second, or as many as the processors of this machine can make. Another process drains as the agent does, and
gives each call its process and device; how many were records of their own, and not tallied for want of room
in the ring, is in the figure. Each has the rate that was reached: `python -m benchmarks.ring_rate`. Needs
root, a C compiler, clang and libbpf.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks import _offering
from benchmarks.figures import write_figure
from gpuledger.agent.pace import rest
from gpuledger.agent.probes import Limits, ProbeSource
from gpuledger.agent.probes.libbpf import LibbpfLoader
from gpuledger.agent.probes.source import DEFAULT_TALLY_CALLS_PER_S
from gpuledger.agent.proc_reader import ProcReader
from gpuledger.agent.processes import ProcessTable
from gpuledger.contract.records import Device

SECONDS = 5
TICK_S = 0.1  # how often the agent looks whether much waits
OFFERING_PROCESSES = 25  # each below the rate from which it would be tallied
ROUND_S = 1.0  # the agent's
TARGET_CALLS_PER_S = 1_000_000
LIBRARY = """
__attribute__((noinline)) int cuStreamSynchronize(void *stream) { return stream != 0; }
__attribute__((noinline)) int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
    unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters, void **extra)
{ return gx + gy + gz + bx + by + bz + shared == 0 && f == stream && parameters == extra; }
"""
CALLER = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int cuStreamSynchronize(void *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                   void **, void **);
static time_t end;
static void *work(void *calls)
{
    while (time(0) < end)
        for (int i = 0; i < 1000; i++) {
            for (int launch = 0; launch < 7; launch++)
                cuLaunchKernel((void *)1, 2, 1, 1, 32, 1, 1, 0, 0, 0, 0);
            cuStreamSynchronize(0);
            *(long *)calls += 8;
        }
    return 0;
}
int main(int count, char **arguments)
{
    long calls[64] = {0}, sum = 0;
    pthread_t ids[64];
    int threads = atoi(arguments[1]);
    end = time(0) + atoi(arguments[2]);
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], 0, work, &calls[i]);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], 0);
    for (int i = 0; i < threads; i++)
        sum += calls[i];
    printf("%ld\\n", sum + 0L * count);
    return 0;
}
"""


def build(directory: Path) -> tuple[Path, Path]:
    """(library, program)."""
    library, program = directory / "libcuda.so.1", directory / "caller"
    (directory / "library.c").write_text(LIBRARY)
    (directory / "caller.c").write_text(CALLER)
    shared = ["-fPIC", "-shared", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["cc", "-O2", *shared, "-o", library, directory / "library.c"], check=True)
    link = [library, "-pthread", f"-Wl,-rpath,{directory}"]
    subprocess.run(["cc", "-O2", "-o", program, directory / "caller.c", *link], check=True)
    return library, program


def offer(library: Path, program: Path, tally_calls_per_s: int | None) -> dict[str, float]:
    """Calls made a second, calls lost by the probes' own count and by comparison, and rows that came out."""
    source = ProbeSource(tally_calls_per_s=tally_calls_per_s)
    source.start()
    try:
        source.preattach(library)
        source.drain()
        began = time.monotonic()
        command = [str(program), str(os.cpu_count() or 1), str(SECONDS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            seen = rows = 0
            ended = False
            while not ended:
                time.sleep(TICK_S)
                ended = process.poll() is not None
                events = source.drain()
                mine = events[events["pid"] == process.pid]
                seen, rows = seen + int(mine["count"].sum()), rows + len(mine)
            elapsed = time.monotonic() - began
            assert process.stdout is not None
            made = int(process.stdout.read())
        lost = source.losses().events
    finally:
        source.close()
    return {"calls_per_s": made / elapsed, "calls": made, "lost": lost, "missing": made - seen, "rows": rows}


def offer_by_kernel(directory: Path) -> dict[str, float]:
    """The same of calls that the kernel tells of, by itself; and what it takes the process that drains."""
    program, object_ = _offering.build(directory)
    loaded: list[LibbpfLoader] = []

    def load(limits: Limits) -> LibbpfLoader:
        loaded.append(LibbpfLoader(limits, path=object_))
        return loaded[0]

    source = ProbeSource(load=load, tally_calls_per_s=None)  # but where the ring has no room
    source.start()
    reader = ProcReader()
    table = ProcessTable(reader, [Device(uuid="GPU-0", index=0)], "boot", source)
    fd = loaded[0].program("offer")
    offering = _offering.start(program, fd, TARGET_CALLS_PER_S, SECONDS, OFFERING_PROCESSES)
    try:
        pids = {process.pid for process in offering}
        stop = threading.Event()
        _offering.go(offering)
        began, began_ns = time.monotonic(), time.process_time_ns()
        seen = recorded = 0
        ended = False
        while not ended:
            ended = all(process.poll() is not None for process in offering)
            if not ended:
                rest(stop, source, ROUND_S)
            events = source.drain()
            table.resolve(events, 0)
            mine = events[np.isin(events["pid"], list(pids))]
            seen += int(mine["count"].sum())
            recorded += int((mine["span_ns"] == 0).sum())
        cpu_ns, elapsed = time.process_time_ns() - began_ns, time.monotonic() - began
        made, took_s = _offering.made(offering)
        lost = source.losses().events
    finally:
        reader.close()
        source.close()
    return {
        "calls_per_s": made / took_s,
        "calls": made,
        "lost": lost,
        "missing": made - seen,
        "rows": recorded,
        "drain_ns": cpu_ns / max(made, 1),
        "drain_percent": cpu_ns / 1e7 / elapsed,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        library, program = build(Path(directory))
        found = {
            name: offer(library, program, rate)
            for name, rate in (("recorded", None), ("default", DEFAULT_TALLY_CALLS_PER_S), ("tallied", 0))
        }
        found["offered"] = offer_by_kernel(Path(directory))
    for name, figures in found.items():
        print(
            f"  {name:<10} " + "  ".join(f"{key} {value:,.0f}" for key, value in figures.items()), flush=True
        )
    default, recorded = found["default"], found["recorded"]
    write_figure(
        "ring_rate",
        abs(default["missing"]),
        "calls lost",
        abs(recorded["missing"]),
        None,
        1,
        baseline_name="the same with a record of each call as long as the ring has room",
        calls_per_s=default["calls_per_s"],
        target_calls_per_s=TARGET_CALLS_PER_S,
        seconds=SECONDS,
        threads=os.cpu_count(),
        kinds=found,
    )


if __name__ == "__main__":
    main()
