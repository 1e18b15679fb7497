"""Events a second through the core alone, on decoded batches, on one core.

Run from the repository root: ``python -m benchmarks.attribution``. The baseline does the same sums, usage
and processor sharing, in a plain Python loop over the same events, without prices or rows. The shape is
stated in the figure: steady training calls a synchronise every twenty launches on four devices, bursty
inference synchronises every launch.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from benchmarks.figures import repeat, write_figure
from gpuledger.attribution import NodeWindow, charge_windows
from gpuledger.contract.columns import longs
from gpuledger.contract.operations import LAUNCHES, SYNCHRONIZING, Operation
from gpuledger.contract.records import (
    Device,
    EventBatch,
    Header,
    Holder,
    Holdings,
    NodeLayout,
    Pod,
    PriceBookVersion,
    PriceEntry,
    Process,
)
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.pricing import Prices, Teams

S = 1_000_000_000
WINDOW_NS = 10 * S
FIRST_NS = 1_700_000_000 * S
NODES = 16  # node-windows in one pass
DEVICES = 4
EVENTS_PER_BATCH = 20_000  # about a megabyte of columns: the agent's batch under load
BATCHES = 4  # in each window
SHAPES = {"attribution": 20, "attribution_synchronous": 1}  # launches per synchronising call


def node_window(number: int, launches_per_wait: int) -> NodeWindow:
    """A node whose devices are time-sliced between two pods each."""
    rng = np.random.default_rng(number)
    layout = NodeLayout(
        instance_type="bench",
        devices=[
            Device(f"GPU-{number}-{i}", index=i, model="H100", sharing="time_slicing", replicas=4)
            for i in range(DEVICES)
        ],
    )
    processes = [Process(100 + i, 1, consumer_kind="pod", consumer=f"uid-{i}") for i in range(2 * DEVICES)]
    holders = [Holder(f"uid-{i}", i % DEVICES, slots=2) for i in range(2 * DEVICES)]
    pods = [Pod(f"uid-{i}", "ns", f"pod-{i}") for i in range(2 * DEVICES)]
    total = EVENTS_PER_BATCH * BATCHES
    time = np.sort(rng.integers(FIRST_NS, FIRST_NS + WINDOW_NS, total))
    process = rng.integers(0, len(processes), total)
    turn = np.zeros(total, np.int64)
    for one in range(len(processes)):
        mine = process == one
        turn[mine] = np.arange(mine.sum()) % (launches_per_wait + 1)
    waits = turn == launches_per_wait
    operation = np.where(waits, int(Operation.SYNCHRONIZE_STREAM), int(Operation.LAUNCH_KERNEL))
    duration = np.where(waits, 40_000, 3_000)
    events = []
    for index in range(BATCHES):
        part = slice(index * EVENTS_PER_BATCH, (index + 1) * EVENTS_PER_BATCH)
        none = np.full(EVENTS_PER_BATCH, -1, np.int64)
        zero = np.zeros(EVENTS_PER_BATCH, np.int64)
        events.append(
            EventBatch(
                _header(number, index + 1, index == BATCHES - 1),
                processes=processes,
                devices=[device.uuid for device in layout.devices],
                time_ns=time[part],
                process=process[part],
                thread=none,
                device=process[part] % DEVICES,
                operation=operation[part],
                duration_ns=duration[part],
                bytes=zero,
                launched_threads=np.where(waits[part], 0, 65_536),
                function=none,
                result=zero,
                count=np.ones(EVENTS_PER_BATCH, np.int64),
                span_ns=zero,
            )
        )
    keyframe = Holdings(
        _header(number, 0, False),
        FIRST_NS,
        layout,
        keyframe=True,
        pods=pods,
        holders=holders,
        processes=processes,
        unwitnessed=longs([0] * DEVICES),
    )
    return NodeWindow(
        "bench",
        f"n{number}",
        FIRST_NS,
        WINDOW_NS,
        Revision(0, 5, 1, CORE_VERSION),
        holdings=[keyframe],
        events=events,
    )


def _header(number: int, part: int, last: bool) -> Header:
    return Header("bench", f"n{number}", "boot", 1, part, FIRST_NS, WINDOW_NS, part=part, last=last)


def plain_loop(windows: list[NodeWindow]) -> float:
    """The same sums one event at a time: launches, threads, bytes, waits, and processor sharing."""
    total = 0.0
    for window in windows:
        launches: dict[tuple[int, int], int] = defaultdict(int)
        threads: dict[tuple[int, int], int] = defaultdict(int)
        volume: dict[tuple[int, int], int] = defaultdict(int)
        waited: dict[tuple[int, int], int] = defaultdict(int)
        busy: dict[tuple[int, int], float] = defaultdict(float)
        open_on: dict[int, dict[int, float]] = defaultdict(dict)
        clock: dict[int, float] = defaultdict(float)
        since: dict[int, int] = defaultdict(lambda: FIRST_NS)
        for batch in window.events:
            columns = (
                batch.time_ns,
                batch.process,
                batch.device,
                batch.operation,
                batch.duration_ns,
                batch.bytes,
                batch.launched_threads,
            )
            for time, process, device, operation, duration, size, grid in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                key = process, device
                volume[key] += size
                active = open_on[device]
                if operation in LAUNCHES:
                    launches[key] += 1
                    threads[key] += grid
                    if process not in active:
                        at = time - duration
                        if active:
                            clock[device] += (at - since[device]) / len(active)
                        since[device] = at
                        active[process] = clock[device]
                elif operation in SYNCHRONIZING:
                    waited[key] += duration
                    if process in active:
                        clock[device] += (time - since[device]) / len(active)
                        since[device] = time
                        busy[key] += clock[device] - active.pop(process)
        total += sum(busy.values())
    return total


def main() -> None:
    prices = Prices([PriceBookVersion(1, 0, entries=[PriceEntry("gpu", "gpu", 12_290_000_000, "USD")])])
    for name, launches_per_wait in SHAPES.items():
        windows = [node_window(number, launches_per_wait) for number in range(NODES)]
        events = NODES * BATCHES * EVENTS_PER_BATCH
        charged = charge_windows(windows, prices, Teams())
        if any(charges.conservation_error_nano or charges.conservation_error_ns for charges in charged):
            raise SystemExit("the charges do not add up")
        runs = repeat(lambda windows=windows: charge_windows(windows, prices, Teams())).rate(events)
        some = windows[:2]
        plain = repeat(lambda some=some: plain_loop(some), runs=3).rate(events * len(some) / NODES)
        write_figure(
            name,
            runs.median,
            "events/s",
            plain.median,
            runs.median / plain.median,
            runs.n,
            spread=runs.spread,
            baseline_name="the same sums in a plain Python loop over the events",
            shape={
                "node_windows": NODES,
                "devices": DEVICES,
                "events_per_window": BATCHES * EVENTS_PER_BATCH,
                "launches_per_synchronise": launches_per_wait,
            },
        )


if __name__ == "__main__":
    main()
