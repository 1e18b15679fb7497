"""What a new owner of a partition spends on the rows of gpu.progress, beside its first records.

    python -m benchmarks.takeover

Nodes with all the windows of eight days, as gpu.progress holds them: decoded, loaded, looked through for
what is to be restated, without Kafka. The time is the processor's, a node; the baseline is decoding alone.
Also said is how much of it comes before the first record, and what a node keeps in memory.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Sequence

from benchmarks.figures import repeat, write_figure
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import Device, NodeLayout, decode, encode
from gpuledger.contract.records import NodeProgress as HourRecord
from gpuledger.processor.progress import hours_of
from gpuledger.processor.progress import written as taken
from gpuledger.processor.protocol import History, NodeProgress, PartitionOwner, Statement, WindowRow
from gpuledger.processor.settings import ProcessorSettings

RUNS = 3
NODES = 4
WINDOWS = 8 * 8640
WINDOW_NS = 10_000_000_000
RECORDS = 3  # of a window
START_NS = 1_748_736_000 * 10**9


def written(number: int) -> list[bytes]:
    """What gpu.progress holds of a node."""
    devices = [Device(f"GPU-{number}-{index}", index=index, model="H100") for index in range(8)]
    layout = NodeLayout(instance_type="p5.48xlarge", devices=devices)
    rows = {}
    for window in range(WINDOWS):
        first = (window * NODES + number) * RECORDS
        statement = Statement(layout, first)
        rows[START_NS + window * WINDOW_NS] = WindowRow(
            0, RECORDS, first, first + RECORDS - 1, statement, input_bytes=9_000
        )
    through_ns = START_NS + (WINDOWS - 1) * WINDOW_NS
    progress = NodeProgress(NodeKey("c", f"n{number}"), rows, through_ns, through_ns + WINDOW_NS)
    return [encode(hour) for hour in hours_of(progress, WINDOW_NS)]


def load(bodies: Sequence[bytes]) -> History:
    """The latest record of each node first."""
    history = History()
    for body in reversed(bodies):
        history.take(taken(decode(HourRecord, body)))
    return history


def owner_of(settings: ProcessorSettings, recent: History) -> PartitionOwner:
    """Who knows the last hours, and does what is due."""
    owner = PartitionOwner(0, 0, settings.grid, settings.rules(), progress=recent.recent(), whole=False)
    owner.plan()
    return owner


def main() -> None:
    """Measure, print, write build/figures/takeover.json."""
    nodes = [written(number) for number in range(NODES)]
    bodies = [body for hours in zip(*nodes, strict=True) for body in hours]
    settings = ProcessorSettings()

    def first() -> PartitionOwner:
        return owner_of(settings, load(bodies[-NODES:]))

    def take_over() -> PartitionOwner:
        owner = first()
        owner.complete(load(bodies).nodes())
        assert not owner.plan(), "nothing is to be restated"
        return owner

    clock = time.process_time
    spent = repeat(take_over, RUNS, clock=clock)
    at_first = repeat(first, RUNS, clock=clock)
    base = repeat(lambda: [decode(HourRecord, body) for body in bodies], RUNS, clock=clock)
    kept_bytes = kept(take_over)
    print(f"before the first record {at_first.median / NODES * 1000:.1f} ms of a core a node")
    print(f"kept of a node {kept_bytes / NODES / 1e6:.2f} MB")
    write_figure(
        "takeover",
        spent.median / NODES,
        "s of a core a node",
        base.median / NODES,
        spent.median / base.median,
        spent.n,
        spread=[one / NODES for one in spent.spread],
        baseline_name="decoding alone",
        before_the_first_record_s=at_first.median / NODES,
        kept_bytes_of_a_node=kept_bytes / NODES,
        shape=f"{NODES} nodes, {WINDOWS} windows each",
    )


def kept(make: Callable[[], object]) -> int:
    """The bytes of what ``make`` makes."""
    gc.collect()
    tracemalloc.start()
    made = make()
    gc.collect()
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del made
    return size_bytes


if __name__ == "__main__":
    main()
