"""How the work of a processor and its memory grow with the fleet, from 1,000 to 100,000 GPUs.

    python -m benchmarks.growth [GPUS ...]

All that a worker does with a window of each node but for Kafka: records placed, decoded, attributed, priced
and encoded as rows, in bunches as it takes them. The fleet is a simulated one; its records come from a
process of their own. Seconds are those of a core. The exponent is the slope of the logarithms: 1 is linear.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._history import message
from benchmarks._line import Line
from benchmarks._plot import log_log
from benchmarks.figures import write_figure
from gpuledger.bus import Incoming
from gpuledger.simulate import FleetSpec, plan_node
from gpuledger.simulate.records import window_records

GPUS = (1_000, 3_000, 10_000, 30_000, 100_000)
WINDOWS = 2  # in the first one everybody is new
BUNCH = 1_000  # records, as a worker takes them
PLOT = Path("docs/growth.svg")


class Grown(NamedTuple):
    """One size: seconds of a core a window of the fleet, and what the process had at most."""

    gpus: int
    window_s: float
    peak_bytes: int


def records(spec: FleetSpec) -> Iterator[Incoming]:
    """What the fleet's agents send, in the order of windows."""
    offset = 0
    for start in range(spec.start_ns, spec.end_ns, spec.window_ns):
        for number in range(spec.nodes):
            for record in window_records(spec, plan_node(spec, number), start):
                yield message(record, 0, offset)
                offset += 1


def send(gpus: int, to: Connection) -> None:
    """All records of a fleet, in bunches; then nothing."""
    spec = FleetSpec(gpus=gpus, hours=WINDOWS * 10 / 3600)
    found = records(replace(spec, agent_crashes=0.0, node_ends=0.0))
    while bunch := list(islice(found, BUNCH)):
        to.send(bunch)
    to.send([])
    to.close()


def work(gpus: int, to: Connection) -> None:
    """Charge a fleet, in a process of its own; says what it took."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    sender = context.Process(target=send, args=(gpus, there))
    sender.start()
    there.close()
    line = Line()
    while bunch := here.recv():
        line.feed(bunch)
    sender.join()
    nodes = -(-gpus // FleetSpec().gpus_per_node)
    assert line.windows == nodes * WINDOWS, (line.windows, nodes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    to.send(Grown(gpus, line.spent_s / WINDOWS, peak))
    to.close()


def grown(gpus: int) -> Grown:
    """One size."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    worker = context.Process(target=work, args=(gpus, there))
    worker.start()
    there.close()
    found: Grown = here.recv()
    worker.join()
    return found


def exponent(sizes: list[float], values: list[float]) -> float:
    """The slope of log(value) over log(size)."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def main(sizes: list[int]) -> None:
    """Measure, print, write build/figures and the plot."""
    found = []
    for gpus in sizes:
        found.append(grown(gpus))
        one = found[-1]
        print(f"{gpus:>7,} GPUs {one.window_s:8.3f} s {one.peak_bytes / 2**20:8.0f} MiB", flush=True)
    times = exponent([one.gpus for one in found], [one.window_s for one in found])
    first, last = found[0], found[-1]
    byte_a_gpu = (last.peak_bytes - first.peak_bytes) / max(1, last.gpus - first.gpus)
    write_figure(
        "growth",
        times,
        "exponent of time over GPUs",
        1.0,
        times,
        len(found),
        baseline_name="linear",
        sizes=[one._asdict() for one in found],
        bytes_a_gpu=byte_a_gpu,
        microseconds_a_gpu_and_window=last.window_s / last.gpus * 1e6,
        shape=f"simulated fleet, {WINDOWS} windows of 10 s, bunches of {BUNCH} records",
    )
    if sizes == list(GPUS):
        PLOT.write_text(
            log_log(
                "A window of 10 s of a whole fleet, charged on one core",
                [one.gpus for one in found],
                {
                    "seconds of a core": [one.window_s for one in found],
                    "peak memory, GiB": [one.peak_bytes / 2**30 for one in found],
                },
            )
        )


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or list(GPUS))
