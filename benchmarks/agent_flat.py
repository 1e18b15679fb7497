"""Resident memory of an agent while processes come and go, and whether it grows.

Waves of short-lived processes that make CUDA calls start and end all the time (a few hundred a minute), with
a real Kafka that takes what the agent sends:
`python -m benchmarks.agent_flat [--minutes N] [--loader KIND] [--apart]`.
With `--apart` agent and callers are a user of their own and their library is no libcuda by name: other agents
and probes on the machine neither see them nor are seen. The slope is a straight line's through all samples
after the first fifth, which is the start's. Two minutes show that it works; thirty show that it is flat.
Needs root, `make bpf`, a C compiler.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import _calls
from benchmarks._agent import STRANGER, agent, apart, memory_mib, settle
from benchmarks.figures import Runs, write_figure
from gpuledger.bus import BusSettings, apply_topics
from gpuledger.localstack import Kafka, Registry
from tests.emulator import H100, Emulator
from tests.support.kafka import STACK_DIRECTORY

LIVING = 8  # at any time
LIFE_S = 1.5
RATE = 200  # calls a second of each: what is looked at is their number, not their calls
SAMPLE_S = 1.0
START_PART = 0.2
LIBRARY_APART = "libstub.so"

Column = npt.NDArray[np.float64]


def come_and_go(caller: Path, living: list[subprocess.Popen[str]], seed: int, before: list[str]) -> int:
    """Replace those that have ended; how many were started."""
    for process in [process for process in living if process.poll() is not None]:
        _calls.stop(process)
        living.remove(process)
    started = LIVING - len(living)
    # lives of different lengths, so that they do not end together
    living += [
        _calls.start(caller, RATE, LIFE_S * (0.5 + (seed + i) % 8 / 7), seed + i, before)
        for i in range(started)
    ]
    return started


def watch(
    pid: int, caller: Path, seconds: float, before: list[str]
) -> tuple[list[tuple[float, float, float]], int]:
    """((s, MiB resident, MiB of its own) a second, processes started)."""
    living: list[subprocess.Popen[str]] = []
    samples: list[tuple[float, float, float]] = []
    started, began = 0, time.monotonic()
    try:
        while (passed := time.monotonic() - began) < seconds:
            started += come_and_go(caller, living, started + 1, before)
            if passed >= len(samples) * SAMPLE_S:
                memory = memory_mib(pid)
                samples.append((passed, memory["VmRSS"], memory["RssAnon"]))
            time.sleep(0.05)
    finally:
        for process in living:
            _calls.stop(process)
    return samples, started


def by_minute(seconds: Column, mib: Column) -> list[float]:
    """The median of each minute: whether what grew still grows."""
    minute = (seconds // 60).astype(int)
    return [float(np.median(mib[minute == n])) for n in np.unique(minute)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--loader", choices=("libbpf", "bcc"), default="libbpf")
    parser.add_argument("--apart", action="store_true")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name,
        Emulator([H100] * 8) as emulator,
        Kafka(Path(name, "kafka"), STACK_DIRECTORY) as kafka,
        Registry(Path(name, "registry"), STACK_DIRECTORY) as registry,
    ):
        directory = Path(name)
        caller = _calls.build(directory / "calls", LIBRARY_APART if arguments.apart else "libcuda.so.1")
        bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
        apply_topics(bus, partitions=1, replication=1)
        options, first, callers = ["--loader", arguments.loader], [], []
        if arguments.apart:
            options += ["--preattach", str(caller.parent / LIBRARY_APART)]
            first, callers = apart(), ["setpriv", "--reuid", str(STRANGER), "--clear-groups"]
            directory.chmod(0o711)
            (directory / "state").mkdir()
            os.chown(directory / "state", STRANGER, STRANGER)
            emulator.shm_path.chmod(0o666)  # the emulated NVML writes to the model
        with agent(directory, options, kafka.bootstrap, registry.url, emulator.env, first) as process:
            settle(process)
            samples, started = watch(process.pid, caller, 60 * arguments.minutes, callers)
    seconds, resident, own = np.array(samples).T
    later = seconds > seconds[-1] * START_PART
    slope_mib_per_h = float(np.polyfit(seconds[later], resident[later], 1)[0]) * 3600
    first, last = (
        Runs(tuple(part)) for part in (resident[: len(resident) // 10], resident[-len(resident) // 10 :])
    )
    write_figure(
        f"agent_flat_{arguments.loader}",
        last.median,
        "MiB",
        first.median,
        last.median / first.median,
        len(samples),
        median=last.median,
        spread=(float(resident.min()), float(resident.max())),
        baseline_name="the first tenth of the same run",
        slope_mib_per_h=slope_mib_per_h,
        minutes=arguments.minutes,
        processes=started,
        apart=arguments.apart,
        resident_by_minute_mib=by_minute(seconds, resident),
        own_by_minute_mib=by_minute(seconds, own),
    )
    print(
        f"slope {slope_mib_per_h:+.2f} MiB an hour over {arguments.minutes:g} min, {started} processes",
        flush=True,
    )


if __name__ == "__main__":
    main()
