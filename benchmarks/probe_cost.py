"""What a probed CUDA call costs its caller: the agent's probes against a pair of empty ones.

Entering the kernel at a breakpoint is most of it, and differs widely between virtual machines and bare metal;
what the agent's own programs add is the difference to the empty pair, measured in the same run on the same
function: `python -m benchmarks.probe_cost`. Needs root, bcc, kernel headers, a C compiler and kernel 6.6.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import Runs, write_figure
from gpuledger.agent.probes import ProbeSource, bpfsys
from gpuledger.agent.probes.elf import exported_functions
from gpuledger.agent.probes.headers import ENVIRONMENT, link_bcc, prepare_kernel_headers

CALLS = 20_000
RUNS = 7
KINDS = ("bare", "empty", "agent", "tallied")
FUNCTIONS = ("cuStreamSynchronize", "cuLaunchKernel")
CODE = """
static volatile unsigned long sink;
__attribute__((noinline)) int cuStreamSynchronize(void *stream) { sink += (unsigned long)stream; return 0; }
__attribute__((noinline)) int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
    unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters, void **extra)
{ sink += gx + gy + gz + bx + by + bz + shared + (unsigned long)stream; return 0; }
double ns_per_call(int launch, int calls);
#include <time.h>
double ns_per_call(int launch, int calls)
{
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (int i = 0; i < calls; i++) {
        if (launch)
            cuLaunchKernel((void *)1, 2, 3, 5, 7, 11, 13, 0, (void *)2, 0, 0);
        else
            cuStreamSynchronize((void *)2);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / calls;
}
"""


def build(directory: Path) -> Path:
    """A library with the functions, and a loop that calls them and takes the thread's own time."""
    directory.mkdir()
    source, library = directory / "cost.c", directory / "libcuda.so.1"
    source.write_text(CODE)
    subprocess.run(["cc", "-O2", "-fPIC", "-shared", "-o", library, source], check=True)
    return library


@contextmanager
def empty_probes(library: Path) -> Iterator[None]:
    """A program that does nothing at the entry, and one at the return, of each function."""
    if link_bcc() is None or (headers := prepare_kernel_headers()) is None:
        raise SystemExit("probe_cost: needs python3-bpfcc and linux-headers")
    os.environ[ENVIRONMENT] = str(headers)
    bcc: Any = importlib.import_module("bcc")
    bpf = bcc.BPF(text=b"int empty(void *ctx) { return 0; }", cflags=["-Wno-macro-redefined"])
    program = bpf.load_func(b"empty", bcc.BPF.KPROBE, None, bpfsys.ATTACH_UPROBE_MULTI).fd
    exported = exported_functions(library)
    places = [(exported[name], 0) for name in FUNCTIONS]
    links = [bpfsys.attach_uprobes(program, str(library), places, at_return) for at_return in (False, True)]
    try:
        yield
    finally:
        for link in links:
            os.close(link)
        bpf.cleanup()


@contextmanager
def agent_probes(library: Path, tally_calls_per_s: int | None = None) -> Iterator[ProbeSource]:
    """The probes that the agent uses: a record of each call, or, at 0, tallies of all."""
    source = ProbeSource(tally_calls_per_s=tally_calls_per_s)
    source.start()
    source.preattach(library)
    try:
        yield source
    finally:
        source.close()


def loop_of(library: Path) -> Callable[[int, int], float]:
    """(whether to launch, calls) -> ns a call, through the functions of this library file."""
    call = ctypes.CDLL(str(library)).ns_per_call
    call.restype = ctypes.c_double
    return call


def measure(
    loops: dict[str, Callable[[int, int], float]], launch: bool, *sources: ProbeSource
) -> dict[str, Runs]:
    """ns a call of each loop, taken in turns, so that a busy machine is as busy for one as for the other."""
    values: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(RUNS + 1):
        for name, loop in loops.items():
            values[name].append(loop(int(launch), CALLS))
            for source in sources:
                source.drain()
    return {name: Runs(tuple(taken[1:])) for name, taken in values.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        libraries = {name: build(Path(directory, name)) for name in KINDS}
        loops = {name: loop_of(library) for name, library in libraries.items()}
        with (
            empty_probes(libraries["empty"]),
            agent_probes(libraries["agent"]) as source,
            agent_probes(libraries["tallied"], 0) as tallying,
        ):
            launch = measure(loops, True, source, tallying)
            wait = measure(loops, False, source, tallying)
            for one in (source, tallying):
                if one.losses().events:
                    raise SystemExit(f"probe_cost: lost events: {one.losses()}")
    added = Runs(tuple(a - e for a, e in zip(launch["agent"].values, launch["empty"].values, strict=True)))
    write_figure(
        "probe_cost",
        added.median,
        "ns/call",
        launch["empty"].median,
        launch["agent"].median / launch["empty"].median,
        added.n,
        median=added.median,
        spread=added.spread,
        baseline_name="an empty probe at entry and return of the same function; ratio is whole to whole",
        baseline_spread=launch["empty"].spread,
        function="cuLaunchKernel",
        bare_ns=launch["bare"].median,
        whole_ns=launch["agent"].median,
        synchronize_added_ns=wait["agent"].median - wait["empty"].median,
        synchronize_empty_ns=wait["empty"].median,
        tallied_added_ns=launch["tallied"].median - launch["empty"].median,
        tallied_synchronize_added_ns=wait["tallied"].median - wait["empty"].median,
        calls=CALLS,
    )


if __name__ == "__main__":
    main()
