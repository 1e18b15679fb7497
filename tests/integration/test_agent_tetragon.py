"""The whole agent with Tetragon's export as its source: written here as Tetragon would, the rest is real."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import yaml

from gpuledger.agent.tetragon import MISSING
from gpuledger.bus import BusSettings, apply_topics
from gpuledger.contract.clock import NS_PER_S, SystemClock
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import EventBatch
from gpuledger.localstack import Kafka, Registry
from tests.emulator import H100, Emulator, finish, make_pod_cgroup, remove_pod_cgroup
from tests.support.kafka import STACK_DIRECTORY
from tests.support.telemetry import Told, agent_command, running_agent, telemetry
from tests.support.waiting import until

LAUNCHES, COPIES = 103, 23
COPY_BYTES = 4099


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Iterator[tuple[Kafka, Registry]]:
    with Kafka(tmp_path_factory.mktemp("kafka"), STACK_DIRECTORY) as kafka:
        settings = BusSettings.load(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
        apply_topics(settings, partitions=1, replication=1)
        yield kafka, registry


class Export:
    """Tetragon's file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock = SystemClock()
        path.touch()

    def write(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(line + "\n")

    def rotate(self) -> None:
        self._path.rename(self._path.with_suffix(".1.log"))
        self._path.touch()

    def call(self, symbol: str, arguments: list[int], pid: int, pod_uid: str, container: str) -> None:
        pod = {"uid": pod_uid, "container": {"id": f"containerd://{container}"}}
        now_ns = self._clock.unix_ns()
        process = {"exec_id": f"{pid}", "pid": pid, "tid": pid, "start_time": stamp(now_ns), "pod": pod}
        args = [{"size_arg": str(value)} for value in arguments]
        policy = {"policy_name": "gpuledger-cuda", "symbol": symbol, "args": args}
        self.write(json.dumps({"process_uprobe": {"process": process, **policy}, "time": stamp(now_ns)}))


def stamp(unix_ns: int) -> str:
    whole, ns = divmod(unix_ns, NS_PER_S)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09}Z"


def calls_of(told: list[Told], pod_uid: str) -> Counter[str]:
    """Operation -> calls of a pod, and bytes of its copies."""
    found: Counter[str] = Counter()
    for batch in (t.body for t in told if isinstance(t.body, EventBatch)):
        places = [place for place, process in enumerate(batch.processes) if process.consumer == pod_uid]
        rows = np.isin(batch.process, places)
        found.update(Operation(code).name for code in batch.operation[rows].tolist())
        found["bytes"] += int(batch.bytes[rows].sum())
    return found


def test_what_tetragon_exports_is_what_kafka_has(
    bus: tuple[Kafka, Registry], tmp_path: Path, unique: Callable[[str], str]
) -> None:
    kafka, registry = bus
    node = unique("node")[-40:]
    living, gone = str(uuid.uuid4()), str(uuid.uuid4())
    container = uuid.uuid4().hex * 2
    cgroup = make_pod_cgroup(living, container)
    export = Export(tmp_path / "tetragon.log")
    export.call("cuLaunchKernel", [1], 1, gone, container)  # before the agent: in no epoch of it
    with Emulator([H100]) as emulator:
        holders = tmp_path / "holders.yaml"
        containers = [{"name": "main", "devices": [{"id": emulator.uuids[0]}]}]
        pods = [
            {
                "uid": uid,
                "namespace": "ml",
                "name": name,
                "containers": containers,
            }
            for uid, name in ((living, "train-0"), (gone, "job-1"))
        ]
        holders.write_text(yaml.safe_dump({"pods": pods}))
        options = ["--source", f"tetragon:{tmp_path / 'tetragon.log'}", "--holders", str(holders)]
        options += ["--window-s", "2", "--ends-node"]
        command = agent_command(kafka, registry, node, tmp_path / "state", options)
        with running_agent(command, tmp_path / "agent.log", emulator.env) as agent:
            agent.wait_log("epoch_begins")
            working = emulator.spawn(["train", "--duration-us", "500", "--gap-us", "5000"], cgroup=cgroup)
            for _ in range(LAUNCHES):
                export.call("cuLaunchKernel", [0x100], working.pid, "not what the kernel says", container)
            export.write("{half a line")
            export.rotate()
            for _ in range(COPIES):  # of a process that nobody can look at any more
                export.call("cuMemcpyHtoD_v2", [COPY_BYTES], (1 << 22) + 7, gone, container)

            def arrived() -> bool:
                told = telemetry(kafka, node)
                return bool(calls_of(told, gone)) and sum(t.headers.last for t in told) > 2

            until(arrived, pause_s=1.0)
            finish(working)
            agent.stop()
    remove_pod_cgroup(cgroup)
    told = telemetry(kafka, node)
    assert calls_of(told, living) == Counter({"LAUNCH_KERNEL": LAUNCHES, "bytes": 0})
    assert calls_of(told, gone) == Counter({"COPY_HOST_TO_DEVICE": COPIES, "bytes": COPIES * COPY_BYTES})
    batches = [t.body for t in told if isinstance(t.body, EventBatch)]
    assert all(tuple(batch.missing) == MISSING for batch in batches)
    assert not any(process.witnessed for batch in batches for process in batch.processes)
    assert told[-1].body.header.lost_kernel == 1
