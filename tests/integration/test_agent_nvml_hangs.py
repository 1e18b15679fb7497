"""An agent and a driver that hangs: a library whose calls do not return while a file is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gpuledger.agent.spool import Journal
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.records import Holdings, SampleBatch, decode
from gpuledger.localstack import free_port
from tests.support.telemetry import running_agent
from tests.support.waiting import until

NOBODY = "127.0.0.1:9"
UUID = "GPU-173339a1-b076-5801-9d38-accc48260a65"
LIBRARY = f"""
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void hang(void)
{{
    int calls = open(getenv("NVML_HANGS"), O_WRONLY | O_APPEND);
    if (calls < 0)
        return;
    (void)!write(calls, "!", 1);
    close(calls);
    while (access(getenv("NVML_HANGS"), F_OK) == 0)
        usleep(10000);
}}

int nvmlInitWithFlags(unsigned flags) {{ (void)flags; hang(); return 0; }}
int nvmlShutdown(void) {{ hang(); return 0; }}
int nvmlDeviceGetCount_v2(unsigned *count) {{ hang(); *count = 1; return 0; }}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{{
    hang();
    *device = "device";
    return index ? 6 : 0;
}}
int nvmlDeviceGetUUID(void *device, char *text, unsigned size)
{{
    (void)device;
    hang();
    strncpy(text, "{UUID}", size);
    return 0;
}}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{{
    (void)device; (void)sensor;
    hang();
    *celsius = 40;
    return 0;
}}
const char *nvmlErrorString(int code) {{ (void)code; return "an error"; }}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a libnvidia-ml.so.1 with one device, of which the temperature is known."""
    directory = tmp_path_factory.mktemp("nvml")
    (directory / "nvml.c").write_text(LIBRARY)
    command = ["gcc", "-shared", "-fPIC", "-o", "libnvidia-ml.so.1", "nvml.c"]
    subprocess.run(command, cwd=directory, check=True)
    return directory


class Hanging:
    """A driver that hangs while `begin` was called last."""

    def __init__(self, library: Path, path: Path) -> None:
        self._path = path
        self.environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "NVML_HANGS": str(path)}

    def begin(self) -> None:
        self._path.touch()

    def calls(self) -> int:
        """How many calls hang."""
        return self._path.stat().st_size

    def end(self) -> None:
        self._path.unlink()


@pytest.fixture
def driver(library: Path, tmp_path: Path) -> Hanging:
    return Hanging(library, tmp_path / "hangs")


def command(state: Path, port: int, *more: str) -> list[str]:
    return [
        *(sys.executable, "-c", "from gpuledger.agent.cli import app; app()", "run"),
        *("--cluster", "c", "--node", "n", "--state", str(state), "--window-s", "1", "--source", "none"),
        *("--bootstrap", NOBODY, "--registry", f"http://{NOBODY}", "--metrics-port", str(port), *more),
    ]


def metric(port: int, name: str) -> float:
    """The sum of a metric of the agent."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"gpuledger_agent_{name}"))


def grows(port: int, name: str, by: float) -> None:
    before = metric(port, name)
    until(lambda: metric(port, name) >= before + by, pause_s=0.5)


def said(state: Path) -> tuple[list[RecordHeaders], list[Holdings], list[SampleBatch]]:
    """What lies in the spool of an agent that has ended."""
    journal = Journal(state / "spool", 1 << 30)
    entries = [entry for _, entry in journal.read(journal.begin, journal.end) if entry.headers]
    journal.close()
    headers = [RecordHeaders.from_kafka(entry.key, entry.headers) for entry in entries]
    frames = [decode(Holdings, entry.body) for entry in entries if entry.record == "Holdings"]
    samples = [decode(SampleBatch, entry.body) for entry in entries if entry.record == "SampleBatch"]
    return headers, frames, samples


def devices_by_epoch(frames: list[Holdings]) -> list[set[tuple[str, ...]]]:
    found: dict[int, set[tuple[str, ...]]] = {}
    for frame in frames:
        uuids = tuple(device.uuid for device in frame.layout.devices)
        found.setdefault(frame.header.epoch_ns, set()).add(uuids)
    return [found[epoch_ns] for epoch_ns in sorted(found)]


def reasons_of_all(samples: list[SampleBatch]) -> set[str]:
    """Why nothing of the whole node was measured."""
    return {gap.reason for batch in samples for gap in batch.gaps if gap.device < 0}


