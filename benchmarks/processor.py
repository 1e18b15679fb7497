"""The Faust worker with the whole attribution, on a real Kafka, against a plain Faust agent.

    python -m benchmarks.processor

Nodes of eight exclusive GPUs with eight training pods send windows of columnar batches; one worker closes
and charges them, writes gpu.charges and gpu.progress, and commits. Events a second are counted from the
broker's own timestamps: the events of all windows charged after the first arrival, over the time from the
first arrival to the last; beside it stands how many times faster that is than these nodes make them, which
is how fast a worker catches up. The baseline is what a first Faust program would be: one record an event,
decoded with fastavro and added up in a dict. Both run alone, one after the other, beside the broker on the
same machine. Events a second of a core are said too, by the CPU time of both programs, all their threads
and the kernel's part included: what else the machine does makes little difference to those.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._plain_agent import Rates, create_topic, run, send
from benchmarks._processors import cpu_of_s
from benchmarks.figures import write_figure
from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    apply_topics,
    framed,
    register_all,
)
from gpuledger.contract import topics
from gpuledger.contract.columns import doubles, longs
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import (
    ChargeSet,
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
    SampleBatch,
    decode,
)
from gpuledger.contract.wire import unframe
from gpuledger.localstack import Kafka, Registry

STACK_DIRECTORY = Path("build/stack")
WINDOW_NS = 10_000_000_000
PARTITIONS = 4
NODES = 16
WINDOWS = 60
PARTS = 5  # event batches of a window
EVENTS = 4_000  # of a batch: a node of eight busy GPUs makes some 2,000 calls a second
GPUS = 8
RUNS = 3
TIMEOUT_S = 300.0
LOOK_S = 0.1


def node_window(key: NodeKey, start: int, sequence: int, rng: np.random.Generator) -> Iterator[Any]:
    """All records of one node's window."""
    devices = [Device(f"GPU-{key.node}-{i}", index=i, model="H100") for i in range(GPUS)]
    uuids = [device.uuid for device in devices]
    people = [Process(100 + i, 1, consumer_kind="pod", consumer=f"{key.node}-{i}") for i in range(GPUS)]

    def header(part: int, last: bool = False) -> Header:
        return Header(*key, "boot", 5, sequence + part, start, WINDOW_NS, part=part, last=last)

    yield Holdings(
        header(0),
        start,
        NodeLayout(instance_type="p5.48xlarge", devices=devices),
        keyframe=True,
        pods=[
            Pod(f"{key.node}-{i}", "research", f"train-{i}", labels={"team": f"t{i}"}) for i in range(GPUS)
        ],
        holders=[Holder(f"{key.node}-{i}", i) for i in range(GPUS)],
        processes=people,
        unwitnessed=longs([0] * GPUS),
    )
    length = WINDOW_NS // PARTS
    for part in range(PARTS):
        launches = rng.random(EVENTS) < 0.9
        who = rng.integers(0, GPUS, EVENTS)
        zeros = np.zeros(EVENTS, np.int64)
        yield EventBatch(
            header(part + 1),
            processes=people,
            devices=uuids,
            threads=np.arange(GPUS) + 100,
            functions=longs([1 << 46]),
            time_ns=start + part * length + np.sort(rng.integers(0, length, EVENTS)),
            process=who,
            thread=who,
            device=who,
            operation=np.where(launches, int(Operation.LAUNCH_KERNEL), int(Operation.SYNCHRONIZE_STREAM)),
            duration_ns=np.where(launches, 4_000, rng.integers(100_000, 4_000_000, EVENTS)),
            bytes=zeros,
            launched_threads=np.where(launches, 1 << 16, 0),
            function=np.where(launches, 0, -1),
            result=zeros,
            count=zeros + 1,
            span_ns=zeros,
        )
    values = [(uuid, field) for uuid in range(GPUS) for field in (Field.ENGINE_ACTIVE, Field.SM_ACTIVE)]
    yield SampleBatch(
        header(PARTS + 1, last=True),
        devices=uuids,
        device=longs([device for device, _ in values]),
        process=longs([-1] * len(values)),
        field=longs([field for _, field in values]),
        source=longs([SampleSource.GPM] * len(values)),
        start_ns=longs([start] * len(values)),
        duration_ns=longs([WINDOW_NS] * len(values)),
        value=doubles([0.7, 0.5] * GPUS),
    )


