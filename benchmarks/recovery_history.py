"""How long after kill -9 of all workers the first new charge is out, where nodes have eight days of history.

    python -m benchmarks.recovery_history [NODES [DAYS]]

gpu.progress holds every window of these days, written hour by hour, as it is compacted. Nodes send a window
every ten seconds, two workers charge them. Both are killed, and started anew at once, as a supervisor does.
The time runs from the kill to the broker's timestamp of the first charge of a window that had not been
charged before; also said is when each node had such a charge, and when all history was loaded. The baseline
is the same without history.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks._processors import peak_bytes
from benchmarks._progress import write_history
from benchmarks.figures import write_figure
from benchmarks.recovery import STACK_DIRECTORY, worker
from gpuledger.bus import (
    BusSettings,
    PartitionReader,
    SchemaRegistry,
    apply_topics,
    register_all,
)
from gpuledger.contract import topics
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import ChargeSet, decode
from gpuledger.contract.windows import NS_PER_S
from gpuledger.contract.wire import unframe
from gpuledger.localstack import Kafka, Registry
from tests.support.fleet import WINDOW_NS, Node, Sender

NODES = 1_250  # 10,000 GPUs
DAYS = 8
WORKERS = 2
PARTITIONS = 8
KILLS = 3
CALLS = 8  # of a node in a window
WINDOWS_BEFORE = 3  # that each node was charged for when the workers are killed
TIMEOUT_S = 900.0


class Recovery(NamedTuple):
    """Seconds from the kill."""

    first_charge_s: float
    each_node_s: float
    loaded_s: float


def nodes_of(count: int) -> list[Node]:
    """Their names have one length."""
    return [Node(NodeKey("c", f"n{number:05}"), events=CALLS) for number in range(count)]


@contextmanager
def sending(bus: BusSettings, nodes: Sequence[Node], start_ns: int) -> Iterator[None]:
    """Each window is sent at its end, of all nodes at once."""
    stop = threading.Event()

    def send() -> None:
        sender = Sender(bus)
        start = start_ns
        while not stop.wait(max(0.0, (start + WINDOW_NS - time.time_ns()) / NS_PER_S)):
            sender.telemetry(record for node in nodes for record in node.window(start))
            start += WINDOW_NS
        sender.close()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Charges:
    """What is in gpu.charges, read as it comes."""

    def __init__(self, bus: BusSettings) -> None:
        self._reader = PartitionReader(bus, "benchmark-reader")
        self._next = dict.fromkeys(range(PARTITIONS), 0)
        self.first_ms: dict[tuple[str, int], int] = {}
        """Of each window that was charged, when it was first."""

    def read(self) -> None:
        """All that came since."""
        for partition in self._next:
            for message in self._reader.read_to_end(topics.CHARGES, partition, self._next[partition]):
                record = decode(ChargeSet, unframe(message.value or b"")[1])
                place = record.node, record.window_start_ns
                self.first_ms.setdefault(place, message.timestamp_ms)
                self._next[partition] = message.offset + 1

    def since(self, known: set[tuple[str, int]]) -> dict[str, int]:
        """Of each node, when the first window was charged that is not among these, in ms."""
        found: dict[str, int] = {}
        for (node, start), at_ms in self.first_ms.items():
            if (node, start) not in known:
                found[node] = min(at_ms, found.get(node, at_ms))
        return found

    def close(self) -> None:
        """Let go of the connection."""
        self._reader.close()


def loaded(directories: Sequence[Path]) -> int:
    """Of how many partitions workers have all history, by their logs."""
    logs = [(directory / "worker.log").read_text() for directory in directories]
    return sum(log.count("history loaded") for log in logs)


def await_that(condition: Callable[[], bool], processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
            raise SystemExit("a worker ended, or it took too long")
        time.sleep(0.5)


def started(bus: BusSettings, directory: Path, life: int) -> tuple[list[subprocess.Popen[bytes]], list[Path]]:
    """All workers, each with a directory of its own."""
    places = [directory / f"worker{life}-{number}" for number in range(WORKERS)]
    for place in places:
        place.mkdir()
    return [worker(bus, "benchmark", place, {}) for place in places], places


def measure(count: int, days: int) -> tuple[list[Recovery], int]:
    """Kill and start anew, some times; and the most memory that a worker took."""
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
            sender = Sender(bus)
            sender.prices()
            sender.close()
            return recoveries(bus, directory, nodes_of(count), days)


def recoveries(
    bus: BusSettings, directory: Path, nodes: Sequence[Node], days: int
) -> tuple[list[Recovery], int]:
    """See ``measure``."""
    start_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    if days:
        begun = time.monotonic()
        size = write_history(bus, nodes, days, start_ns, PARTITIONS)  # the windows since then are sent late
        print(f"{size / 2**20:,.0f} MiB of history in {time.monotonic() - begun:.0f} s", flush=True)
    found: list[Recovery] = []
    peak = 0
    charges = Charges(bus)
    processes, _ = started(bus, directory, 0)
    try:
        with sending(bus, nodes, start_ns):
            for kill in range(KILLS):
                await_charges(charges, len(charges.first_ms) + WINDOWS_BEFORE * len(nodes), processes)
                peak = max(peak, *(peak_bytes(process.pid) for process in processes))
                killed_s = end(processes)
                charges.read()
                processes, places = started(bus, directory, kill + 1)
                found.append(recovery(charges, len(nodes), killed_s, processes, places))
                print(f"kill {kill + 1}: {json.dumps(found[-1]._asdict())}", flush=True)
                peak = max(peak, *(peak_bytes(process.pid) for process in processes))
    finally:
        end(processes)
        charges.close()
    return found, peak


def end(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """kill -9 of all; when that was, Unix seconds."""
    at_s = time.time()
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
    return at_s


def await_charges(charges: Charges, count: int, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until so many windows are charged."""

    def is_so() -> bool:
        charges.read()
        return len(charges.first_ms) >= count

    await_that(is_so, processes)