def no_window_is_left_out(headers: list[RecordHeaders]) -> bool:
    starts = sorted({one.window_start_ns for one in headers})
    return starts == list(range(starts[0], starts[-1] + 1, 1_000_000_000))


def test_an_agent_whose_nvml_never_starts_goes_on_and_meets_its_devices_when_it_answers(
    tmp_path: Path, driver: Hanging
) -> None:
    state, port = tmp_path / "state", free_port()
    driver.begin()
    with running_agent(command(state, port), tmp_path / "agent.log", driver.environment) as agent:
        agent.wait_log("epoch_begins")
        assert "nvml_hangs" in agent.log
        grows(port, "windows_total", 3)
        assert metric(port, "devices") == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/alive", timeout=60) as answer:
            assert answer.read() == b"ok\n", "its loop comes round all the same"
        driver.end()
        until(lambda: agent.log.count("epoch_begins") == 2)
        grows(port, "samples_total", 2)
        agent.stop()
    headers, frames, samples = said(state)
    assert devices_by_epoch(frames) == [{()}, {(UUID,)}]
    assert reasons_of_all(samples) == {"timeout"}
    assert no_window_is_left_out(headers)


def test_an_agent_whose_nvml_never_returns_ends_when_it_is_told_to(tmp_path: Path, driver: Hanging) -> None:
    state, port = tmp_path / "state", free_port()
    driver.begin()
    with running_agent(command(state, port), tmp_path / "agent.log", driver.environment) as agent:
        agent.wait_log("epoch_begins")
        grows(port, "windows_total", 2)
        agent.stop()
    headers, frames, samples = said(state)
    assert devices_by_epoch(frames) == [{()}]
    assert reasons_of_all(samples) == {"timeout"}
    assert no_window_is_left_out(headers)


def test_an_agent_whose_nvml_hangs_on_the_way_says_so_and_asks_nothing_more_until_it_answers(
    tmp_path: Path, driver: Hanging
) -> None:
    state, port = tmp_path / "state", free_port()
    with running_agent(command(state, port), tmp_path / "agent.log", driver.environment) as agent:
        agent.wait_log("epoch_begins")
        grows(port, "samples_total", 1)
        driver.begin()
        agent.wait_log("nvml_hangs")
        grows(port, "windows_total", 3)
        assert driver.calls() == 1
        assert metric(port, "devices") == 1
        driver.end()
        agent.wait_log("nvml_answers")
        grows(port, "samples_total", 2)
        agent.stop()
    headers, frames, samples = said(state)
    assert devices_by_epoch(frames) == [{(UUID,)}]
    assert not any(device.lost for frame in frames for device in frame.layout.devices)
    assert reasons_of_all(samples) == {"timeout"}
    assert no_window_is_left_out(headers)


def test_a_doctor_says_that_the_driver_hangs(tmp_path: Path, driver: Hanging) -> None:
    driver.begin()
    code = (
        "from gpuledger.agent.doctor.silicon import nvml; print([(c.name, c.ok, c.detail) for c in nvml()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=driver.environment, capture_output=True, text=True, check=True
    )
    assert "('nvml', False, 'it does not answer within 10 s')" in done.stdout


def snapshots(log: Path) -> list[dict[str, Any]]:
    """What a top has shown so far, in whole lines."""
    lines = log.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]


def test_a_top_goes_on_and_says_so_while_the_driver_hangs_and_shows_the_devices_when_it_answers(
    tmp_path: Path, driver: Hanging
) -> None:
    log = tmp_path / "top.log"
    code = "from gpuledger.agent.cli import app; app()"
    top = [sys.executable, "-c", code, "top", "--json", "--interval-s", "0.2"]

    def shows(devices: list[str], problem: str) -> bool:
        found = snapshots(log)
        last = found[-1] if found else None
        return last is not None and (
            [device["uuid"] for device in last["devices"]] == devices and problem == last["nvml_problem"]
        )

    hangs = "NVML does not answer: its driver hangs"
    driver.begin()
    with running_agent(top, log, driver.environment):
        until(lambda: shows([], hangs))
        driver.end()
        until(lambda: shows([UUID], ""))
        driver.begin()
        until(lambda: shows([UUID], hangs))
        assert driver.calls() == 1
        driver.end()
        until(lambda: shows([UUID], ""))
