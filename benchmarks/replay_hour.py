"""An hour of a fleet with faults, charged live, archived, and replayed to the same bytes.

    python -m benchmarks.replay_hour [GPUS] [SEED]          (or: make replay-hour)

A simulated fleet of 200 GPUs, an hour of it, is sent to a real Kafka as fast as it goes. Agents crash
inside windows and begin epochs; nodes end; a third of the nodes lose their connection for minutes and send
afterwards what they spooled; some records come twice, some are lost, some batches of calls are handed in
long after their window. Two processor workers charge it meanwhile; one of them is killed with -9 again and
again. Then all of it is archived, and a replay from the archive is compared with gpu.charges: every window,
every column but the revision and the lineage. It fails where one differs.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.figures import write_figure
from benchmarks.processor import STACK_DIRECTORY
from gpuledger.archive.archiver import Archiver
from gpuledger.archive.store import Directory
from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    apply_topics,
    committed_offsets,
    framed,
    register_all,
)
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.records import EventBatch, PriceBookVersion, PriceEntry
from gpuledger.contract.topics import CHARGES, PRICES, TELEMETRY
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.localstack import Kafka, Registry
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay.checking import compare
from gpuledger.replay.recorded import read_recorded
from gpuledger.replay.request import Request
from gpuledger.replay.running import replay
from gpuledger.replay.show import print_comparison
from gpuledger.simulate import FleetSpec, NodePlan, plan_node
from gpuledger.simulate.emit import Topics
from gpuledger.simulate.records import Telemetry, lifetime, window_records

PARTITIONS = 4
WORKERS = 2
SILENCE_S = 5
SESSION_S = 6
APPLICATION = "replay-hour"
KILL_EVERY_WINDOWS = 60  # of the fleet: six kills in the hour
SETS_BETWEEN_KILLS = 40
AWAY = 1 / 3  # of the nodes, once
AWAY_WINDOWS = (30, 90)
TWICE, LOST, LATE = 0.01, 0.002, 0.005  # of the records; late ones are batches of calls
LATE_WINDOWS = 60
TIMEOUT_S = 3_600.0
QUIET_S = 20.0  # nothing more is charged for so long: several times the silence and the interval of marks


@dataclass(slots=True)
class Faults:
    """What becomes of the records of a window on their way."""

    random: random.Random
    plans: list[NodePlan]
    windows: int
    count: Counter[str] = field(default_factory=Counter)
    _away: dict[str, tuple[int, int]] = field(default_factory=dict)
    _spool: dict[str, list[Telemetry]] = field(default_factory=dict)
    _late: dict[int, list[Telemetry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for plan in self.plans:
            if self.random.random() < AWAY:
                first = self.random.randrange(1, self.windows)
                self._away[plan.key.node] = first, first + self.random.randrange(*AWAY_WINDOWS)
                self.count["spools"] += 1

    def sent(self, number: int, plan: NodePlan, records: Iterator[Telemetry]) -> Iterator[Telemetry]:
        """What reaches Kafka now of what an agent made in the window of that number."""
        node = plan.key.node
        spool = self._spool.setdefault(node, [])
        first, end = self._away.get(node, (0, 0))
        for record in records:
            chance = self.random.random()
            if chance < LOST:
                self.count["lost"] += 1
            elif chance < LOST + LATE and isinstance(record, EventBatch):
                self._late.setdefault(number + self.random.randrange(2, LATE_WINDOWS), []).append(record)
                self.count["late"] += 1
            else:
                spool += [record] * (2 if chance > 1 - TWICE else 1)
                self.count["twice"] += chance > 1 - TWICE
        if not first <= number < end:
            yield from spool
            spool.clear()

    def handed_in(self, number: int) -> list[Telemetry]:
        """The batches that come with the window of that number."""
        return self._late.pop(number, [])

    def rest(self) -> Iterator[Telemetry]:
        """What is still on its way at the end."""
        for records in (*self._spool.values(), *self._late.values()):
            yield from records


@dataclass(slots=True)
class Workers:
    """Processor workers as processes of their own."""

    bus: BusSettings
    directory: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    kills: int = 0
    _started: int = 0
    _charged: int = 0

    def start(self) -> None:
        """One more."""
        environment = {
            **os.environ,
            "GPULEDGER_KAFKA_BOOTSTRAP": self.bus.kafka_bootstrap,
            "GPULEDGER_REGISTRY_URL": self.bus.registry_url,
            "GPULEDGER_PROCESSOR_APPLICATION": APPLICATION,
            "GPULEDGER_PROCESSOR_SILENCE_S": str(SILENCE_S),
            "GPULEDGER_PROCESSOR_SESSION_TIMEOUT_S": str(SESSION_S),
            "GPULEDGER_PROCESSOR_MARK_INTERVAL_S": "1",
            "GPULEDGER_PROCESSOR_DATA_DIRECTORY": str(self.directory / f"faust{self._started}"),
        }
        with (self.directory / f"worker{self._started}.log").open("wb") as log:
            command = [sys.executable, "-m", "gpuledger.processor"]
            self.running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        self._started += 1

    def kill_one(self) -> None:
        """kill -9 of the one that has run longest, in the midst of charging, and another in its place."""
        deadline = time.monotonic() + TIMEOUT_S
        while (charged := sum(ends(self.bus, CHARGES))) < self._charged + SETS_BETWEEN_KILLS:
            if time.monotonic() > deadline:
                raise SystemExit(f"nothing more is charged: see {self.directory}")
            time.sleep(0.1)
        self._charged = charged
        victim = self.running.pop(0)
        victim.kill()
        victim.wait()
        self.kills += 1
        self.start()

    def end(self) -> None:
        """kill -9 of all."""
        for worker in self.running:
            worker.kill()
            worker.wait()


def send(bus: BusSettings, spec: FleetSpec, faults: Faults, workers: Workers) -> None:
    """The fleet, window by window, with its faults."""
    target = Topics(bus)
    target.send(lifetime(plan, spec, ended=False) for plan in faults.plans)
    for number, start in enumerate(range(spec.start_ns, spec.end_ns, spec.window_ns)):
        for plan in faults.plans:
            target.send(faults.sent(number, plan, window_records(spec, plan, start)))
        target.send(faults.handed_in(number))
        if number % KILL_EVERY_WINDOWS == KILL_EVERY_WINDOWS - 1:
            workers.kill_one()
    target.send(faults.rest())
    target.send(  # all end with the hour, else silence would be charged for ever
        replace(lifetime(plan, spec, ended=False), ended_ns=min(plan.ended_ns, spec.end_ns))
        for plan in faults.plans
    )
    target.close()


def ends(bus: BusSettings, topic: str) -> list[int]:
    with PartitionReader(bus, "benchmark") as reader:
        return [reader.bounds(topic, partition)[1] for partition in range(PARTITIONS)]


def await_charged(bus: BusSettings) -> None:
    """Until all is acknowledged, and nothing more is charged."""
    deadline = time.monotonic() + TIMEOUT_S
    wanted, charged, since = ends(bus, TELEMETRY), -1, time.monotonic()
    while True:
        at = committed_offsets(bus, "benchmark", APPLICATION, TELEMETRY, range(PARTITIONS))
        done = [at[partition] or 0 for partition in range(PARTITIONS)] == wanted
        now = sum(ends(bus, CHARGES))
        if now != charged or not done:
            charged, since = now, time.monotonic()
        if time.monotonic() - since > QUIET_S:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"not charged in {TIMEOUT_S:.0f} s: {at} of {wanted}")
        time.sleep(1)


def main(gpus: int = 200, seed: int = 1) -> None:
    """Send, charge, archive, replay, compare; write build/figures/replay_hour.json."""
    start = (time.time_ns() // MINUTE_NS - 62) * MINUTE_NS
    spec = FleetSpec(gpus=gpus, hours=1, seed=seed, start_ns=start, agent_crashes=2.0, node_ends=0.2)
    plans = [plan_node(spec, number) for number in range(spec.nodes)]
    windows = (spec.end_ns - spec.start_ns) // spec.window_ns
    faults = Faults(random.Random(seed), plans, windows)
    with tempfile.TemporaryDirectory(prefix="gpuledger-benchmark-") as name:
        directory = Path(name)
        with (
            Kafka(directory / "kafka", STACK_DIRECTORY) as kafka,
            Registry(directory / "registry", STACK_DIRECTORY) as registry,
        ):
            bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
            apply_topics(bus, partitions=PARTITIONS, replication=1)
            with SchemaRegistry(bus) as schemas, Producer(bus, "benchmark") as producer:
                register_all(schemas)
                book = PriceBookVersion(1, 0, entries=[PriceEntry("gpu", "gpu", 12_290_000_000, "USD")])
                producer.produce_all([Outgoing(PRICES, b"prices", framed(schemas, book), (), 0)])
            workers = Workers(bus, directory)
            began = time.monotonic()
            try:
                for _ in range(WORKERS):
                    workers.start()
                send(bus, spec, faults, workers)
                await_charged(bus)
            finally:
                workers.end()
            live_s = time.monotonic() - began - QUIET_S
            store = Directory(directory / "archive")
            archiver = Archiver(bus, store, SystemClock())
            archiver.run(lambda: False, once=True)
            archiver.close()
            settings = ProcessorSettings(silence_s=SILENCE_S)
            request = Request(spec.start_ns, spec.end_ns, settings, bus.plain(), archive=store.url)
            began = time.monotonic()
            done = replay(request, directory / "state", os.cpu_count() or 1, then=read_recorded)
            replay_s = time.monotonic() - began
            found = compare(request, PARTITIONS, directory / "state")
            sets = sum(ends(bus, CHARGES))
    faults.count["epochs"] = sum(len(plan.lives) for plan in plans)
    faults.count["kills of workers"] = workers.kills
    print(f"{spec.nodes} nodes of {spec.gpus} GPUs, seed {seed}: {dict(faults.count)}")
    print(f"{done.events} calls; charged live in {live_s:.0f} s by {sets} sets, replayed in {replay_s:.0f} s")
    print_comparison(found, "gpu.charges")
    write_figure(
        "replay_hour",
        found.windows - found.different,
        "windows alike",
        found.windows,
        (found.windows - found.different) / found.windows,
        1,
        baseline_name="windows of gpu.charges or of the replay",
        shape=f"{spec.gpus} GPUs, an hour, {done.events} calls, {dict(faults.count)}",
        live_s=live_s,
        replay_s=replay_s,
        sets=sets,
    )
    if found.different or found.windows < spec.nodes * windows // 2:
        raise SystemExit(1)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
