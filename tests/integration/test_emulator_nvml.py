"""The emulated libnvidia-ml through pynvml as it is: the same model, seen by a monitor."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.emulator import A100, T4, DeviceSpec, Emulator
from tests.emulator.control import STOP_S
from tests.emulator.programs import NVML_PRELUDE, run_python
from tests.support.waiting import until

GIB = 1 << 30
SAMPLE_S = 0.4  # two and a half periods of NVML's counters
LONG = ["--duration-us", "20000"]  # with 1024 in its queue a hog has work for 20 s, whether it runs or not


@contextlib.contextmanager
def nvml_in_here(emulator: Emulator) -> Iterator[None]:
    """pynvml, started, in the process of the tests."""
    with emulator.nvml_here():
        pynvml.nvmlInit()
        try:
            yield
        finally:
            pynvml.nvmlShutdown()


def ask(emulator: Emulator, code: str) -> Any:
    return run_python(emulator, NVML_PRELUDE + "h = nvml.nvmlDeviceGetHandleByIndex(0)\n", code)


def test_devices_are_found_by_index_uuid_and_bus() -> None:
    devices = [DeviceSpec(name="Made-up 1", sms=7, memory_bytes=3 * GIB), A100, T4]
    code = """
    answer = []
    for i in range(nvml.nvmlDeviceGetCount()):
        h = nvml.nvmlDeviceGetHandleByIndex(i)
        uuid, bus = nvml.nvmlDeviceGetUUID(h), nvml.nvmlDeviceGetPciInfo(h).busId
        same = [nvml.nvmlDeviceGetHandleByUUID(uuid), nvml.nvmlDeviceGetHandleByPciBusId(bus)]
        answer.append([nvml.nvmlDeviceGetName(h), uuid, nvml.nvmlDeviceGetMinorNumber(h),
                       [nvml.nvmlDeviceGetIndex(s) for s in same],
                       nvml.nvmlDeviceGetMemoryInfo(h).total,
                       list(nvml.nvmlDeviceGetCudaComputeCapability(h))])
    """
    with Emulator(devices) as emulator:
        answer = ask(emulator, code)
    assert answer == [
        ["Made-up 1", emulator.uuids[0], 0, [0, 0], 3 * GIB, [9, 0]],
        ["NVIDIA A100-SXM4-80GB", emulator.uuids[1], 1, [1, 1], 80 * GIB, [8, 0]],
        ["Tesla T4", emulator.uuids[2], 2, [2, 2], 16 * GIB, [7, 5]],
    ]


def test_memory_is_seen_by_device_and_by_process() -> None:
    code = """
    old, new = nvml.nvmlDeviceGetMemoryInfo(h), nvml.nvmlDeviceGetMemoryInfo(h, nvml.nvmlMemory_v2)
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(h)
    answer = [old.used, old.free, new.used, new.free, {p.pid: p.usedGpuMemory for p in processes}]
    """
    with Emulator([DeviceSpec(memory_bytes=16 * GIB, context_bytes=1000)]) as emulator:
        pids = [emulator.spawn(["idle", "--memory", str(size)]).pid for size in (5 * GIB, 12345)]
        used = 5 * GIB + 12345 + 2000
        answer = ask(emulator, code)
    assert answer[:4] == [used, 16 * GIB - used] * 2
    assert answer[4] == {str(pids[0]): 5 * GIB + 1000, str(pids[1]): 12345 + 1000}


def test_utilisation_of_device_and_processes_follows_the_model() -> None:
    code = """
    try:
        samples = nvml.nvmlDeviceGetProcessUtilization(h, 0)
    except nvml.NVMLError_NotFound:  # no period of the counters is over
        samples = []
    answer = [nvml.nvmlDeviceGetUtilizationRates(h).gpu, {s.pid: s.smUtil for s in samples}]
    """
    # a fifth of the device's time goes with the switches from one to the other
    with Emulator([DeviceSpec(quantum_ns=2_000_000, switch_ns=500_000)]) as emulator:
        hogs = [str(emulator.spawn(["hog", *LONG, "--seed", str(n)]).pid) for n in (1, 2)]
        emulator.spawn(["idle"])

        def shown() -> bool:  # once a whole period of the counters lies behind them
            device, processes = ask(emulator, code)
            return device >= 99 and sorted(processes) == sorted(hogs) and seen(processes)

        def seen(processes: dict[str, int]) -> bool:
            return [processes[pid] for pid in hogs] == pytest.approx([40, 40], abs=3)

        until(shown)


def test_samples_of_processes_are_newer_than_the_caller_has_seen() -> None:
    code = """
    def newer(than):
        while True:
            try:
                return nvml.nvmlDeviceGetProcessUtilization(h, than)[0].timeStamp
            except nvml.NVMLError_NotFound:
                time.sleep(0.01)

    first = newer(0)
    second = newer(first)
    answer = [first, second, newer(second)]
    """
    with Emulator() as emulator:
        began_s = time.time()
        emulator.spawn(["hog", *LONG])
        stamps = ask(emulator, code)
    assert stamps == sorted(set(stamps))
    assert began_s - 1 <= stamps[0] / 1e6 <= stamps[-1] / 1e6 <= time.time() + 1  # wall-clock microseconds


def test_a_warm_idle_process_has_memory_and_no_utilisation_sample() -> None:
    code = """
    try:
        nvml.nvmlDeviceGetProcessUtilization(h, 0)
        answer = "a sample"
    except nvml.NVMLError_NotFound:
        answer = [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(h)]
    """
    with Emulator() as emulator:
        idle = emulator.spawn(["idle"])
        time.sleep(SAMPLE_S)
        assert ask(emulator, code) == [idle.pid]


GPM = """
IDS = [nvml.NVML_GPM_METRIC_GRAPHICS_UTIL, nvml.NVML_GPM_METRIC_SM_UTIL, nvml.NVML_GPM_METRIC_SM_OCCUPANCY,
       nvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, nvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
       nvml.NVML_GPM_METRIC_FP64_UTIL]
samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
times = []
for sample in samples:
    times.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    nvml.nvmlGpmSampleGet(h, sample)
    times.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    time.sleep(0.5)
request = nvml.c_nvmlGpmMetricsGet_t()
request.version, request.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(IDS)
request.sample1, request.sample2 = samples
for i, metric in enumerate(IDS):
    request.metrics[i].metricId = metric
nvml.nvmlGpmMetricsGet(request)
got = [request.metrics[i] for i in range(len(IDS))]
answer = [times, [m.nvmlReturn for m in got], [m.value for m in got[:5]]]
for sample in samples:
    nvml.nvmlGpmSampleFree(sample)
"""


def test_gpm_counters_come_from_the_model_that_the_truth_comes_from() -> None:
    demand = ["--sms", "50", "--occupancy", "0.5", "--tensor", "0.4", "--dram", "0.3"]
    with Emulator([DeviceSpec(sms=100)]) as emulator:
        emulator.spawn(["nosync", "--burst", "6", "--gap-us", "10000", *demand])
        times, results, values = ask(emulator, GPM)
        truth, (uuid,) = emulator.truth(), emulator.uuids
    assert results == [0, 0, 0, 0, 0, 3]
    # the samples were taken between the first two times and between the last two
    early, first, last, late = times
    least = truth.device_busy_bounds_ns(uuid, first, last)[0] / (late - early)
    most = truth.device_busy_bounds_ns(uuid, early, late)[1] / (last - first)
    for value, factor in zip(values, [1, 0.5, 0.5 * 0.5, 0.5 * 0.4, 0.3], strict=True):
        assert 0.99 * 100 * least * factor <= value <= 1.01 * 100 * most * factor


def test_a_board_before_hopper_has_no_gpm_and_one_before_ampere_no_mig() -> None:
    code = """
    h = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(3)]
    def of(function, *arguments):
        try:
            return function(*arguments)
        except nvml.NVMLError as error:
            return type(error).__name__
    answer = [[nvml.nvmlGpmQueryDeviceSupport(d).isSupportedDevice for d in h],
              of(nvml.nvmlGpmSampleGet, h[1], nvml.nvmlGpmSampleAlloc()),
              [of(nvml.nvmlDeviceGetMigMode, d) for d in h]]
    """
    with Emulator([DeviceSpec(), A100, T4]) as emulator:
        answer = ask(emulator, code)
    assert answer == [[1, 0, 0], "NVMLError_NotSupported", [[0, 0], [0, 0], "NVMLError_NotSupported"]]


def test_power_and_energy_follow_the_active_multiprocessors() -> None:
    code = """
    before, start = nvml.nvmlDeviceGetTotalEnergyConsumption(h), time.monotonic()
    time.sleep(0.5)
    spent = nvml.nvmlDeviceGetTotalEnergyConsumption(h) - before
    answer = [nvml.nvmlDeviceGetPowerUsage(h), spent / (time.monotonic() - start)]
    """
    with Emulator([DeviceSpec(sms=100, idle_power_mw=100_000, max_power_mw=500_000)]) as emulator:
        emulator.spawn(["hog", *LONG, "--sms", "50"])
        until(lambda: ask(emulator, code) == pytest.approx([300_000, 300_000], rel=0.05))


def test_pynvml_in_the_process_of_the_tests_sees_one_emulator_after_another() -> None:
    for count in (1, 3):
        with Emulator([T4] * count, seed=count) as emulator, nvml_in_here(emulator):
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            uuids = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
        assert uuids == emulator.uuids


def test_what_the_library_lacks_is_reported_as_a_missing_function() -> None:
    code = """
    try:
        answer = nvml.nvmlDeviceGetFanSpeed(h)
    except nvml.NVMLError_FunctionNotFound:
        answer = "missing"
    """
    with Emulator() as emulator:
        assert ask(emulator, code) == "missing"


MONITOR = """
import sys
def asked():
    try:
        return f"utilisation {nvml.nvmlDeviceGetUtilizationRates(h).gpu}"
    except nvml.NVMLError_GpuIsLost:
        return "lost"
