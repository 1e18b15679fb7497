"""The whole agent beside an emulated GPU: what processes do in the kernel's sight is what Kafka has."""

from __future__ import annotations

import json
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from gpuledger.agent.probes import available
from gpuledger.agent.probes.symbols import SILENT, SYMBOLS
from gpuledger.bus import BusSettings, apply_topics
from gpuledger.contract.fields import Field
from gpuledger.contract.operations import LAUNCHES, Operation
from gpuledger.contract.records import EventBatch, Holdings, SampleBatch
from gpuledger.localstack import Kafka, Registry
from tests.emulator import (
    H100,
    LIBCUDA,
    T4,
    Emulator,
    counted_calls,
    finish,
    make_pod_cgroup,
    remove_pod_cgroup,
)
from tests.support.kafka import STACK_DIRECTORY
from tests.support.telemetry import Told, agent_command, lifetimes, running_agent, telemetry
from tests.support.waiting import until

WINDOW_S = 2
MEASURED = {
    Field.GPU_UTILIZATION,
    Field.ENGINE_ACTIVE,
    Field.SM_ACTIVE,
    Field.FRAMEBUFFER_USED_BYTES,
    Field.ENERGY_JOULES,
    Field.PROCESS_SM_UTILIZATION,
    Field.PROCESS_MEMORY_BYTES,
}
OPERATION_OF = {symbol.name: Operation(symbol.operation) for symbol in SYMBOLS if symbol.effect not in SILENT}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator([H100, H100, T4]) as started:
        yield started


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Iterator[tuple[Kafka, Registry]]:
    with Kafka(tmp_path_factory.mktemp("kafka"), STACK_DIRECTORY) as kafka:
        settings = BusSettings.load(kafka_bootstrap=kafka.bootstrap, registry_url=registry.url)
        apply_topics(settings, partitions=1, replication=1)
        yield kafka, registry


@pytest.fixture
def pod() -> Iterator[tuple[str, str, Path]]:
    """(pod uid, container id, cgroup)"""
    pod_uid, container = str(uuid.uuid4()), uuid.uuid4().hex * 2
    directory = make_pod_cgroup(pod_uid, container)
    yield pod_uid, container, directory
    remove_pod_cgroup(directory)


def of_pid(told: list[Told], pid: int) -> list[tuple[EventBatch, np.ndarray]]:
    """The batches that speak of a process, each with the rows that are its calls."""
    found = []
    for batch in (t.body for t in told if isinstance(t.body, EventBatch)):
        places = [place for place, process in enumerate(batch.processes) if process.pid == pid]
        if places:
            found.append((batch, np.isin(batch.process, places)))
    return found


def launches_of(told: list[Told], pid: int) -> list[tuple[EventBatch, np.ndarray]]:
    """The same of its launches."""
    return [(batch, rows & np.isin(batch.operation, list(LAUNCHES))) for batch, rows in of_pid(told, pid)]


def measured(told: list[Told]) -> set[Field]:
    return {Field(code) for t in told if isinstance(t.body, SampleBatch) for code in t.body.field.tolist()}


