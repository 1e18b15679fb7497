"""Processes that make CUDA calls at a rate, for benchmarks of the agent: a stub library, a seeded caller."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LIBRARY = """
typedef unsigned long long ptr;
static volatile unsigned long long sink;
static ptr next = 1 << 20;
#define STUB __attribute__((noinline)) int
STUB cuInit(unsigned flags) { sink += flags; return 0; }
STUB cuDevicePrimaryCtxRetain(void **c, int device) { *c = (void *)(long)(device + 1); return 0; }
STUB cuCtxSetCurrent(void *context) { sink += (long)context; return 0; }
STUB cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, void *stream, void **p, void **e) { sink += gx + bx + shared; return 0; }
STUB cuMemcpyHtoDAsync_v2(ptr to, const void *from, unsigned long n, void *stream) { sink += n; return 0; }
STUB cuMemcpyDtoHAsync_v2(void *to, ptr from, unsigned long n, void *stream) { sink += n; return 0; }
STUB cuStreamSynchronize(void *stream) { sink += (long)stream; return 0; }
STUB cuMemAlloc_v2(ptr *out, unsigned long n) { *out = next += n; return 0; }
STUB cuMemFree_v2(ptr p) { sink += p; return 0; }
"""

CALLER = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef unsigned long long ptr;
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                   void **, void **);
int cuMemcpyHtoDAsync_v2(ptr, const void *, unsigned long, void *);
int cuMemcpyDtoHAsync_v2(void *, ptr, unsigned long, void *);
int cuStreamSynchronize(void *); int cuMemAlloc_v2(ptr *, unsigned long); int cuMemFree_v2(ptr);

/* a training step in small: of 100 calls 85 are launches, 9 copies, 4 waits, 2 an allocation or its end */
static void one_call(unsigned random, ptr *held)
{
    unsigned kind = random % 100;
    void *stream = (void *)(long)(1 + random / 100 % 4);
    if (kind < 85)
        cuLaunchKernel((void *)(long)(1 + random / 400 % 50), 1 + random / 20000 % 64, 1, 1, 256, 1, 1, 0,
                       stream, 0, 0);
    else if (kind < 90)
        cuMemcpyHtoDAsync_v2(1, 0, random % 65536, stream);
    else if (kind < 94)
        cuMemcpyDtoHAsync_v2(0, 1, random % 65536, stream);
    else if (kind < 98)
        cuStreamSynchronize(stream);
    else if (*held)
        cuMemFree_v2(*held), *held = 0;
    else
        cuMemAlloc_v2(held, 1 + random % 1048576);
}

int main(int count, char **arguments)
{
    unsigned state = count > 3 ? atoi(arguments[3]) : 1;
    double rate = atof(arguments[1]), seconds = atof(arguments[2]), debt = 0;
    ptr held = 0;
    void *context;
    unsigned long made = 0;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    struct timespec began, next, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (next = began;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - began.tv_sec + (now.tv_nsec - began.tv_nsec) / 1e9 >= seconds)
            break;
        for (debt += rate / 1000; debt >= 1; debt -= 1, made++) {
            state = state * 1664525 + 1013904223;
            one_call(state >> 4, &held);
        }
        next.tv_nsec += 1000000;
        if (next.tv_nsec >= 1000000000)
            next.tv_sec++, next.tv_nsec -= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, 0);
    }
    printf("%lu\\n", made);
    return 0;
}
"""


def build(directory: Path, name: str = "libcuda.so.1") -> Path:
    """The library and ``caller`` in that directory; the path of the caller. A library whose ``name`` is no
    libcuda's is probed by an agent that is told of it alone (``--preattach``)."""
    directory.mkdir(parents=True, exist_ok=True)
    library, caller = directory / name, directory / "caller"
    for source, text in (("library.c", LIBRARY), ("caller.c", CALLER)):
        (directory / source).write_text(text)
    shared = ["-O2", "-fPIC", "-shared", f"-Wl,-soname,{name}"]
    subprocess.run(["cc", *shared, "-o", library, directory / "library.c"], check=True)
    linked = ["-O2", f"-L{directory}", f"-l:{name}"]
    subprocess.run(["cc", directory / "caller.c", *linked, "-o", caller], check=True)
    return caller


def start(
    caller: Path, rate: float, seconds: float, seed: int, before: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """A process that makes ``rate`` calls a second for so long, and then prints how many it made. ``before``:
    the start of its command."""
    command = [*before, str(caller), str(rate), str(seconds), str(seed)]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(caller.parent)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def stop(process: subprocess.Popen[str]) -> None:
    """End a process and let go of it."""
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


@contextmanager
def calling(
    caller: Path, rate: float, seconds: float, processes: int
) -> Iterator[list[subprocess.Popen[str]]]:
    """Several of them, which share the rate; gone afterwards whatever happens."""
    started = [start(caller, rate / processes, seconds, seed + 1) for seed in range(processes)]
    try:
        yield started
    finally:
        for process in started:
            stop(process)
