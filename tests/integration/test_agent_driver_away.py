"""An agent and a driver that is not there yet, or comes back with other devices: it goes on, and says so."""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

from gpuledger.agent.spool import Journal
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.records import EventBatch, Holdings, NodeLifetime, SampleBatch, decode
from gpuledger.localstack import free_port
from tests.emulator import H100, LIBCUDA, T4, Emulator, finish, mig_slice
from tests.emulator.control import BUILD, build
from tests.support.telemetry import RunningAgent, running_agent
from tests.support.waiting import until

NOBODY = "127.0.0.1:9"
NVML = "libnvidia-ml.so.1"
SPOOL_BYTES = 1 << 30


def command(state: Path, *options: str) -> list[str]:
    return [
        *(sys.executable, "-c", "from gpuledger.agent.cli import app; app()", "run"),
        *("--cluster", "c", "--node", "n", "--state", str(state), "--window-s", "1"),
        *(options or ("--source", "none")),
        *("--bootstrap", NOBODY, "--registry", f"http://{NOBODY}"),
    ]


class Said(NamedTuple):
    """What the agent queued, in order."""

    headers: list[RecordHeaders]
    holdings: list[Holdings]
    samples: list[SampleBatch]
    calls: list[EventBatch]
    lives: list[NodeLifetime]


def said(state: Path) -> Said:
    """What lies in the spool of an agent that has ended."""
    journal = Journal(state / "spool", SPOOL_BYTES)
    found = Said([], [], [], [], [])
    for _, entry in journal.read(journal.begin, journal.end):
        if entry.record == "NodeLifetime":
            found.lives.append(decode(NodeLifetime, entry.body))
            continue
        headers = RecordHeaders.from_kafka(entry.key, entry.headers)
        found.headers.append(headers)
        if headers.kind is Kind.HOLDINGS:
            found.holdings.append(decode(Holdings, entry.body))
        if headers.kind is Kind.SAMPLES:
            found.samples.append(decode(SampleBatch, entry.body))
        if headers.kind is Kind.EVENTS:
            found.calls.append(decode(EventBatch, entry.body))
    journal.close()
    return found


def epochs(agent: RunningAgent) -> int:
    return agent.log.count("epoch_begins")


def devices_by_epoch(found: Said) -> dict[int, set[tuple[str, ...]]]:
    """What the records of each epoch list as the node's devices."""
    told: dict[int, set[tuple[str, ...]]] = {}
    for body in found.holdings:
        uuids = tuple(device.uuid for device in body.layout.devices)
        told.setdefault(body.header.epoch_ns, set()).add(uuids)
    return told


def measured(found: Said, epoch_ns: int) -> set[str]:
    return {
        batch.devices[int(device)]
        for batch in found.samples
        if batch.header.epoch_ns == epoch_ns
        for device in batch.device
    }


def gaps_of_all(found: Said, epoch_ns: int) -> set[str]:
    """Why nothing of the whole node was measured."""
    return {
        gap.reason
        for batch in found.samples
        if batch.header.epoch_ns == epoch_ns
        for gap in batch.gaps
        if gap.device < 0
    }


def no_window_is_left_out(found: Said) -> bool:
    starts = sorted({headers.window_start_ns for headers in found.headers})
    return starts == list(range(starts[0], starts[-1] + 1, 1_000_000_000))


@pytest.mark.parametrize("missing", ["driver", "library"])
def test_an_agent_that_starts_before_the_driver_meets_it_when_it_comes(tmp_path: Path, missing: str) -> None:
    build()
    libraries, state = tmp_path / "lib", tmp_path / "state"
    libraries.mkdir()
    emulator = Emulator([H100, T4], directory=tmp_path / "gpu")
    if missing == "library":
        emulator.start()
    else:
        (libraries / NVML).symlink_to(BUILD / "lib" / NVML)
    try:
        environment = {**emulator.env, "LD_LIBRARY_PATH": str(libraries)}
        with running_agent(command(state), tmp_path / "agent.log", environment) as agent:
            agent.wait_log("epoch_begins")
            assert "nvml_away" in agent.log
            until(lambda: agent.log.count("nvml_away") == 2)  # it has tried again, in vain
            if missing == "library":
                (libraries / NVML).symlink_to(BUILD / "lib" / NVML)
            else:
                emulator.start()
            until(lambda: epochs(agent) == 2 or agent.process.poll() is not None)
            until(lambda: agent.log.count("nvml_there") == 1)
            agent.stop()
    finally:
        emulator.stop()
    found = said(state)
    (before, empty), (after, full) = devices_by_epoch(found).items()
    assert (empty, full) == ({()}, {tuple(emulator.uuids)})
    assert gaps_of_all(found, before) == {"lost"}
    assert measured(found, before) == set()
    assert measured(found, after) <= set(emulator.uuids)
    assert no_window_is_left_out(found)
    assert [[device.uuid for device in life.layout.devices] for life in found.lives] == [[], emulator.uuids]
    assert len({life.launched_ns for life in found.lives}) == 1


