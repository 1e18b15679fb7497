"""A whole fleet in real time on the real stack: 1,250 nodes of 8 GPUs whose windows all end together.

    python -m benchmarks.fleet [GPUS [WORKERS]]

A simulated fleet's records are encoded beforehand, and sent at the end of each window, all nodes at once, to
a real Kafka. Processor workers charge them. Measured are the CPU time of the workers over the windows, as a
part of two cores; their peak memory; and how long after a window's end its charges lie in gpu.charges, by
the broker's clock. Broker, registry and the sender run on the same machine and are not counted. The first
windows, in which the workers meet every node for the first time, are not counted either.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks._history import PRICES
from benchmarks._processors import cpu_of_s, peak_bytes
from benchmarks.figures import write_figure
from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    apply_topics,
    framed,
    partition_for_node,
    register_all,
)
from gpuledger.contract import topics
from gpuledger.contract.clock import NS_PER_S
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.records import ChargeSet, EventBatch, Holdings, SampleBatch, decode
from gpuledger.contract.wire import unframe
from gpuledger.localstack import Kafka, Registry
from gpuledger.simulate import FleetSpec, plan_node
from gpuledger.simulate.plan import NodePlan
from gpuledger.simulate.records import lifetime, window_records

STACK_DIRECTORY = Path("build/stack")
GPUS = 10_000
WORKERS = 2
PARTITIONS = 8
WARM_UP = 2  # windows
WINDOWS = 6  # that are measured
CORES = 2
AHEAD_S = 20  # from the last record encoded to the first window's end, at least
SLOWER = 1.6  # than the first nodes were, the encoding of all may be
TIMEOUT_S = 120.0
KINDS = {Holdings: Kind.HOLDINGS, EventBatch: Kind.EVENTS, SampleBatch: Kind.SAMPLES}


def main(gpus: int, workers: int) -> None:
    """Start everything, send in real time, measure, write build/figures/fleet.json."""
    with tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name, ExitStack() as stack:
        directory = Path(name)
        kafka = stack.enter_context(Kafka(directory / "kafka", STACK_DIRECTORY))
        registry = stack.enter_context(Registry(directory / "registry", STACK_DIRECTORY))
        bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
        apply_topics(bus, partitions=PARTITIONS, replication=1)
        spec, plans, sent = prepared(bus, gpus)
        processes = [started(bus, directory / f"worker{number}") for number in range(workers)]
        try:
            cpu_s = send_in_real_time(bus, spec, sent, processes)
            await_charges(bus, len(plans) * len(sent), processes)
            peak = max(peak_bytes(process.pid) for process in processes)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(30)
        measured_from = spec.start_ns + WARM_UP * spec.window_ns
        late_s = latencies_s(bus, measured_from)
    assert len(late_s) == len(plans) * WINDOWS, f"{len(late_s)} charge sets"
    p50, p99 = np.percentile(late_s, [50, 99]).tolist()
    print(f"after the window's end: median {p50:.2f} s, p99 {p99:.2f} s, last {max(late_s):.2f} s")
    print(f"peak memory of a worker {peak / 2**20:,.0f} MiB")
    write_figure(
        "fleet",
        cpu_s / (WINDOWS * spec.window_ns / NS_PER_S) / CORES,
        f"of {CORES} cores",
        1.0,
        cpu_s / (WINDOWS * spec.window_ns / NS_PER_S) / CORES,
        WINDOWS,
        baseline_name=f"all of {CORES} cores",
        cpu_ms_a_node_window=cpu_s / (len(plans) * WINDOWS) * 1000,
        latency_p50_s=p50,
        latency_p99_s=p99,
        latency_max_s=max(late_s),
        peak_bytes_of_a_worker=peak,
        workers=workers,
        shape=f"{len(plans)} nodes of {spec.gpus_per_node} GPUs, {WINDOWS} windows, all ending together",
    )


def prepared(bus: BusSettings, gpus: int) -> tuple[FleetSpec, list[NodePlan], list[list[Outgoing]]]:
    """The fleet, and the records of each window; the first window begins soon after this returns."""
    spec = replace(
        FleetSpec(gpus=gpus, hours=(WARM_UP + WINDOWS) * 10 / 3600), agent_crashes=0.0, node_ends=0.0
    )
    with SchemaRegistry(bus) as registry, Producer(bus, "benchmark") as producer:
        some = [plan_node(spec, number) for number in range(min(50, spec.nodes))]
        encoded(registry, spec, some, spec.start_ns)  # the first time, schemas are registered and compiled
        began = time.monotonic()
        encoded(registry, spec, some, spec.start_ns)
        whole_s = (time.monotonic() - began) / len(some) * spec.nodes * (WARM_UP + WINDOWS)
        ready_ns = time.time_ns() + int((whole_s * SLOWER + AHEAD_S) * NS_PER_S)
        spec = replace(spec, start_ns=ready_ns - ready_ns % spec.window_ns)
        plans = publish_fleet(registry, producer, spec)
        sent = [
            encoded(registry, spec, plans, start)
            for start in range(spec.start_ns, spec.end_ns, spec.window_ns)
        ]
    size = sum(len(record.value or b"") for record in sent[0])
    print(f"{len(plans)} nodes, {len(sent[0])} records of {size / 2**20:.0f} MiB a window", flush=True)
    return spec, plans, sent


def publish_fleet(registry: SchemaRegistry, producer: Producer, spec: FleetSpec) -> list[NodePlan]:
    """Schemas, prices and the lives of the nodes; the plans of these."""
    register_all(registry)
    plans = [plan_node(spec, number) for number in range(spec.nodes)]
    producer.produce_all([Outgoing(topics.PRICES, b"prices", framed(registry, PRICES), (), 0)])
    producer.produce_all(
        Outgoing(
            topics.NODES,
            plan.key.key + b"/" + plan.layout.instance_id.encode(),
            framed(registry, lifetime(plan, spec, ended=False)),
            (),
            partition_for_node(plan.key.key, PARTITIONS),
        )
        for plan in plans
    )
    return plans


def encoded(
    registry: SchemaRegistry, spec: FleetSpec, plans: Iterable[NodePlan], start: int
) -> list[Outgoing]:
    """What the agents of these nodes send of a window."""
    return [
        Outgoing(
            topics.TELEMETRY,
            plan.key.key,
            framed(registry, record),
            tuple(
                RecordHeaders.of(
                    record.header, KINDS[type(record)], getattr(record, "keyframe", False)
                ).to_kafka()
            ),
        )
        for plan in plans
        for record in window_records(spec, plan, start)
    ]


def started(bus: BusSettings, directory: Path) -> subprocess.Popen[bytes]:
    """A worker."""
    environment = {
        **os.environ,
        "GPULEDGER_KAFKA_BOOTSTRAP": bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": bus.registry_url,
        "GPULEDGER_PROCESSOR_APPLICATION": "benchmark",
        "GPULEDGER_PROCESSOR_DATA_DIRECTORY": str(directory),
    }
    return subprocess.Popen([sys.executable, "-m", "gpuledger.processor"], env=environment)


def send_in_real_time(
    bus: BusSettings,
    spec: FleetSpec,
    sent: Sequence[list[Outgoing]],
    processes: Sequence[subprocess.Popen[bytes]],
) -> float:
    """Send each window at its end; the CPU seconds of the workers over those that are measured."""
    before = 0.0
    with Producer(bus, "benchmark") as producer:
        for number, records in enumerate(sent):
            end_ns = spec.start_ns + (number + 1) * spec.window_ns
            wait_s = (end_ns - time.time_ns()) / NS_PER_S
            if wait_s < 0 and number == 0:
                raise SystemExit(f"the fleet was encoded {-wait_s:.1f} s too late: the machine is too busy")
            time.sleep(max(0.0, wait_s))
            if number == WARM_UP:
                before = sum(cpu_of_s(process.pid) for process in processes)
            producer.produce_all(records)
            records.clear()
            print(f"window {number + 1} of {len(sent)} sent", flush=True)
    time.sleep(max(0.0, (spec.end_ns + spec.window_ns - time.time_ns()) / NS_PER_S))
    return sum(cpu_of_s(process.pid) for process in processes) - before


def await_charges(bus: BusSettings, count: int, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until so many charge sets are there."""
    deadline = time.monotonic() + TIMEOUT_S
    with PartitionReader(bus, "benchmark-reader") as reader:
        while (found := sum(reader.bounds(topics.CHARGES, p)[1] for p in range(PARTITIONS))) < count:
            if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
                raise SystemExit(f"{found} of {count} windows were charged")
            time.sleep(1)


def latencies_s(bus: BusSettings, from_ns: int) -> list[float]:
    """Seconds from the end of each window since then to the append of its charges, the first ones."""
    found: dict[tuple[str, int], float] = {}
    with PartitionReader(bus, "benchmark-reader") as reader:
        for partition in range(PARTITIONS):
            for message in reader.read_to_end(topics.CHARGES, partition):
                record = decode(ChargeSet, unframe(message.value or b"")[1])
                if record.window_start_ns >= from_ns:
                    assert record.state == "complete", record.state
                    end_s = (record.window_start_ns + record.window_length_ns) / NS_PER_S
                    found.setdefault(
                        (record.node, record.window_start_ns), message.timestamp_ms / 1000 - end_s
                    )
    return list(found.values())


if __name__ == "__main__":
    main(*(int(text) for text in (sys.argv[1:] + [str(GPUS), str(WORKERS)][len(sys.argv) - 1 :])))
