"""Raw events a second from a real Kafka into an archive, on one core, and memory.

    python -m benchmarks.archive            (or: python -m benchmarks.archive memory)

An archiver copies what busy nodes sent (2,000 calls a second each) into a directory, checksums and manifest
included. Seconds are the processor's, of the archiver and of Kafka's client in it. The baseline reads the
same records with the same client and writes each as a line of JSON with its bytes in base64, as a first
consumer would, in one file without checksums.

Memory (``archive_memory``) is the peak of a process that copies a backlog of 24 hours of a busy node, all at
once, against that of 4 hours, which is more than the archiver holds already. An hour is the records of
five minutes, sent again and again: the archiver looks into none of them.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.figures import Runs, write_figure
from benchmarks.processor import (
    EVENTS,
    GPUS,
    NODES,
    PARTITIONS,
    PARTS,
    STACK_DIRECTORY,
    WINDOW_NS,
    WINDOWS,
    node_window,
    send_fleet,
)
from gpuledger.archive.archiver import Archiver
from gpuledger.archive.store import Directory
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
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import EventBatch, Holdings
from gpuledger.contract.topics import TELEMETRY
from gpuledger.contract.windows import HOUR_NS
from gpuledger.localstack import Kafka, Registry

RUNS = 3
SHORT_HOURS, LONG_HOURS = 4, 24
CYCLE_WINDOWS = 30
CALLS = NODES * WINDOWS * PARTS * EVENTS


def archived(bus: BusSettings, directory: Path) -> float:
    """Processor seconds of an archiver that copies all there is."""
    archiver = Archiver(bus, Directory(directory), SystemClock())
    start = time.process_time()
    archiver.run(lambda: False, once=True)
    seconds = time.process_time() - start
    archiver.close()
    return seconds


def peak_of(bus: BusSettings, directory: Path) -> int:
    """Peak memory of a process that archives all there is, in bytes."""
    environment = {
        **os.environ,
        "GPULEDGER_KAFKA_BOOTSTRAP": bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": bus.registry_url,
    }
    command = [sys.executable, "-m", "benchmarks.archive", str(directory)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return int(done.stdout.split()[-1])


def own_peak() -> int:
    """Of this process since it was started; ru_maxrss would count its parent's too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def plain(bus: BusSettings, path: Path) -> float:
    """Processor seconds of the baseline."""
    start = time.process_time()
    with PartitionReader(bus, "benchmark") as reader, path.open("w") as file:
        for partition in range(PARTITIONS):
            for record in reader.read_to_end(TELEMETRY, partition):
                line = {
                    "partition": partition,
                    "offset": record.offset,
                    "time": record.timestamp_ms,
                    "key": (record.key or b"").decode(),
                    "headers": [[name, (value or b"").decode()] for name, value in record.headers],
                    "value": base64.b64encode(record.value or b"").decode(),
                }
                file.write(json.dumps(line) + "\n")
    return time.process_time() - start


def send_hours(bus: BusSettings, hours: int) -> None:
    """What a busy node sends in so many hours, in one partition."""
    rng = np.random.default_rng(7)
    key, kinds = NodeKey("c", "n0"), {Holdings: Kind.HOLDINGS, EventBatch: Kind.EVENTS}
    with SchemaRegistry(bus) as registry, Producer(bus, "benchmark") as producer:
        register_all(registry)
        cycle = [
            Outgoing(
                TELEMETRY,
                key.key,
                framed(registry, record),
                tuple(
                    RecordHeaders.of(
                        record.header, kinds.get(type(record), Kind.SAMPLES), isinstance(record, Holdings)
                    ).to_kafka()
                ),
            )
            for window in range(CYCLE_WINDOWS)
            for record in node_window(key, WINDOW_NS * (1 + window), window * (PARTS + 2), rng)
        ]
        for _ in range(hours * HOUR_NS // WINDOW_NS // CYCLE_WINDOWS):
            producer.produce_all(cycle)


def memory() -> None:
    """Write build/figures/archive_memory.json."""
    with tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name:
        directory = Path(name)
        with (
            Kafka(directory / "kafka", STACK_DIRECTORY) as kafka,
            Registry(directory / "registry", STACK_DIRECTORY) as registry,
        ):
            bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
            apply_topics(bus, partitions=PARTITIONS, replication=1)
            peaks = []
            for hours in (SHORT_HOURS, LONG_HOURS - SHORT_HOURS):
                send_hours(bus, hours)
                peaks.append(peak_of(bus, directory / f"peak{hours}"))
    write_figure(
        "archive_memory",
        peaks[1],
        f"bytes, {LONG_HOURS} hours",
        peaks[0],
        peaks[1] / peaks[0],
        1,
        baseline_name=f"{SHORT_HOURS} hours",
        shape=f"one node of {GPUS} GPUs, {PARTS} x {EVENTS} events a window, all of it a backlog",
    )


def main() -> None:
    """Start Kafka and a registry, measure, write build/figures."""
    memory()
    with tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name:
        directory = Path(name)
        with (
            Kafka(directory / "kafka", STACK_DIRECTORY) as kafka,
            Registry(directory / "registry", STACK_DIRECTORY) as registry,
        ):
            bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
            apply_topics(bus, partitions=PARTITIONS, replication=1)
            send_fleet(bus)
            values = Runs(tuple(archived(bus, directory / f"a{run}") for run in range(RUNS))).rate(CALLS)
            base = Runs(tuple(plain(bus, directory / f"b{run}") for run in range(RUNS))).rate(CALLS)
            size_bytes = sum(path.stat().st_size for path in (directory / "a0").rglob("*.parquet"))
            lines = (directory / "b0").stat().st_size
    write_figure(
        "archive",
        values.median,
        "events/s of a core",
        base.median,
        values.median / base.median,
        RUNS,
        spread=values.spread,
        baseline_name="one line of JSON a record, bytes in base64, no checksums",
        shape=f"{NODES} nodes, {WINDOWS} windows of {PARTS} x {EVENTS} events",
        bytes_per_event=size_bytes / CALLS,
        baseline_bytes_per_event=lines / CALLS,
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["memory"]:
        memory()
    elif len(sys.argv) == 2:
        archived(BusSettings.load(), Path(sys.argv[1]))
        print(own_peak())
    else:
        main()