def test_calls_of_a_pod_and_of_a_host_process_arrive_exactly(
    emulator: Emulator,
    bus: tuple[Kafka, Registry],
    pod: tuple[str, str, Path],
    tmp_path: Path,
    unique: Callable[[str], str],
) -> None:
    assert available() is None
    kafka, registry = bus
    node, holders = unique("node")[-40:], tmp_path / "holders.yaml"
    pod_uid, container, cgroup = pod
    holders.write_text(
        yaml.safe_dump(
            {
                "pods": [
                    {
                        "uid": pod_uid,
                        "namespace": "research",
                        "name": "train-0",
                        "containers": [
                            {"name": "main", "id": container, "devices": [{"id": emulator.uuids[1]}]}
                        ],
                    }
                ]
            }
        )
    )
    options = ["--holders", str(holders), "--window-s", str(WINDOW_S), "--ends-node"]
    options += ["--preattach", str(LIBCUDA), "--instance-type", "p5.48xlarge"]
    command = agent_command(kafka, registry, node, tmp_path / "state", options)
    with running_agent(command, tmp_path / "agent.log", emulator.env) as agent:
        agent.wait_log("epoch_begins")
        counting = emulator.spawn(
            ["count", "--rounds", "23", "--host-threads", "3"],
            cgroup=cgroup,
            visible_devices=emulator.uuids[1],
        )
        host = emulator.spawn(
            ["train", "--duration-us", "900", "--gap-us", "9000", "--memory", "1G"], visible_devices="0"
        )
        report = json.loads(counting.communicate()[0].strip().splitlines()[-1])

        def whole() -> bool:
            told = telemetry(kafka, node)
            rows = sum(int(rows.sum()) for _, rows in launches_of(told, host.pid))
            return sum(t.headers.last for t in told) > 3 and rows > 100 and measured(told) >= MEASURED

        until(whole, pause_s=1.0)
        finish(host)
        agent.stop()
    told = telemetry(kafka, node)
    assert report
    assert [t.headers.id.sequence for t in told] == list(range(len(told)))
    last = told[-1]
    assert last.headers.goodbye
    assert (last.body.header.lost_kernel, last.body.header.lost_user) == (0, 0)

    expected: Counter[Operation] = Counter()
    for name, called in counted_calls(23, 3).items():
        if name in OPERATION_OF:
            expected[OPERATION_OF[name]] += called.calls
    seen: Counter[Operation] = Counter()
    for batch, rows in of_pid(told, counting.pid):
        for code, calls in zip(batch.operation[rows].tolist(), batch.count[rows].tolist(), strict=True):
            seen[Operation(code)] += calls  # a row of many calls where the kernel tallied a burst
        process = next(p for p in batch.processes if p.pid == counting.pid)
        assert (process.consumer_kind, process.consumer, process.container) == ("pod", pod_uid, "main")
        assert not process.pending
        assert {batch.devices[d] for d in batch.device[rows].tolist() if d >= 0} <= {emulator.uuids[1]}
    assert seen == expected

    for batch, rows in launches_of(told, host.pid):
        process = next(p for p in batch.processes if p.pid == host.pid)
        assert process.consumer_kind == "host_process"
        assert {batch.devices[d] for d in batch.device[rows].tolist()} <= {emulator.uuids[0]}

    ends = [p for t in told if isinstance(t.body, SampleBatch) for p in t.body.processes if p.ended_ns]
    assert {counting.pid, host.pid} <= {p.pid for p in ends}

    keyframes = [t.body for t in told if t.headers.keyframe]
    resident = [
        int(size)
        for frame in keyframes
        if isinstance(frame, Holdings)
        for process, size in zip(frame.resident_process, frame.resident_bytes, strict=True)
        if frame.processes[int(process)].pid == host.pid
    ]
    assert set(resident) == {1 << 30}
    layout = keyframes[-1].layout  # type: ignore[union-attr]
    assert [device.uuid for device in layout.devices] == emulator.uuids
    assert layout.instance_type == "p5.48xlarge"

    lives = [life for _, life in lifetimes(kafka, node)]
    assert [life.ended_ns is not None for life in lives] == [False, True]


def test_a_second_agent_of_a_node_is_refused(
    bus: tuple[Kafka, Registry], tmp_path: Path, unique: Callable[[str], str]
) -> None:
    options = ["--source", "simulated", "--window-s", "1"]
    command = agent_command(*bus, unique("node")[-40:], tmp_path / "state", options)
    with running_agent(command, tmp_path / "first.log") as first:
        first.wait_log("epoch_begins")
        with running_agent(command, tmp_path / "second.log") as second:
            until(lambda: second.process.poll() is not None)
            assert "another agent of this node runs" in second.log
        first.stop()


def test_a_pod_that_is_removed_before_the_agent_has_read_its_calls_is_who_made_them(
    emulator: Emulator,
    bus: tuple[Kafka, Registry],
    pod: tuple[str, str, Path],
    tmp_path: Path,
    unique: Callable[[str], str],
) -> None:
    kafka, registry = bus
    pod_uid, container, cgroup = pod
    node = unique("node")[-40:]
    # an agent that is stopped while NVML has a device's lock would stop who works on it
    options = ["--window-s", str(WINDOW_S), "--preattach", str(LIBCUDA), "--samplers", "none"]
    command = agent_command(kafka, registry, node, tmp_path / "state", options)
    with running_agent(command, tmp_path / "agent.log", emulator.env) as agent:
        agent.wait_log("epoch_begins")
        agent.process.send_signal(signal.SIGSTOP)
        counting = emulator.spawn(["count", "--rounds", "23"], cgroup=cgroup)
        counting.communicate()
        remove_pod_cgroup(cgroup)
        agent.process.send_signal(signal.SIGCONT)
        until(lambda: of_pid(telemetry(kafka, node), counting.pid), pause_s=0.5)
        agent.stop()
    batches = of_pid(telemetry(kafka, node), counting.pid)
    said = [p for batch, _ in batches for p in batch.processes if p.pid == counting.pid]
    assert {(p.consumer_kind, p.consumer, p.container_id) for p in said} == {("pod", pod_uid, container)}
    assert sum(int(rows.sum()) for _, rows in batches) > 23