def recovery(
    charges: Charges,
    nodes: int,
    killed_s: float,
    processes: Sequence[subprocess.Popen[bytes]],
    places: Sequence[Path],
) -> Recovery:
    """What new workers took; ``charges`` has all that there was before."""
    known = set(charges.first_ms)
    await_that(lambda: loaded(places) >= PARTITIONS, processes)
    loaded_s = time.time() - killed_s

    def is_recovered() -> bool:
        charges.read()
        return len(charges.since(known)) == nodes

    await_that(is_recovered, processes)
    at_s = [at_ms / 1000 - killed_s for at_ms in charges.since(known).values()]
    return Recovery(min(at_s), max(at_s), loaded_s)


def main(nodes: int, days: int) -> None:
    """Start Kafka and a registry, measure, write build/figures/recovery_history.json."""
    without, peak_without = measure(nodes, 0)
    found, peak = measure(nodes, days)
    first = [one.first_charge_s for one in found]
    base = statistics.median(one.first_charge_s for one in without)
    value = statistics.median(first)
    each = statistics.median(one.each_node_s for one in found)
    loaded = statistics.median(one.loaded_s for one in found)
    print(f"each node had a new charge after {each:.1f} s, all history was loaded after {loaded:.1f} s")
    print(f"peak memory of a worker {peak / 2**20:,.0f} MiB, without history {peak_without / 2**20:,.0f} MiB")
    write_figure(
        "recovery_history",
        value,
        "s",
        base,
        value / base,
        len(found),
        spread=[min(first), max(first)],
        baseline_name="the same without history",
        each_node_s=each,
        loaded_s=loaded,
        peak_bytes_of_a_worker=peak,
        peak_bytes_without=peak_without,
        shape=f"{nodes} nodes, {days} days of windows of 10 s, {WORKERS} workers, {PARTITIONS} partitions",
    )


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:]]
    main(*(arguments + [NODES, DAYS][len(arguments) :]))
