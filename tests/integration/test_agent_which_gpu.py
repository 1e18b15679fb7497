"""A process that changes its own environment: its work counts to the device that the library gave it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid

import pytest

from tests.emulator import H100, LIBCUDA, Emulator, make_pod_cgroup, remove_pod_cgroup
from tests.emulator.programs import CUDA_PRELUDE
from tests.support.telemetry import ROOT

LAUNCHES = 23
PROGRAM = f"""
os.environ["CUDA_VISIBLE_DEVICES"] = "2,0"  # setenv(3): /proc/PID/environ still shows the old value
input()
context()
answer = ctypes.create_string_buffer(16)
ok(cuda.cuDeviceGetUuid_v2(answer, 0))
for _ in range({LAUNCHES}):
    launch(5)
ok(cuda.cuCtxSynchronize())
"""


@pytest.mark.parametrize("stays", [True, False])
def test_setenv_after_the_start_misleads_nobody_also_where_the_process_is_gone_at_once(stays: bool) -> None:
    pod_uid = str(uuid.uuid4())
    cgroup = make_pod_cgroup(pod_uid, uuid.uuid4().hex * 2)
    code = PROGRAM + ("\ninput()" if stays else "")
    with Emulator([H100, H100, H100]) as emulator:
        process = emulator.spawn_command(
            [sys.executable, "-c", CUDA_PRELUDE + code], cgroup=cgroup, visible_devices=emulator.uuids[1]
        )
        command = [sys.executable, "-c", "from gpuledger.agent.cli import app; app()", "top", "--json"]
        command += ["--interval-s", "0.5", "--library", str(LIBCUDA)]
        variables = {**emulator.env, "PYTHONPATH": str(ROOT / "services")}
        rows = []
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as top:
            assert top.stdout is not None
            assert process.stdin is not None
            top.stdout.readline()
            process.stdin.write("go\n")
            process.stdin.flush()
            while sum(row["launches"] for row in rows) < LAUNCHES:
                consumers = json.loads(top.stdout.readline())["consumers"]
                rows += [row for row in consumers if row["consumer"] == pod_uid]
            top.terminate()
        process.communicate("\n" if stays else None)
    remove_pod_cgroup(cgroup)
    assert {device for row in rows for device in row["devices"]} == {2}
    assert sum(row["launches"] for row in rows) == LAUNCHES
