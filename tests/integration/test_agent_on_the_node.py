"""`agent top` and `agent doctor` as an administrator calls them, beside an emulated GPU."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuledger.agent.probes.symbols import SILENT, SYMBOLS
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
from tests.support.exporter import exporter
from tests.support.kubelet import Kubelet
from tests.support.telemetry import ROOT
from tests.support.waiting import until

COMMAND = [sys.executable, "-c", "from gpuledger.agent.cli import app; app()"]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator([H100, T4]) as started:
        yield started


@pytest.fixture
def pod() -> Iterator[tuple[str, Path]]:
    pod_uid = str(uuid.uuid4())
    directory = make_pod_cgroup(pod_uid, uuid.uuid4().hex * 2)
    yield pod_uid, directory
    remove_pod_cgroup(directory)


def environment(emulator: Emulator | None = None) -> dict[str, str]:
    return {**(emulator.env if emulator else os.environ), "PYTHONPATH": str(ROOT / "services")}


def doctor(
    options: Sequence[str], variables: Mapping[str, str]
) -> tuple[int, dict[str, dict[str, Any]], str]:
    """(exit code, check by name, stderr) of `agent doctor --json`; of libraries the first one."""
    command = [*COMMAND, "doctor", "--json", *options]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert report["ok"] is (done.returncode == 0)
    return done.returncode, {check["name"]: check for check in reversed(report["checks"])}, done.stderr


def shows(snapshot: dict[str, Any], consumer: str) -> bool:
    return consumer in {row["consumer"] for row in snapshot["consumers"]}


def test_top_shows_every_launch_and_byte_of_a_pod_by_its_name(
    emulator: Emulator, pod: tuple[str, Path], tmp_path: Path
) -> None:
    pod_uid, cgroup = pod
    holders = tmp_path / "holders.yaml"
    holders.write_text(
        yaml.safe_dump({"pods": [{"uid": pod_uid, "namespace": "research", "name": "train-0"}]})
    )
    counting = emulator.spawn(
        ["count", "--rounds", "23", "--host-threads", "3", "--wait"],
        cgroup=cgroup,
        visible_devices=emulator.uuids[0],
    )
    command = [*COMMAND, "top", "--json", "--interval-s", "0.5", "--holders", str(holders)]
    command += ["--library", str(LIBCUDA)]
    snapshots = []
    with subprocess.Popen(command, env=environment(emulator), stdout=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None
        snapshots.append(json.loads(top.stdout.readline()))
        counting.communicate("go\n")
        over_ns = time.time_ns()  # all that was called lies in an interval that began before
        while snapshots[-1]["start_ns"] < over_ns or shows(snapshots[-1], pod_uid):
            snapshots.append(json.loads(top.stdout.readline()))
        top.terminate()
    rows = [row for snapshot in snapshots for row in snapshot["consumers"] if row["consumer"] == pod_uid]
    assert {(row["kind"], row["namespace"], row["name"]) for row in rows} == {("pod", "research", "train-0")}
    probed = {symbol.name for symbol in SYMBOLS if symbol.effect not in SILENT}
    calls = {name: call for name, call in counted_calls(23, 3).items() if name in probed}
    assert sum(row["launches"] for row in rows) == sum(c.ok for n, c in calls.items() if "cuLaunch" in n)
    assert sum(row["copied_bytes"] for row in rows) == sum(
        c.bytes_ok for n, c in calls.items() if "cuMemcpy" in n
    )
    assert sum(row["errors"] for row in rows) >= sum(c.failed for c in calls.values())
    assert {device for row in rows for device in row["devices"]} == {0}
    assert sum(snapshot["lost"] for snapshot in snapshots) == 0
    ends = [snapshot["end_ns"] for snapshot in snapshots]
    assert [snapshot["start_ns"] for snapshot in snapshots[1:]] == ends[:-1]


def test_top_shows_busy_share_and_memory_of_two_that_share_a_device(
    emulator: Emulator, pod: tuple[str, Path]
) -> None:
    pod_uid, cgroup = pod
    # Long bursts keep the device at work, however late the machine lets the next one begin.
    work = ["train", "--duration-us", "2000", "--burst", "100", "--gap-us", "0", "--memory", "1G"]
    first = emulator.spawn(work, cgroup=cgroup, visible_devices="0")
    second = emulator.spawn(work, visible_devices="0")
    command = [*COMMAND, "top", "--json", "--interval-s", "2"]
    ours = {pod_uid, str(second.pid)}
    with subprocess.Popen(command, env=environment(emulator), stdout=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None
        for line in top.stdout:
            snapshot = json.loads(line)
            rows = {row["consumer"]: row for row in snapshot["consumers"]}
            # the kernel shows every process of the machine, also those of other tests that run beside
            there = {consumer if consumer == pod_uid else consumer.split("-")[0] for consumer in rows}
            # and a machine that lets one of them wait lets the device be the other's, or nobody's
            shared = all(0.2 < row["busy_ratio"] < 0.8 for row in rows.values())
            busy, idle = snapshot["devices"]
            if there == ours and shared and (busy["utilization_ratio"] or 0) > 0.5:
                break
        top.terminate()
    finish(first)
    finish(second)
    assert rows[pod_uid]["kind"] == "pod"
    shares = [row["busy_ratio"] for row in rows.values()]
    assert sum(shares) == pytest.approx(busy["busy_ratio"])
    assert all((1 << 30) <= row["memory_bytes"] < (2 << 30) for row in rows.values())
    assert busy["memory_used_bytes"] > 2 << 30
    assert busy["sm_active_ratio"] > 0.1
    assert (idle["busy_ratio"], idle["utilization_ratio"]) == (0.0, 0.0)
    assert idle["sm_active_ratio"] is None  # a T4 has no such counter: missing is not 0


def test_top_for_people_is_a_table(emulator: Emulator) -> None:
    busy = emulator.spawn(["train", "--duration-us", "900", "--gap-us", "9000"], visible_devices="1")
    command = [*COMMAND, "top", "--once", "--interval-s", "0.5"]
    variables = {**environment(emulator), "COLUMNS": "160"}

    def shown() -> bool:  # half a second is not long for a program that the machine lets wait
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        for text in ("launches/s", "NVIDIA H100", "0 lost"):
            assert text in done.stdout
        return f"workload (pid {busy.pid})" in done.stdout

    until(shown)
    finish(busy)


def test_a_healthy_node_is_said_to_be_healthy(emulator: Emulator, tmp_path: Path) -> None:
    path = tmp_path / "kubelet.sock"
    with contextlib.ExitStack() as stack, exporter() as told:
        kubelet = Kubelet(path)
        stack.callback(kubelet.down)
        kubelet.give("train-0", {"nvidia.com/gpu": [emulator.uuids[0]]})
        told.say({"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.5}, f'UUID="{emulator.uuids[0]}"')
        options = ["--library", str(LIBCUDA), "--kubelet-socket", str(path), "--dcgm-url", told.url]
        code, checks, _ = doctor(options, environment(emulator))
    assert code == 0
    required = ("kernel", "uprobes", "ebpf", "ring", "libcuda", "cgroup v2", "nvml", "exporter")
    assert {name: checks[name]["ok"] for name in required} == dict.fromkeys(required, True)
    assert (checks["kubelet"]["ok"], checks["driver"]["detail"]) == (True, "NVIDIA 550.54.15")
    assert "1 containers have devices" in checks["kubelet"]["detail"]
    assert {"driver probes", "preattach"} <= checks.keys()
    assert "functions can be probed" in checks["libcuda"]["detail"]
    assert checks["nvml"]["detail"].startswith("2 devices")
    assert "not on 1 of 2 devices" in checks["gpm"]["detail"]
    assert "1 values, 0 lines not understood" in checks["exporter"]["detail"]
    assert checks["profiling"]["detail"] == "it lacks DCGM_FI_PROF_SM_ACTIVE"
    assert not checks["profiling"]["required"]


def test_what_is_missing_has_a_remedy_and_an_exit_code(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    library.write_text("no library")
    options = ["--library", str(library), "--kubelet-socket", str(tmp_path / "none"), "--no-load"]
    code, checks, _ = doctor(options, environment())
    assert code == 1
    missing = {name: check for name, check in checks.items() if not check["ok"]}
    assert {"libcuda", "nvml", "kubelet"} <= set(missing)
    assert "not a readable ELF file" in missing["libcuda"]["remedy"]
    assert "install the NVIDIA driver" in missing["nvml"]["remedy"]
    assert not missing["kubelet"]["required"]
    assert all(check["remedy"] for check in missing.values())
    assert "ring" not in checks


def test_an_exporter_that_was_asked_for_and_is_away_makes_the_node_unfit(emulator: Emulator) -> None:
    with exporter() as gone:
        url = gone.url
    code, checks, _ = doctor(["--dcgm-url", url, "--no-load"], environment(emulator))
    assert code == 1
    assert checks["exporter"]["detail"].endswith("unreachable")


def test_without_privileges_the_doctor_says_so() -> None:
    command = ["setpriv", "--reuid", "65534", "--clear-groups", *COMMAND, "doctor", "--json"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["ebpf"]["remedy"] == "eBPF needs root, or CAP_BPF and CAP_PERFMON"
    assert not checks["ring"]["ok"]


def test_the_doctor_for_people_says_each_fact_on_a_line_and_what_to_do() -> None:
    command = [*COMMAND, "doctor", "--no-load"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert any(line.startswith("ok      kernel") for line in lines)
    place = next(n for n, line in enumerate(lines) if line.startswith("missing nvml"))
    assert lines[place + 1].strip().startswith("-> install the NVIDIA driver")
    assert lines[-1].startswith("required and missing: nvml; missing and not required: ")
    assert "Errno" not in done.stdout


def test_a_library_is_told_once_by_the_name_that_its_process_has_for_it(emulator: Emulator) -> None:
    busy = emulator.spawn(["train", "--seconds", "600"], visible_devices="0")

    def told(*options: str) -> list[str]:
        command = [*COMMAND, "doctor", "--no-load", *options]
        done = subprocess.run(command, env=environment(emulator), capture_output=True, text=True, check=False)
        assert "map_files" not in done.stdout
        return [
            line
            for line in done.stdout.splitlines()
            if line.startswith("ok      libcuda") and str(LIBCUDA) in line
        ]

    (unnamed,), (named,) = told(), told("--library", str(LIBCUDA))
    finish(busy)
    assert f"{LIBCUDA} of process " in unnamed
    assert f"{LIBCUDA}: " in named