def test_an_agent_whose_gpu_is_divided_anew_goes_on_with_the_instances(tmp_path: Path) -> None:
    directory, state = tmp_path / "gpu", tmp_path / "state"
    with (
        Emulator([H100, mig_slice(0, 7)], directory) as emulator,
        running_agent(command(state), tmp_path / "agent.log", emulator.env) as agent,
    ):
        agent.wait_log("epoch_begins")
        emulator.stop()
        with Emulator([H100, mig_slice(0, 7), mig_slice(0, 9)], directory) as divided:
            until(lambda: epochs(agent) == 2 or agent.process.poll() is not None)
            assert agent.process.poll() is None, agent.log
            agent.stop()
    found = said(state)
    (_, first), (_, second) = devices_by_epoch(found).items()
    assert (first, second) == ({tuple(emulator.uuids)}, {tuple(divided.uuids)})
    assert no_window_is_left_out(found)
    of_second = [headers for headers in found.headers if headers.id.epoch_ns == max(devices_by_epoch(found))]
    assert of_second[0].part == 1 or of_second[0].keyframe, "a window that two epochs share is never whole"
    assert [headers.id.sequence for headers in of_second] == list(range(len(of_second)))


def test_a_driver_that_comes_back_with_the_same_devices_is_met_in_the_same_epoch(tmp_path: Path) -> None:
    state = tmp_path / "state"
    emulator = Emulator([H100, T4], directory=tmp_path / "gpu")
    with emulator, running_agent(command(state), tmp_path / "agent.log", emulator.env) as agent:
        agent.wait_log("epoch_begins")
        emulator.stop()
        until(lambda: "nvml_away" in agent.log)
        emulator.start()
        until(lambda: "nvml_there" in agent.log)
        agent.stop()
    found = said(state)
    assert list(devices_by_epoch(found).values()) == [{tuple(emulator.uuids)}]
    lost = [frozenset(d.uuid for d in body.layout.devices if d.lost) for body in found.holdings]
    assert frozenset(emulator.uuids) in lost
    assert no_window_is_left_out(found)


def test_who_works_while_nvml_is_away_is_recorded_and_has_its_device_once_it_is_there(tmp_path: Path) -> None:
    libraries, state, port = tmp_path / "lib", tmp_path / "state", free_port()
    libraries.mkdir()
    options = ["--preattach", str(LIBCUDA), "--metrics-port", str(port)]
    with Emulator([H100, H100]) as emulator:
        environment = {**emulator.env, "LD_LIBRARY_PATH": str(libraries)}
        agent_command = command(state, *options)
        with running_agent(agent_command, tmp_path / "agent.log", environment) as agent:
            agent.wait_log("epoch_begins")
            worker = emulator.spawn(["train", "--memory", "1G", "--seconds", "600"], visible_devices="1")
            until(lambda: metric(port, "events_total") > 100, pause_s=0.5)
            before = metric(port, "windows_total")
            until(lambda: metric(port, "windows_total") > before + 1, pause_s=0.5)
            (libraries / NVML).symlink_to(BUILD / "lib" / NVML)
            until(lambda: epochs(agent) == 2, pause_s=0.5)
            before = metric(port, "windows_total")
            until(lambda: metric(port, "windows_total") > before + 2, pause_s=0.5)
            finish(worker)
            agent.stop()
        uuid = emulator.uuids[1]
    found = said(state)
    first, second = sorted(devices_by_epoch(found))
    used = {
        epoch_ns: {
            batch.devices[int(device)] if device >= 0 else None
            for batch in found.calls
            if batch.header.epoch_ns == epoch_ns
            for process, device in zip(batch.process, batch.device, strict=True)
            if batch.processes[int(process)].pid == worker.pid
        }
        for epoch_ns in (first, second)
    }
    assert used == {first: {None}, second: {uuid}}
    frames = [body for body in found.holdings if body.keyframe and body.header.epoch_ns == second]
    held = [
        (frame.processes[int(process)].pid, frame.layout.devices[int(device)].uuid, int(size) >> 30)
        for frame in frames[:2]
        for process, device, size in zip(
            frame.resident_process, frame.resident_device, frame.resident_bytes, strict=True
        )
    ]
    assert held == [(worker.pid, uuid, 1)] * 2
    assert no_window_is_left_out(found)


def metric(port: int, name: str) -> float:
    """The sum of a metric of the agent."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"gpuledger_agent_{name}"))
