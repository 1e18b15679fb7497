"""What it costs to take one event out of the kernel's ring: a numpy view against bcc's callback an event.

Both drain the same ring filled with the same records by the same calls of a raw tracepoint, in the same run:
`python -m benchmarks.ring_drain`. Needs root, bcc and kernel headers.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import time
from typing import Any

from benchmarks.figures import Runs, write_figure
from gpuledger.agent.probes.events import RAW_EVENT
from gpuledger.agent.probes.headers import ENVIRONMENT, link_bcc, prepare_kernel_headers
from gpuledger.agent.probes.ring import HEADER_BYTES, MappedRing

RING_BYTES = 16 << 20  # the agent's own
EVENTS = 150_000  # fit in it, so that nothing is dropped and only the draining is timed
RUNS = 7

SOURCE = """
struct event { u64 words[%(words)d]; };
BPF_RINGBUF_OUTPUT(events, %(pages)d);
BPF_HASH(filling, u32, u64);
int fill(struct bpf_raw_tracepoint_args *ctx)
{
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    u64 *left = filling.lookup(&pid);
    if (!left || *left == 0)
        return 0;
    struct event *event = events.ringbuf_reserve(sizeof(struct event));
    if (!event)
        return 0;
    *left -= 1;
    event->words[0] = bpf_ktime_get_boot_ns();
    for (int i = 1; i < %(words)d; i++)
        event->words[i] = i;
    events.ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 0;
}
"""


class Event(ctypes.Structure):
    """The record as bcc's callback sees it."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("time_ns", "duration_ns", "cgroup_id", "bytes")]


def load(source: str = SOURCE) -> Any:
    """A program ``fill`` and its ring, attached to every system call."""
    if link_bcc() is None or (headers := prepare_kernel_headers()) is None:
        raise SystemExit("ring_drain: needs python3-bpfcc and linux-headers")
    os.environ[ENVIRONMENT] = str(headers)
    bcc: Any = importlib.import_module("bcc")
    words, pages = RAW_EVENT.itemsize // 8, RING_BYTES // os.sysconf("SC_PAGE_SIZE")
    text = source % {"words": words, "pages": pages}
    bpf = bcc.BPF(text=text.encode(), cflags=["-Wno-macro-redefined"])
    bpf.attach_raw_tracepoint(tp=b"sys_enter", fn_name=b"fill")
    return bpf


def fill(bpf: Any) -> None:
    """Puts `EVENTS` records in the ring."""
    table = bpf[b"filling"]
    key = table.Key(os.getpid())
    table[key] = table.Leaf(EVENTS)
    while table[key].value:
        for _ in range(EVENTS // 8):
            os.getppid()


def time_view(bpf: Any, ring: MappedRing) -> float:
    """CPU nanoseconds an event by the numpy view; the result is a copy that the caller may keep."""
    fill(bpf)
    assert ring.reader is not None
    start = time.process_time_ns()
    events = ring.reader.drain()
    elapsed = time.process_time_ns() - start
    if len(events) != EVENTS or int(events["bytes"].sum()) != 3 * EVENTS:
        raise SystemExit(f"ring_drain: {len(events)} of {EVENTS} events came out")
    return elapsed / EVENTS


def time_callback(bpf: Any, seen: list[int]) -> float:
    """CPU nanoseconds an event by bcc's callback, which looks at two fields."""
    fill(bpf)
    seen[:] = [0, 0]
    start = time.process_time_ns()
    while seen[0] < EVENTS:
        bpf.ring_buffer_consume()
    elapsed = time.process_time_ns() - start
    if seen != [EVENTS, 3 * EVENTS]:
        raise SystemExit(f"ring_drain: the callback saw {seen}")
    return elapsed / EVENTS


def main() -> None:
    bpf = load()
    ring = MappedRing(bpf[b"events"].map_fd, RING_BYTES)
    seen = [0, 0]

    def callback(_context: object, data: int, _size: int) -> None:
        event = ctypes.cast(data, ctypes.POINTER(Event)).contents
        seen[0] += 1
        seen[1] += event.bytes

    time_view(bpf, ring)
    views = [time_view(bpf, ring) for _ in range(RUNS)]
    bpf[b"events"].open_ring_buffer(callback)
    callbacks = [time_callback(bpf, seen) for _ in range(RUNS)]
    bpf.detach_raw_tracepoint(b"sys_enter")
    ring.close()
    bpf.cleanup()

    view, slow = Runs(tuple(views)), Runs(tuple(callbacks))
    write_figure(
        "ring_drain",
        view.median,
        "ns/event",
        slow.median,
        view.median / slow.median,
        view.n,
        median=view.median,
        spread=view.spread,
        baseline_name="bcc callback an event",
        baseline_spread=slow.spread,
        events=EVENTS,
        record_bytes=RAW_EVENT.itemsize + HEADER_BYTES,
        speedup=slow.median / view.median,
    )


if __name__ == "__main__":
    main()
