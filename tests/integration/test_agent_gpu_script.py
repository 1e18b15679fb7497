"""The script of `make test-gpu`, over the emulated GPU: what it is to prove on a real one, it can prove."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.emulator import H100, T4, Emulator

ROOT = Path(__file__).parents[2]
SEEN_HERE = {
    "the library's functions are probed",
    "each call is counted once",
    "copies have their bytes",
    "a context's device is known by UUID",
    "NVML: the device is busy",
    "NVML: memory of the process",
    "NVML: utilisation of the process",
    "GPM",
    "cuGetProcAddress gives probed functions",
    "cost of a probed call",
}


def run(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {**environment, "PYTHONPATH": f"{ROOT}:{ROOT / 'services'}"}
    command = [sys.executable, "-m", "tests.gpu", *arguments]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


def test_every_check_that_an_emulated_gpu_can_pass_passes(tmp_path: Path) -> None:
    report = tmp_path / "gpu" / "report.json"
    with Emulator([H100, T4]) as emulator:
        done = run(emulator.env, "--emulated", "--report", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(report.read_text())
    states = {check["name"]: check["state"] for check in told["checks"]}
    assert {name for name, state in states.items() if state == "ok"} == SEEN_HERE
    assert {name for name, state in states.items() if state == "not here"} == {"ioctls of the driver"}
    assert told["emulated"] is True
    assert done.stdout.startswith("emulated: ")
    assert all(name in done.stdout for name in states)


def test_without_a_gpu_it_says_so_in_a_line_and_claims_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = run({**os.environ, "LD_LIBRARY_PATH": ""}, "--report", str(report))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "make test-gpu: there is no NVIDIA GPU here, so nothing was tested\n"
    assert not report.exists()


def test_an_emulated_gpu_is_never_taken_for_a_real_one(tmp_path: Path) -> None:
    with Emulator([H100]) as emulator:
        done = run(emulator.env, "--report", str(tmp_path / "report.json"))
    assert done.returncode == 2
    assert "an emulated GPU is no GPU" in done.stderr
