"""Calls of the CUDA runtime are counted by name, and the driver's calls are what they are without that."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuledger.agent import metrics
from gpuledger.agent.probes import LoaderKind, ProbeSource
from gpuledger.agent.probes.compile import compile_object
from gpuledger.agent.probes.cudart import FUNCTIONS, OBJECT_BUILT, SOURCE
from gpuledger.agent.probes.cudart_source import RELEASE_REFRESHES, RuntimeSource
from gpuledger.cli import app
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import LOADERS, WAIT_S, events_of
from tests.emulator.control import LIBCUDA, LIBCUDART, Emulator
from tests.support.waiting import until

PROGRAM = """
import ctypes, sys, threading
cudart = ctypes.CDLL("libcudart.so.12")

class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]

def ok(result, expected=0):
    assert result == expected, result

def work():
    host = ctypes.create_string_buffer(4099)
    a = ctypes.c_void_p()
    for _ in range(7):
        ok(cudart.cudaMalloc(ctypes.byref(a), ctypes.c_size_t(1000003)))
        for _ in range(5):
            ok(cudart.cudaMemcpy(a, host, ctypes.c_size_t(4099), 1))
        for _ in range(3):
            ok(cudart.cudaMemcpy(host, a, ctypes.c_size_t(4099), 2))
        ok(cudart.cudaMemcpy(host, a, ctypes.c_size_t(1), 77), 21)  # no direction: no call of the driver
        for name, times in (("cudaLaunchKernel", 23), ("cudaLaunchKernel_ptsz", 2)):
            for _ in range(times):
                ok(getattr(cudart, name)(ctypes.c_void_p(0x100), Dim3(4, 1, 1), Dim3(64, 1, 1), None,
                                         ctypes.c_size_t(0), None))
        ok(cudart.cudaStreamSynchronize(None))
        ok(cudart.cudaFree(a))
    ok(cudart.cudaDeviceSynchronize())