h = nvml.nvmlDeviceGetHandleByIndex(0)
print("ready", flush=True)
for line in sys.stdin:
    if line == "anew\\n":
        nvml.nvmlShutdown()
        nvml.nvmlInit()
        h = nvml.nvmlDeviceGetHandleByIndex(0)
    print(asked(), flush=True)
"""


def test_a_gone_daemon_is_an_error_and_so_is_the_next_one_until_nvml_is_started_anew(tmp_path: Path) -> None:
    gone = Emulator(directory=tmp_path)
    with Emulator() as emulator:
        gone.start()
        monitor = emulator.spawn_command(
            [sys.executable, "-c", NVML_PRELUDE + MONITOR], env={"GPUEMU_SHM": str(gone.shm_path)}
        )
        assert monitor.stdin is not None
        assert monitor.stdout is not None
        assert monitor.stdout.readline() == "ready\n"

        def ask_monitor(word: str) -> str:
            print(word, file=monitor.stdin, flush=True)
            return monitor.stdout.readline().strip()  # type: ignore[union-attr]

        said = [ask_monitor("now")]
        gone.stop()
        said.append(ask_monitor("now"))
        gone.start()
        said += [ask_monitor("now"), ask_monitor("anew")]
        gone.stop()
    assert said == ["utilisation 0", "lost", "lost", "utilisation 0"]


def test_a_daemon_that_is_slow_to_end_still_ends_in_order() -> None:
    """As on a machine that lets it wait for longer than a program is given to end."""
    with Emulator([T4]) as emulator, nvml_in_here(emulator):
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        os.kill(emulator.daemon_pid, signal.SIGSTOP)
        let_go = threading.Timer(2 * STOP_S, os.kill, (emulator.daemon_pid, signal.SIGCONT))
        let_go.start()
        emulator.stop()
        let_go.join()
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetUtilizationRates(handle)


def test_errors_that_the_daemon_reads_at_once_are_each_told() -> None:
    found: dict[int, int] = {}
    with Emulator([T4, T4]) as emulator, nvml_in_here(emulator):
        events = pynvml.nvmlEventSetCreate()
        for index in range(2):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
        os.kill(emulator.daemon_pid, signal.SIGSTOP)
        emulator.xid(0, 31)
        emulator.xid(1, 43)
        os.kill(emulator.daemon_pid, signal.SIGCONT)

        def all_told() -> bool:
            with contextlib.suppress(pynvml.NVMLError_Timeout):
                while True:
                    event = pynvml.nvmlEventSetWait_v2(events, 0)
                    found[pynvml.nvmlDeviceGetIndex(event.device)] = event.eventData
            return len(found) == 2

        until(all_told)
        pynvml.nvmlEventSetFree(events)
    assert found == {0: 31, 1: 43}
