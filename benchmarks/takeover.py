"""What a new owner of a partition spends on the rows of gpu.progress before its first record.

    python -m benchmarks.takeover

Nodes with all the windows of eight days, as gpu.progress holds them: decoded, loaded, looked through for
what is to be restated, without Kafka. The time is the processor's, a node; the baseline is decoding alone.
"""

from __future__ import annotations

import time

from benchmarks.figures import repeat, write_figure
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import Device, NodeLayout, decode, encode
from gpuledger.contract.records import NodeProgress as HourRecord
from gpuledger.processor.progress import hours_of, loaded
from gpuledger.processor.protocol import NodeProgress, PartitionOwner, Statement, WindowRow
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


def main() -> None:
    """Measure, print, write build/figures/takeover.json."""
    bodies = [body for number in range(NODES) for body in written(number)]
    settings = ProcessorSettings()

    def take_over() -> None:
        progress = loaded([decode(HourRecord, body) for body in bodies])
        owner = PartitionOwner(0, 0, settings.grid, settings.rules(), progress=progress)
        owner.plan()

    clock = time.process_time
    spent = repeat(take_over, RUNS, clock=clock)
    base = repeat(lambda: [decode(HourRecord, body) for body in bodies], RUNS, clock=clock)
    write_figure(
        "takeover",
        spent.median / NODES,
        "s of a core a node",
        base.median / NODES,
        spent.median / base.median,
        spent.n,
        spread=[one / NODES for one in spent.spread],
        baseline_name="decoding alone",
        shape=f"{NODES} nodes, {WINDOWS} windows each",
    )


if __name__ == "__main__":
    main()
