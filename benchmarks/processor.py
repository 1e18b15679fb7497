"""The Faust worker with the whole attribution, on a real Kafka, against a plain Faust agent.

    python -m benchmarks.processor

Nodes of eight exclusive GPUs with eight training pods send windows of columnar batches; one worker closes
and charges them, writes gpu.charges and gpu.progress, and commits. Events a second are counted from the
broker's own timestamps: the events of all windows charged after the first arrival, over the time from the
first arrival to the last; beside it stands how many times faster that is than these nodes make them, which
is how fast a worker catches up. The baseline is what a first Faust program would be: one record an event,
decoded with fastavro and added up in a dict. Both run alone, one after the other, beside the broker on the
same machine.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

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
WINDOWS = 30
PARTS = 5  # event batches of a window
EVENTS = 4_000  # of a batch: a node of eight busy GPUs makes some 2,000 calls a second
GPUS = 8
RUNS = 3
BASELINE_RECORDS = 60_000
BASELINE_TOPIC = "plain-events"
BASELINE_SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "node", "type": "string"},
        *(
            {"name": name, "type": "long"}
            for name in ("time_ns", "pid", "device", "operation", "duration_ns", "bytes", "launched_threads")
        ),
    ],
}
TIMEOUT_S = 300.0


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


def run_worker(bus: BusSettings, directory: Path) -> float:
    """Events a second of one worker over all that was sent, and charged alone."""
    environment = {
        **os.environ,
        "GPULEDGER_KAFKA_BOOTSTRAP": bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": bus.registry_url,
        "GPULEDGER_PROCESSOR_APPLICATION": "benchmark",
        "GPULEDGER_PROCESSOR_DATA_DIRECTORY": str(directory),
    }
    worker = subprocess.Popen([sys.executable, "-m", "gpuledger.processor"], env=environment)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while (found := sets_written(bus)) < NODES * WINDOWS:
            if worker.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the worker charged {found} of {NODES * WINDOWS} windows")
            time.sleep(1)
    finally:
        worker.terminate()
        worker.wait(30)
    sets = charged(bus)
    assert {state for _, state in sets} == {"complete"}
    times = [at for at, _ in sets]
    later = sum(at > times[0] for at in times)
    return later * PARTS * EVENTS / ((times[-1] - times[0]) / 1000)


def run_baseline(bus: BusSettings, directory: Path) -> float:
    """Records a second of the plain agent."""
    environment = {**os.environ, "BOOTSTRAP": bus.kafka_bootstrap, "DATA": str(directory)}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.processor", "plain-agent"],
        env=environment,
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=True,
        text=True,
    )
    return float(done.stdout.split()[-1])


def send_plain(bus: BusSettings) -> None:
    """One record an event."""
    rng = np.random.default_rng(7)
    parsed = fastavro.parse_schema(BASELINE_SCHEMA)

    def record(number: int) -> Outgoing:
        out = io.BytesIO()
        gpu = int(rng.integers(0, GPUS))
        event = {
            "node": f"n{number % NODES}", "time_ns": 1_700_000_000_000_000_000 + number, "pid": 100 + gpu,
            "device": gpu, "operation": 1, "duration_ns": 4_000, "bytes": 0, "launched_threads": 1 << 16,
        }  # fmt: skip
        fastavro.schemaless_writer(out, parsed, event)
        return Outgoing(BASELINE_TOPIC, f"n{number % NODES}".encode(), out.getvalue())

    with Producer(bus, "benchmark-plain") as producer:
        producer.produce_all(record(number) for number in range(BASELINE_RECORDS))


def plain_agent() -> None:
    """A first Faust program: one record an event, one dict of sums."""
    import faust  # only in the baseline's own process

    app = faust.App(
        f"plain-{os.getpid()}",
        broker=f"kafka://{os.environ['BOOTSTRAP']}",
        consumer_auto_offset_reset="earliest",
        datadir=os.environ["DATA"],
        store="memory://",
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
    )
    topic = app.topic(
        BASELINE_TOPIC, key_type=bytes, key_serializer="raw", value_type=bytes, value_serializer="raw"
    )
    parsed = fastavro.parse_schema(BASELINE_SCHEMA)
    sums: dict[tuple[Any, Any, Any], int] = {}

    async def add_up(stream: Any) -> None:
        count, began = 0, 0.0
        async for value in stream:
            event: Any = fastavro.schemaless_reader(io.BytesIO(value), parsed, None)
            key = (event["node"], event["pid"], event["time_ns"] // WINDOW_NS)
            sums[key] = sums.get(key, 0) + event["duration_ns"]
            began = began or time.perf_counter()
            count += 1
            if count == BASELINE_RECORDS:
                os.write(1, f"{count / (time.perf_counter() - began)}\n".encode())
                os._exit(0)

    app.agent(topic)(add_up)
    faust.Worker(app, loglevel="ERROR", redirect_stdouts=False).execute_from_commandline()


def main() -> None:
    """Start Kafka and a registry, measure, write build/figures/processor.json."""
    values, baselines = [], []
    for run in range(RUNS):
        with tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name:
            directory = Path(name)
            with (
                Kafka(directory / "kafka", STACK_DIRECTORY) as kafka,
                Registry(directory / "registry", STACK_DIRECTORY) as registry,
            ):
                bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
                apply_topics(bus, partitions=PARTITIONS, replication=1)
                create_plain_topic(bus)
                send_fleet(bus)
                send_plain(bus)
                values.append(run_worker(bus, directory / "worker"))
                baselines.append(run_baseline(bus, directory / "plain"))
        print(f"run {run + 1}: {values[-1]:,.0f} events/s, plain {baselines[-1]:,.0f}", flush=True)
    value, baseline = float(np.median(values)), float(np.median(baselines))
    write_figure(
        "processor",
        value,
        "events/s",
        baseline,
        value / baseline,
        RUNS,
        spread=[min(values), max(values)],
        baseline_name="a plain Faust agent: one record an event, fastavro, a dict of sums",
        times_real_time=value / (NODES * PARTS * EVENTS / (WINDOW_NS / 1e9)),
        shape=f"{NODES} nodes of {GPUS} GPUs, {WINDOWS} windows of {PARTS} batches of {EVENTS} events",
    )


def create_plain_topic(bus: BusSettings) -> None:
    """The baseline's topic, with as many partitions."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    client = AdminClient(bus.client_config())
    client.create_topics([NewTopic(BASELINE_TOPIC, PARTITIONS, 1)])[BASELINE_TOPIC].result()


if __name__ == "__main__":
    if sys.argv[1:] == ["plain-agent"]:
        plain_agent()
    else:
        main()
