"""What the agent itself takes of a core, by default: idle, at 10,000 and at 200,000 calls a second.

Four processes make the calls (benchmarks/_calls.py), of a library that does nothing; the agent measures eight
emulated GPUs through NVML each second and sends everything to a real Kafka. Its CPU time is that of its
process, all threads, as the scheduler counts it; what the probes cost the processes that make the calls is
theirs, and the baseline: `python -m benchmarks.agent_cpu`. Needs root, `make bpf`, a C compiler.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks import _calls
from benchmarks._agent import agent, cpu_s
from benchmarks.figures import Runs, write_figure
from gpuledger.bus import BusSettings, apply_topics
from gpuledger.localstack import Kafka, Registry
from tests.emulator import H100, Emulator
from tests.support.kafka import STACK_DIRECTORY

PROCESSES = 4
RATES = {"idle": 0, "10k": 10_000, "200k": 200_000}
RUNS = 3
MEASURE_S = 20.0  # two windows
WARM_S = 12.0  # the first windows are out, every code path has run


def measure(agent_pid: int, caller: Path, rate: int) -> tuple[float, float, float]:
    """(percent of a core that the agent took, that the callers took, calls a second that were made)."""
    seconds = MEASURE_S + 4
    with _calls.calling(caller, rate, seconds, PROCESSES if rate else 0) as started:
        time.sleep(2)
        pids = [process.pid for process in started]
        began, agent_s, callers_s = time.monotonic(), cpu_s(agent_pid), sum(map(cpu_s, pids))
        time.sleep(MEASURE_S)
        callers_s = sum(map(cpu_s, pids)) - callers_s
        agent_s, passed_s = cpu_s(agent_pid) - agent_s, time.monotonic() - began
        made = sum(int(process.communicate()[0]) for process in started)
    return 100 * agent_s / passed_s, 100 * callers_s / passed_s, made / seconds


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name,
        Emulator([H100] * 8) as emulator,
        Kafka(Path(name, "kafka"), STACK_DIRECTORY) as kafka,
        Registry(Path(name, "registry"), STACK_DIRECTORY) as registry,
    ):
        directory = Path(name)
        caller = _calls.build(directory / "calls")
        apply_topics(
            BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url),
            partitions=1,
            replication=1,
        )
        with agent(directory, [], kafka.bootstrap, registry.url, emulator.env) as process:
            time.sleep(WARM_S)
            for label, rate in RATES.items():
                taken = [measure(process.pid, caller, rate) for _ in range(RUNS)]
                own, callers = (Runs(tuple(one[i] for one in taken)) for i in (0, 1))
                write_figure(
                    f"agent_cpu_{label}",
                    own.median,
                    "% of a core",
                    callers.median if rate else None,
                    own.median / callers.median if rate else None,
                    own.n,
                    median=own.median,
                    spread=own.spread,
                    baseline_name="the processes that make the calls, their probes included",
                    calls_per_s=Runs(tuple(one[2] for one in taken)).median,
                )


if __name__ == "__main__":
    main()
