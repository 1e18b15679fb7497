"""How much faster than real time processor workers work off what a fleet sent while they were away.

    python -m benchmarks.catching_up [GPUS [WORKERS]]

A simulated fleet's windows lie in Kafka before the workers start. The windows that are charged after the
first are counted, by the broker's clock: their length times their number, over the time that they took. It
is said for the CPU time of the workers as well: how much faster one core would be with nothing beside it.
Beside it stands the most memory that a worker had.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks._processors import cpu_of_s, peak_bytes
from benchmarks.figures import write_figure
from benchmarks.fleet import PARTITIONS, STACK_DIRECTORY, encoded, publish_fleet, started
from gpuledger.bus import BusSettings, PartitionReader, Producer, SchemaRegistry, apply_topics
from gpuledger.contract import topics
from gpuledger.contract.clock import NS_PER_S
from gpuledger.localstack import Kafka, Registry
from gpuledger.simulate import FleetSpec

GPUS = 1_000
WORKERS = 2
WINDOWS = 60  # ten minutes away
LOOK_S = 0.2
TIMEOUT_S = 900.0


def main(gpus: int, workers: int) -> None:
    """Send, start, measure, write build/figures/catching_up.json."""
    spec = FleetSpec(gpus=gpus, hours=WINDOWS * 10 / 3600)
    past_ns = time.time_ns() - (WINDOWS + 30) * spec.window_ns
    spec = replace(spec, start_ns=past_ns - past_ns % spec.window_ns, agent_crashes=0.0, node_ends=0.0)
    with tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name, ExitStack() as stack:
        directory = Path(name)
        kafka = stack.enter_context(Kafka(directory / "kafka", STACK_DIRECTORY))
        registry = stack.enter_context(Registry(directory / "registry", STACK_DIRECTORY))
        bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
        apply_topics(bus, partitions=PARTITIONS, replication=1)
        with SchemaRegistry(bus) as schemas, Producer(bus, "benchmark") as producer:
            plans = publish_fleet(schemas, producer, spec)
            for start in range(spec.start_ns, spec.end_ns, spec.window_ns):
                producer.produce_all(encoded(schemas, spec, plans, start))
        count = len(plans) * WINDOWS
        processes = [started(bus, directory / f"worker{number}") for number in range(workers)]
        pids = [process.pid for process in processes]
        try:
            seen: list[tuple[int, float, float]] = []  # sets, seconds, CPU seconds
            deadline = time.monotonic() + TIMEOUT_S
            while not seen or seen[-1][0] < count:
                if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
                    raise SystemExit(f"{seen[-1:]} of {count} windows were charged")
                time.sleep(LOOK_S)
                found = charged(bus)
                if found:
                    seen.append((found, time.monotonic(), sum(map(cpu_of_s, pids))))
            largest = max(map(peak_bytes, pids))
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(30)
    windows = (seen[-1][0] - seen[0][0]) / len(plans)  # of the whole fleet
    length_s = windows * spec.window_ns / NS_PER_S
    faster = length_s / (seen[-1][1] - seen[0][1])
    write_figure(
        "catching_up",
        faster,
        "x real time",
        1.0,
        faster,
        1,
        baseline_name="the fleet's own time",
        times_real_time_of_a_core=length_s / (seen[-1][2] - seen[0][2]),
        workers=workers,
        peak_bytes_of_a_worker=largest,
        shape=f"{gpus} GPUs, {len(plans)} nodes, {WINDOWS} windows",
    )


def charged(bus: BusSettings) -> int:
    """How many charge sets there are."""
    with PartitionReader(bus, "benchmark-reader") as reader:
        return sum(reader.bounds(topics.CHARGES, partition)[1] for partition in range(PARTITIONS))


if __name__ == "__main__":
    main(*(int(text) for text in (sys.argv[1:] + [str(GPUS), str(WORKERS)][len(sys.argv) - 1 :])))