def send_fleet(bus: BusSettings) -> None:
    """Everything that the worker is to charge."""
    kinds = {Holdings: Kind.HOLDINGS, EventBatch: Kind.EVENTS, SampleBatch: Kind.SAMPLES}
    rng = np.random.default_rng(7)
    start = (time.time_ns() // WINDOW_NS - WINDOWS - 10) * WINDOW_NS
    with SchemaRegistry(bus) as registry, Producer(bus, "benchmark") as producer:
        register_all(registry)
        book = PriceBookVersion(1, 0, entries=[PriceEntry("gpu", "gpu", 12_290_000_000, "USD")])
        producer.produce_all([Outgoing(topics.PRICES, b"prices", framed(registry, book), (), 0)])
        for window in range(WINDOWS):
            for number in range(NODES):
                key = NodeKey("c", f"n{number}")
                records = node_window(key, start + window * WINDOW_NS, window * (PARTS + 2), rng)
                producer.produce_all(
                    Outgoing(
                        topics.TELEMETRY,
                        key.key,
                        framed(registry, record),
                        tuple(RecordHeaders.of(record.header, kinds[type(record)], part == 0).to_kafka()),
                    )
                    for part, record in enumerate(records)
                )


def charged(bus: BusSettings) -> list[tuple[int, str]]:
    """(append time in ms, state) of every charge set of a window with records."""
    found = []
    with PartitionReader(bus, "benchmark-reader") as reader:
        for partition in range(reader.partitions(topics.CHARGES)):
            for message in reader.read_to_end(topics.CHARGES, partition):
                record = decode(ChargeSet, unframe(message.value or b"")[1])
                if record.inputs:
                    found.append((message.timestamp_ms, record.state))
    return sorted(found)


def sets_written(bus: BusSettings) -> int:
    """How many charge sets there are; the windows of the fleet's past and no others."""
    with PartitionReader(bus, "benchmark-reader") as reader:
        return sum(reader.bounds(topics.CHARGES, partition)[1] for partition in range(PARTITIONS))


def run_worker(bus: BusSettings, directory: Path) -> Rates:
    """One worker over all that was sent, and charged alone."""
    environment = {
        **os.environ,
        "GPULEDGER_KAFKA_BOOTSTRAP": bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": bus.registry_url,
        "GPULEDGER_PROCESSOR_APPLICATION": "benchmark",
        "GPULEDGER_PROCESSOR_DATA_DIRECTORY": str(directory),
    }
    worker = subprocess.Popen([sys.executable, "-m", "gpuledger.processor"], env=environment)
    deadline = time.monotonic() + TIMEOUT_S
    begun: tuple[int, float] | None = None  # sets and CPU seconds, when the first sets were seen
    try:
        while (found := sets_written(bus)) < NODES * WINDOWS:
            if worker.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the worker charged {found} of {NODES * WINDOWS} windows")
            if found and begun is None:
                begun = found, cpu_of_s(worker.pid)
            time.sleep(LOOK_S)
        if begun is None:
            raise SystemExit(f"the worker charged all within {LOOK_S} s: too few windows")
        spent_s = cpu_of_s(worker.pid) - begun[1]
    finally:
        worker.terminate()
        worker.wait(30)
    sets = charged(bus)
    assert {state for _, state in sets} == {"complete"}
    times = [at for at, _ in sets]
    later = sum(at > times[0] for at in times)
    events = PARTS * EVENTS
    return Rates(
        later * events / ((times[-1] - times[0]) / 1000), (NODES * WINDOWS - begun[0]) * events / spent_s
    )


def main() -> None:
    """Start Kafka and a registry, measure, write build/figures/processor.json."""
    values, baselines = [], []
    for number in range(RUNS):
        with tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name:
            directory = Path(name)
            with (
                Kafka(directory / "kafka", STACK_DIRECTORY) as kafka,
                Registry(directory / "registry", STACK_DIRECTORY) as registry,
            ):
                bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
                apply_topics(bus, partitions=PARTITIONS, replication=1)
                create_topic(bus, PARTITIONS)
                send_fleet(bus)
                send(bus)
                values.append(run_worker(bus, directory / "worker"))
                baselines.append(run(bus, directory / "plain"))
        print(f"run {number + 1}: {values[-1]}, plain {baselines[-1]}", flush=True)
    value, of_core = np.median(values, axis=0).tolist()
    baseline, baseline_of_core = np.median(baselines, axis=0).tolist()
    print(f"of a core: {of_core:,.0f} events/s, {of_core / baseline_of_core:,.0f} times the plain agent's")
    write_figure(
        "processor",
        value,
        "events/s",
        baseline,
        value / baseline,
        RUNS,
        spread=[min(values).a_second, max(values).a_second],
        a_core_second=of_core,
        baseline_a_core_second=baseline_of_core,
        ratio_of_core=of_core / baseline_of_core,
        baseline_name="a plain Faust agent: one record an event, fastavro, a dict of sums",
        times_real_time=value / (NODES * PARTS * EVENTS / (WINDOW_NS / 1e9)),
        shape=f"{NODES} nodes of {GPUS} GPUs, {WINDOWS} windows of {PARTS} batches of {EVENTS} events",
    )


if __name__ == "__main__":
    main()
