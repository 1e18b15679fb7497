"""How long after kill -9 of a processor its first new charge is out.

    python -m benchmarks.recovery

Nodes send a window each half a second. A worker that charges them is killed; another one is started at
once, as a supervisor does. The time runs from the kill to the broker's timestamp of the first charge of a
window that had not been charged before. The baseline is the same worker with Kafka's default session of
45 s.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import write_figure
from gpuledger.bus import BusSettings, SchemaRegistry, apply_topics, register_all
from gpuledger.contract import topics
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import ChargeSet, decode
from gpuledger.contract.wire import unframe
from gpuledger.localstack import Kafka, Registry
from tests.support.children import tied
from tests.support.fleet import WINDOW_NS, Node, Sender, read_all, recent_start

STACK_DIRECTORY = Path("build/stack")
RUNS = 3
NODES = 8
PARTITIONS = 4
PAUSE_S = 0.5
TIMEOUT_S = 120.0
WAYS: dict[str, dict[str, str]] = {
    "default": {},
    "session of 45 s": {"SESSION_TIMEOUT_S": "45"},
}


def worker(
    bus: BusSettings, application: str, directory: Path, more: dict[str, str]
) -> subprocess.Popen[bytes]:
    """A worker of that application."""
    settings = {"APPLICATION": application, "DATA_DIRECTORY": str(directory), **more}
    environment = {
        **os.environ,
        "GPULEDGER_KAFKA_BOOTSTRAP": bus.kafka_bootstrap,
        "GPULEDGER_REGISTRY_URL": bus.registry_url,
        **{f"GPULEDGER_PROCESSOR_{name}": value for name, value in settings.items()},
    }
    with (directory / "worker.log").open("ab") as log:
        return subprocess.Popen(
            tied([sys.executable, "-m", "gpuledger.processor"]), env=environment, stdout=log, stderr=log
        )


@contextmanager
def sending(bus: BusSettings) -> Iterator[None]:
    """Nodes send one window after the other."""
    stop = threading.Event()

    def send() -> None:
        sender = Sender(bus)
        sender.prices()
        nodes = [Node(NodeKey("c", f"n{number}")) for number in range(NODES)]
        start = recent_start(3000)
        while not stop.wait(PAUSE_S):
            for node in nodes:
                sender.telemetry(node.window(start))
            start += WINDOW_NS
        sender.close()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def newest(bus: BusSettings) -> dict[int, int]:
    """Of each window charged, its first append time in ms."""
    found: dict[int, int] = {}
    for message in read_all(bus, topics.CHARGES):
        start = decode(ChargeSet, unframe(message.value or b"")[1]).window_start_ns
        found[start] = min(message.timestamp_ms, found.get(start, message.timestamp_ms))
    return found


def recovery_s(bus: BusSettings, way: str, directory: Path) -> float:
    """Seconds from the kill to the first new charge."""
    application = way.replace(" ", "-")
    first = worker(bus, application, directory, WAYS[way])
    second = None
    try:
        await_windows(bus, first, set(newest(bus)), 4)
        time.sleep(2)
        killed_ms = time.time() * 1000
        first.kill()
        first.wait()
        known = set(newest(bus))
        second = worker(bus, application, directory, WAYS[way])
        fresh = await_windows(bus, second, known, 1)
        return (min(at for start, at in fresh.items() if start not in known) - killed_ms) / 1000
    finally:
        for one in (first, second):
            if one is not None and one.poll() is None:
                one.kill()
                one.wait()


def await_windows(
    bus: BusSettings, process: subprocess.Popen[bytes], known: set[int], count: int
) -> dict[int, int]:
    """Wait until that many windows more are charged."""
    deadline = time.monotonic() + TIMEOUT_S
    while len(set(found := newest(bus)) - known) < count:
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the worker charged nothing")
        time.sleep(PAUSE_S)
    return found


def main() -> None:
    """Start Kafka and a registry, measure, write build/figures/recovery.json."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for way in WAYS:
        for run in range(RUNS):
            with tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name:
                directory = Path(name)
                with (
                    Kafka(directory / "kafka", STACK_DIRECTORY) as kafka,
                    Registry(directory / "registry", STACK_DIRECTORY) as registry,
                ):
                    bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
                    apply_topics(bus, partitions=PARTITIONS, replication=1)
                    with SchemaRegistry(bus) as schemas:
                        register_all(schemas)
                    with sending(bus):
                        seconds[way].append(recovery_s(bus, way, directory))
            print(f"run {run + 1}, {way}: {seconds[way][-1]:.1f} s", flush=True)
    median = {way: statistics.median(found) for way, found in seconds.items()}
    baseline = median["session of 45 s"]
    write_figure(
        "recovery",
        median["default"],
        "s",
        baseline,
        median["default"] / baseline,
        RUNS,
        spread=[min(seconds["default"]), max(seconds["default"])],
        baseline_name="the same with Kafka's default session of 45 s",
    )


if __name__ == "__main__":
    main()
