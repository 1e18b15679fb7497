"""A replay from an archive: raw events a second of one core, how much faster than real time, and memory.

    python -m benchmarks.replay

Busy nodes (``replay``) make 2,000 calls a second each; the baseline decodes the same records with fastavro
and adds the durations of calls up by process, in a plain loop, without windows, prices or rows.

A simulated fleet of 100 GPUs (``replay_real_time``) is what the proportions of published traces make of it,
over the partitions that topics have by default, with agents that crash and pods that come and go. It is
replayed by `gpuledger replay` on all cores: from the start of the command to its end, which includes that it
starts its processes. Beside it stands what a core does (``replay_real_time_of_a_core``): the same time over
the processor seconds of all processes, which hardly depend on what else the machine does.

Memory is the peak of a process that replays 24 hours of eight GPUs, against that of one that replays eight.
"""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import fastavro
import numpy as np

from benchmarks._history import add, begin, simulated
from benchmarks.archive import own_peak
from benchmarks.figures import Runs, repeat, write_figure
from benchmarks.processor import EVENTS, GPUS, PARTS, WINDOW_NS, node_window
from gpuledger.archive.log import ArchiveLog
from gpuledger.archive.store import Directory, Store
from gpuledger.bus import BusSettings
from gpuledger.bus.topics import DEFAULT_PARTITIONS
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.schemas import schema
from gpuledger.contract.topics import TELEMETRY
from gpuledger.contract.wire import unframe
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay.request import Request
from gpuledger.replay.running import Progress, replay
from gpuledger.simulate import FleetSpec

RUNS = 3
BUSY_NODES = 8
BUSY_WINDOWS = 36
START_NS = 1_796_083_200 * 10**9
FLEET = FleetSpec(gpus=100, hours=4, start_ns=1_748_736_000 * 10**9)  # over, whenever this is run
SHORT, LONG = FleetSpec(gpus=8, hours=8), FleetSpec(gpus=8, hours=24)


def busy(store: Store) -> int:
    """Nodes of eight training GPUs; how many calls they make."""
    rng = np.random.default_rng(7)
    begin(store, [])
    _, calls = add(
        store,
        (
            record
            for window in range(BUSY_WINDOWS)
            for number in range(BUSY_NODES)
            for record in node_window(
                NodeKey("c", f"n{number}"), START_NS + window * WINDOW_NS, window * (PARTS + 2), rng
            )
        ),
    )
    return calls


def replayed(url: str, from_ns: int, to_ns: int) -> Progress:
    """One replay in this process."""
    bus = BusSettings().plain()
    request = Request(from_ns, to_ns, ProcessorSettings(), bus, archive=url)
    with tempfile.TemporaryDirectory() as directory:
        return replay(request, Path(directory), 1)


@dataclass(frozen=True, slots=True)
class Called:
    """What `gpuledger replay` took, and what it says that it computed."""

    wall_s: float
    cpu_s: float
    windows: int
    events: int


def called(url: str, spec: FleetSpec) -> Called:
    """`gpuledger replay` of a fleet, on all cores."""
    times = [datetime.fromtimestamp(ns / 1e9, UTC).isoformat() for ns in (spec.start_ns, spec.end_ns)]
    with tempfile.TemporaryDirectory() as state:
        command = [sys.executable, "-m", "gpuledger", "replay", "--from", times[0], "--to", times[1]]
        command += ["--archive", url, "--state", state, "--json"]
        before, began = _cpu_of_children_s(), time.perf_counter()
        said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        wall_s = time.perf_counter() - began
        return Called(wall_s, _cpu_of_children_s() - before, said["windows"], said["events"])


def _cpu_of_children_s() -> float:
    """Of those that ended, and theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def plain(store: Store) -> None:
    """The baseline."""
    parsed = fastavro.parse_schema(schema("EventBatch"))
    sums: dict[tuple[str, int], int] = defaultdict(int)
    for record in ArchiveLog(store).read_to_end(TELEMETRY, 0):
        if RecordHeaders.from_kafka(record.key, record.headers).kind is not Kind.EVENTS:
            continue
        _, body = unframe(record.value or b"")
        batch = fastavro.schemaless_reader(io.BytesIO(body), parsed, None)
        for process, duration in zip(batch["process"], batch["duration_ns"], strict=True):
            sums[batch["header"]["node"], process] += duration


def peak_bytes(url: str, spec: FleetSpec) -> int:
    """Peak memory of a process that replays a fleet."""
    command = [sys.executable, "-m", "benchmarks.replay", url, json.dumps(asdict(spec))]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def busy_figure(store: Store) -> None:
    """Write build/figures/replay.json."""
    calls = busy(store)
    end = START_NS + BUSY_WINDOWS * WINDOW_NS
    clock = time.process_time
    runs = repeat(lambda: replayed(store.url, START_NS, end), RUNS, clock=clock).rate(calls)
    base = repeat(lambda: plain(store), 3, clock=clock).rate(calls)
    write_figure(
        "replay",
        runs.median,
        "events/s of a core",
        base.median,
        runs.median / base.median,
        runs.n,
        spread=runs.spread,
        baseline_name="fastavro and a loop that adds durations up by process",
        shape=f"{BUSY_NODES} nodes of {GPUS} GPUs, {BUSY_WINDOWS} windows of {PARTS} x {EVENTS} events",
    )


def real_time_figures(store: Store) -> None:
    """Write build/figures/replay_real_time.json and replay_real_time_of_a_core.json."""
    simulated(store, FLEET, DEFAULT_PARTITIONS)
    seconds = (FLEET.end_ns - FLEET.start_ns) / 1e9
    runs = [called(store.url, FLEET) for _ in range(RUNS)]
    cores = os.cpu_count() or 1
    for name, unit, spent in (
        ("replay_real_time", f"x real time, {cores} cores", [run.wall_s for run in runs]),
        ("replay_real_time_of_a_core", "x real time, one core", [run.cpu_s for run in runs]),
    ):
        faster = Runs(tuple(spent)).rate(seconds)
        write_figure(
            name,
            faster.median,
            unit,
            1.0,
            faster.median,
            faster.n,
            spread=faster.spread,
            baseline_name="the fleet's own time",
            shape=f"{FLEET.gpus} GPUs over {seconds:.0f} s, {runs[0].windows} windows, "
            f"{runs[0].events} calls, {DEFAULT_PARTITIONS} partitions",
            ms_a_window=1000 * seconds / faster.median / runs[0].windows,
        )


def memory_figure(directory: Path) -> None:
    """Write build/figures/replay_memory.json."""
    peaks = []
    for number, spec in enumerate((SHORT, LONG)):
        store = Directory(directory / f"memory{number}")
        simulated(store, spec)
        peaks.append(peak_bytes(store.url, spec))
    write_figure(
        "replay_memory",
        peaks[1],
        "bytes, 24 hours",
        peaks[0],
        peaks[1] / peaks[0],
        1,
        baseline_name="the same fleet, eight hours",
        shape=f"{LONG.gpus} GPUs",
    )


def main() -> None:
    """Measure, print, write build/figures."""
    with tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name:
        busy_figure(Directory(Path(name) / "busy"))
        real_time_figures(Directory(Path(name) / "fleet"))
        memory_figure(Path(name))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        spec = FleetSpec(**json.loads(sys.argv[2]))
        replayed(sys.argv[1], spec.start_ns, spec.end_ns)
        print(own_peak())
    else:
        main()
