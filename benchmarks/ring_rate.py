"""How many calls are lost when processes call as fast as they can: none, recorded or tallied.

Threads of one process launch and wait on a stub library for some seconds while another process drains the
ring as often as the agent does; then what came out is compared with what the process says that it called:
`python -m benchmarks.ring_rate`. The trap of each call is what bounds the rate on a small machine, so the
rate that was reached is part of the figure. Beside it, `ring`: records of the same size, written without a
trap at each system call of a busy loop, as fast as that goes, and with no tallies to fall back on. Needs
root, a C compiler, libbpf or bcc, and for `ring` bcc.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.figures import write_figure
from benchmarks.ring_drain import RING_BYTES, load
from gpuledger.agent.probes import ProbeSource
from gpuledger.agent.probes.ring import MappedRing
from gpuledger.agent.probes.source import DEFAULT_TALLY_CALLS_PER_S

SECONDS = 5
TICK_S = 0.1  # the agent's own
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

CALLING = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
int main(int count, char **arguments)
{
    long calls = 0;
    getchar();
    time_t end = time(0) + atoi(arguments[1]);
    while (time(0) < end)
        for (int i = 0; i < 1000; i++, calls++)
            syscall(SYS_getppid);
    printf("%ld\\n", calls + 0L * count);
    return 0;
}
"""
WRITER = """
struct event { u64 words[%(words)d]; };
BPF_RINGBUF_OUTPUT(events, %(pages)d);
BPF_HASH(whose, u32, u64);
BPF_ARRAY(lost, u64, 1);
int fill(struct bpf_raw_tracepoint_args *ctx)
{
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    if (!whose.lookup(&pid))
        return 0;
    struct event *event = events.ringbuf_reserve(sizeof(struct event));
    if (!event) {
        lost.increment(0);
        return 0;
    }
    event->words[0] = bpf_ktime_get_boot_ns();
    for (int i = 1; i < %(words)d; i++)
        event->words[i] = i;
    events.ringbuf_submit(event, BPF_RB_NO_WAKEUP);
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


def offer_to_ring(directory: Path) -> dict[str, float]:
    """The same of records that the kernel writes at each system call of a process."""
    source, program = directory / "calling.c", directory / "calling"
    source.write_text(CALLING)
    subprocess.run(["cc", "-O2", "-o", program, source], check=True)
    bpf = load(WRITER)
    ring = MappedRing(bpf[b"events"].map_fd, RING_BYTES)
    assert ring.reader is not None
    with subprocess.Popen(
        [str(program), str(SECONDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        bpf[b"whose"][bpf[b"whose"].Key(process.pid)] = bpf[b"whose"].Leaf(1)
        began = time.monotonic()
        process.stdin.write(b"\n")
        process.stdin.flush()
        seen, ended = 0, False
        while not ended:
            time.sleep(TICK_S)
            ended = process.poll() is not None
            seen += len(ring.reader.drain())
        elapsed = time.monotonic() - began
        made = int(process.stdout.read())
    lost = sum(value.value for value in bpf[b"lost"].values())
    bpf.detach_raw_tracepoint(b"sys_enter")
    ring.close()
    bpf.cleanup()
    # a few calls more than those of its loop
    return {
        "calls_per_s": made / elapsed,
        "calls": made,
        "lost": lost,
        "missing": max(0, made - seen),
        "rows": seen,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        library, program = build(Path(directory))
        found = {
            name: offer(library, program, rate)
            for name, rate in (("recorded", None), ("default", DEFAULT_TALLY_CALLS_PER_S), ("tallied", 0))
        }
        found["ring"] = offer_to_ring(Path(directory))
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
