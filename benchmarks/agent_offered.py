"""What the whole agent takes of a core beyond the trap: the kernel tells of calls by itself.

The agent is one as on a node (eight emulated GPUs through NVML, a real Kafka), with a user of its own, so
that other probes on the machine and it do not see each other. Processes for which the kernel tells of calls
(benchmarks/ring_offer.bpf.c) share a rate: 10,000 and 200,000 calls a second of eight, each below the rate
from which it is tallied on a calm node; a million of four, which are tallied on any. Calls made are compared
with calls that the agent counts; how much of them was tallied is in the figure. The baseline is the same
agent idle: `python -m benchmarks.agent_offered`. Needs root, `make bpf`, a C compiler and clang.
"""

from __future__ import annotations

import os
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

from benchmarks import _offering
from benchmarks._agent import STRANGER, agent, apart, cpu_s, memory_mib
from benchmarks.figures import Runs, write_figure
from gpuledger.agent.probes.state import KernelState
from gpuledger.bus import BusSettings, apply_topics
from gpuledger.localstack import Kafka, Registry, free_port
from tests.emulator import H100, Emulator
from tests.support.kafka import STACK_DIRECTORY

RUNS = 3
MEASURE_S = 10.0  # a window
WARM_S = 30.0  # what only the start needed was given back
SETTLED_S = 2.0  # without a further call: what was told last has been read
COUNTED = ("gpuledger_agent_events_total", "gpuledger_agent_lost_events")


class Load(NamedTuple):
    """So many calls a second of so many processes."""

    calls_per_s: int
    processes: int


LOADS = {
    "idle": Load(0, 0),
    "10k": Load(10_000, 8),
    "200k": Load(200_000, 8),
    "1m_tallied": Load(1_000_000, 4),
}


class Taken(NamedTuple):
    """Percent of a core, calls a second that were told, the part of them that was tallied, calls that the
    agent did not count, calls lost."""

    percent: float
    calls_per_s: float
    tallied_ratio: float
    missing: float
    lost: float


def counts(port: int) -> tuple[float, float]:
    """(calls that the agent has taken, calls that it says are lost) so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line.startswith(COUNTED)]
    sums = [sum(float(line.split()[-1]) for line in lines if line.startswith(name)) for name in COUNTED]
    return sums[0], sums[1]


def measure(pid: int, port: int, program: Path, maps: _offering.Maps, load: Load, idle: float) -> Taken:
    """One run. What the agent did only after the calls had ended counts too, less what it takes ``idle``."""
    state = KernelState(maps)
    (before, lost_before), tallied_before = counts(port), state.tallied()
    offering = _offering.start(program, maps.offer, load.calls_per_s, MEASURE_S, load.processes)
    spent_s, began = cpu_s(pid), time.monotonic()
    _offering.go(offering)
    time.sleep(MEASURE_S)
    made, passed_s = _offering.made(offering), time.monotonic() - began
    seen = -1.0
    while True:
        time.sleep(SETTLED_S)
        all_s, after_s = cpu_s(pid) - spent_s, time.monotonic() - began - passed_s
        seen_before, (after, lost) = seen, counts(port)  # which costs it some milliseconds
        seen = after - before
        if seen >= made[0] or seen == seen_before:
            break
    missing, tallied = made[0] - seen, state.tallied() - tallied_before
    percent = 100 * all_s / (passed_s + after_s) if not idle else (100 * all_s - idle * after_s) / passed_s
    return Taken(percent, made[0] / passed_s, tallied / max(made[0], 1), missing, lost - lost_before)


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name,
        Emulator([H100] * 8) as emulator,
        Kafka(Path(name, "kafka"), STACK_DIRECTORY) as kafka,
        Registry(Path(name, "registry"), STACK_DIRECTORY) as registry,
    ):
        directory, port = Path(name), free_port()
        program, object_ = _offering.build(directory)
        bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
        apply_topics(bus, partitions=1, replication=1)
        directory.chmod(0o711)
        (directory / "state").mkdir()
        os.chown(directory / "state", STRANGER, STRANGER)
        emulator.shm_path.chmod(0o666)  # the emulated NVML writes to the model
        options = ["--loader", "libbpf", "--metrics-port", str(port)]
        with agent(directory, options, kafka.bootstrap, registry.url, emulator.env, apart()) as process:
            time.sleep(WARM_S)
            maps = _offering.maps_of(process.pid)
            maps.offer = _offering.program_over(object_, maps)
            idle = 0.0
            for label, load in LOADS.items():
                taken = [measure(process.pid, port, program, maps, load, idle) for _ in range(RUNS)]
                own = Runs(tuple(one.percent for one in taken))
                idle = idle or own.median
                write_figure(
                    f"agent_offered_{label}",
                    own.median,
                    "% of a core",
                    idle,
                    own.median / idle,
                    own.n,
                    median=own.median,
                    spread=own.spread,
                    baseline_name="the same agent idle",
                    calls_per_s=Runs(tuple(one.calls_per_s for one in taken)).median,
                    processes=load.processes,
                    tallied_ratio=Runs(tuple(one.tallied_ratio for one in taken)).median,
                    missing=sum(one.missing for one in taken),
                    lost=sum(one.lost for one in taken),
                    resident_mib=memory_mib(process.pid)["VmRSS"],
                )


if __name__ == "__main__":
    main()