print("waiting", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("worked", flush=True)
sys.stdin.readline()
"""
THREADS, ROUNDS = 3, 7
RUNTIME = {
    "cudaMalloc": ROUNDS,
    "cudaMemcpy": ROUNDS * (5 + 3 + 1),
    "cudaLaunchKernel": ROUNDS * (23 + 2),
    "cudaStreamSynchronize": ROUNDS,
    "cudaFree": ROUNDS,
    "cudaDeviceSynchronize": 1,
}
DRIVER = {
    Operation.ALLOCATE_DEVICE: ROUNDS,
    Operation.COPY_HOST_TO_DEVICE: ROUNDS * 5,
    Operation.COPY_DEVICE_TO_HOST: ROUNDS * 3,
    Operation.LAUNCH_KERNEL: ROUNDS * (23 + 2),
    Operation.SYNCHRONIZE_STREAM: ROUNDS,
    Operation.FREE_DEVICE: ROUNDS,
    Operation.SYNCHRONIZE_CONTEXT: 1,
}


def times(counts: dict[object, int]) -> dict[object, int]:
    return {key: THREADS * count for key, count in counts.items()}


@pytest.fixture(scope="module", autouse=True)
def _runtime_compiled() -> None:
    compile_object(OBJECT_BUILT, SOURCE)


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator() as started:
        yield started


@pytest.fixture(scope="module")
def cudart(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runtime of these tests' own: what others call on this machine is not counted."""
    return Path(shutil.copy(LIBCUDART, tmp_path_factory.mktemp("cudart")))


def started(emulator: Emulator, cudart: Path) -> subprocess.Popen[str]:
    paths = f"{cudart.parent}:{emulator.env['LD_LIBRARY_PATH']}"
    process = emulator.spawn_command([sys.executable, "-c", PROGRAM], env={"LD_LIBRARY_PATH": paths})
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    return process


def worked(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "worked\n"


def done(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", WAIT_S)
    assert process.returncode == 0


def driver_calls(source: ProbeSource, pid: int) -> dict[int, int]:
    events = events_of(source, pid)
    counted = Counter(events["operation"].tolist())
    return {operation: counted[operation] for operation in DRIVER}


@pytest.mark.parametrize("loader", LOADERS)
def test_runtime_calls_are_counted_by_name_and_the_drivers_only_once(
    emulator: Emulator, cudart: Path, loader: LoaderKind
) -> None:
    source = RuntimeSource(loader=loader, tally_calls_per_s=None)
    source.start()
    try:
        source.preattach(LIBCUDA)
        source.preattach(cudart)
        process = started(emulator, cudart)
        worked(process)
        found = {one.function: one.calls for one in source.runtime_calls() if one.pid == process.pid}
        assert found == times(RUNTIME)
        assert driver_calls(source, process.pid) == times(DRIVER)
        done(process)
        assert not [report for report in source.probes() if "cudart" in report.path]
    finally:
        source.close()


def test_without_the_option_the_drivers_calls_are_the_same(emulator: Emulator, cudart: Path) -> None:
    source = ProbeSource(tally_calls_per_s=None)
    source.start()
    try:
        source.preattach(LIBCUDA)
        process = started(emulator, cudart)
        worked(process)
        assert driver_calls(source, process.pid) == times(DRIVER)
        done(process)
    finally:
        source.close()


def test_a_runtime_is_found_with_the_driver_and_what_a_process_called_outlives_it(
    emulator: Emulator, cudart: Path
) -> None:
    source = RuntimeSource()
    source.start()
    try:
        first = started(emulator, cudart)  # has the runtime, and no driver library before its first call
        worked(first)
        value = metrics.REGISTRY.get_sample_value

        def found() -> bool:
            source.refresh()
            return value("gpuledger_agent_runtime_libraries") == 1

        until(found)
        second = started(emulator, cudart)
        worked(second)
        source.drain()
        source.refresh()
        name = "gpuledger_agent_runtime_calls"
        counted = {function: value(name, {"function": function}) for function in RUNTIME}
        assert counted == times(RUNTIME)
        assert value("gpuledger_agent_runtime_libraries") == 1
        assert value("gpuledger_agent_runtime_lost") == 0
        done(first)
        done(second)
        until(lambda: not [one for one in source.runtime_calls() if one.pid == second.pid])
        for _ in range(RELEASE_REFRESHES):
            source.refresh()
        assert {function: value(name, {"function": function}) for function in RUNTIME} == counted
        assert value("gpuledger_agent_runtime_libraries") == 0
    finally:
        source.close()


def test_top_shows_the_names_beside_the_launches(emulator: Emulator, cudart: Path) -> None:
    process = started(emulator, cudart)
    command = [sys.executable, "-m", "gpuledger", "agent", "top", "--runtime", "--json"]
    command += ["--interval-s", "1", "--library", str(LIBCUDA), "--library", str(cudart)]
    shown = emulator.spawn_command(command)
    assert shown.stdout is not None
    json.loads(shown.stdout.readline())  # from now on all is probed
    worked(process)
    runtime: Counter[str] = Counter()
    launches = 0

    def all_is_told() -> bool:
        nonlocal launches
        for consumer in json.loads(shown.stdout.readline())["consumers"]:  # type: ignore[union-attr]
            if consumer["consumer"].startswith(f"{process.pid}-"):
                runtime.update(consumer["runtime"])
                launches += consumer["launches"]
        return runtime.total() >= sum(times(RUNTIME).values()) and launches >= THREADS * launched

    launched = DRIVER[Operation.LAUNCH_KERNEL]
    until(all_is_told)
    assert (dict(runtime), launches) == (times(RUNTIME), THREADS * launched)
    done(process)


def test_every_name_is_counted_once_and_the_option_needs_probes() -> None:
    assert len(set(FUNCTIONS)) == len(FUNCTIONS)
    options = ["--cluster", "c", "--node", "n", "--source", "none", "--runtime"]
    result = CliRunner().invoke(app, ["agent", "run", *options])
    assert result.exit_code != 0
    assert "--source ebpf" in f"{result.output}{result.exception}"
