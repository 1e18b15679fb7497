"""The emulated GPU's model and its truth: what processes ask for is what they get, and what is recorded."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.emulator import AT_WORK_NS, DeviceSpec, Emulator, EmulatorError, Truth, TruthError
from tests.emulator.programs import NVML_PRELUDE, run_python
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
LONG = ["--duration-us", "20000"]  # with 1024 in its queue a hog has work for 20 s, whether it runs or not


def boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def report(process: subprocess.Popen[str]) -> dict[str, int]:
    assert process.stdout is not None
    text = process.stdout.read()
    assert process.wait() == 0
    result: dict[str, int] = json.loads(text)
    return result


def eventually(emulator: Emulator, condition: Callable[[Truth], bool]) -> Truth:
    found: list[Truth] = []

    def holds() -> bool:
        found[:] = [emulator.truth()]
        return condition(found[0])

    until(holds, pause_s=0.01)
    return found[0]


def at_work(emulator: Emulator, *hogs: subprocess.Popen[str]) -> int:
    """Wait until all of these keep their devices busy; the time (CLOCK_BOOTTIME) then."""

    def busy(truth: Truth) -> bool:
        return {hog.pid for hog in hogs} <= set().union(*map(truth.at_work, emulator.uuids))

    eventually(emulator, busy)
    return boot_ns()


def test_a_lone_trainers_busy_time_is_exactly_the_work_that_it_launched() -> None:
    with Emulator() as emulator:
        start = boot_ns()
        trainer = emulator.spawn(["train", "--seconds", "0.5", "--burst", "7", "--duration-us", "500"])
        done = report(trainer)
        end = boot_ns()
        truth = emulator.truth()
        assert done["launches"] >= 7
        assert truth.busy_ns(trainer.pid, emulator.uuids[0], start, end) == done["work_ns"]
        (stay,) = truth.stays(emulator.uuids[0])
        assert (stay.pid, stay.busy_ns) == (trainer.pid, done["work_ns"])
        assert stay.closed_boot_ns is not None


@pytest.mark.parametrize("mode", ["train", "infer", "hog", "tiny", "nosync", "late"])
def test_a_workload_that_the_machine_does_not_let_run_in_its_time_works_once_all_the_same(mode: str) -> None:
    with Emulator() as emulator:
        options = ["--seconds", "0.000001", "--burst", "13", "--sync-every", "11"]  # over when it begins
        done = report(emulator.spawn([mode, *options]))
        assert done["launches"] >= (11 if mode == "hog" else 13)
        assert (done["bytes_d2h"] > 0) == (mode in ("infer", "hog"))
        (stay,) = emulator.truth().stays(emulator.uuids[0])
        assert stay.busy_ns == done["work_ns"]


@pytest.mark.parametrize("mode", ["infer", "hog", "tiny", "nosync", "late", "idle"])
def test_every_workload_gets_the_device_time_that_it_reports(mode: str) -> None:
    demand = ["--burst", "3", "--duration-us", "300", "--rate", "100", "--sync-every", "11"]
    with Emulator() as emulator:
        done = report(emulator.spawn([mode, "--seconds", "0.2", *demand]))
        (stay,) = emulator.truth().stays(emulator.uuids[0])
        assert stay.busy_ns == done["work_ns"]
        assert (done["launches"] > 0) == (mode != "idle")
        assert (done["bytes_d2h"] > 0) == (mode in ("infer", "hog"))


def test_busy_time_of_adjoining_intervals_adds_up() -> None:
    with Emulator() as emulator:
        hog = emulator.spawn(["hog", *LONG])
        start = at_work(emulator, hog)
        points = [start + i * 100_000_000 for i in range(4)]
        time.sleep(0.4)
        truth = emulator.truth()
        pairs = itertools.pairwise(points)
        parts = [truth.busy_ns(hog.pid, emulator.uuids[0], a, b) for a, b in pairs]
        assert sum(parts) == pytest.approx(300_000_000, rel=0.02)
        assert sum(parts) == pytest.approx(
            truth.busy_ns(hog.pid, emulator.uuids[0], points[0], points[3]), abs=3
        )


def test_two_time_sliced_processes_that_always_have_work_get_half_each() -> None:
    with Emulator([DeviceSpec(mode="time_sliced")]) as emulator:
        hogs = [emulator.spawn(["hog", "--duration-us", str(d), "--seed", str(d)]) for d in (60_000, 14_000)]
        start = at_work(emulator, *hogs)
        time.sleep(0.6)
        end = boot_ns()
        truth = emulator.truth()
        shares = [truth.busy_ns(hog.pid, emulator.uuids[0], start, end) / (end - start) for hog in hogs]
        assert shares == pytest.approx([0.5, 0.5], abs=0.03)
        assert truth.device_busy_ns(emulator.uuids[0], start, end) == pytest.approx(end - start, rel=0.02)


def test_a_process_with_less_demand_leaves_the_rest_to_the_other() -> None:
    with Emulator() as emulator:
        hog = emulator.spawn(["hog", *LONG])
        start = at_work(emulator, hog)
        options = ["--burst", "1", "--duration-us", "1000", "--gap-us", "10000", "--seconds", "0.6"]
        light = emulator.spawn(["nosync", *options])
        done = report(light)
        end = boot_ns()
        truth, (uuid,) = emulator.truth(), emulator.uuids
        used = truth.busy_ns(light.pid, uuid, start, end)
        assert used == done["work_ns"]
        rest = end - start - used
        assert truth.busy_ns(hog.pid, uuid, start, end) == pytest.approx(rest, rel=0.02)


def test_context_switches_are_busy_time_of_the_device_and_of_no_process() -> None:
    with Emulator([DeviceSpec(quantum_ns=2_000_000, switch_ns=500_000)]) as emulator:
        hogs = [emulator.spawn(["hog", *LONG, "--seed", str(i)]) for i in (1, 2)]
        start = at_work(emulator, *hogs)
        time.sleep(0.5)
        end = boot_ns()
        truth = emulator.truth()
        used = sum(truth.busy_ns(hog.pid, emulator.uuids[0], start, end) for hog in hogs)
        device = truth.device_busy_ns(emulator.uuids[0], start, end)
        assert used / device == pytest.approx(0.8, abs=0.03)


def test_devices_work_side_by_side() -> None:
    with Emulator([DeviceSpec(), DeviceSpec()]) as emulator:
        hogs = [emulator.spawn(["hog", *LONG, "--device", str(i)]) for i in (0, 1)]
        start = at_work(emulator, *hogs)
        time.sleep(0.4)
        end = boot_ns()
        truth = emulator.truth()
        for hog, uuid in zip(hogs, emulator.uuids, strict=True):
            assert truth.busy_ns(hog.pid, uuid, start, end) / (end - start) > 0.95
        assert truth.busy_ns(hogs[0].pid, emulator.uuids[1], start, end) == 0


def test_sm_time_counts_the_multiprocessors_of_each_launch() -> None:
    with Emulator([DeviceSpec(sms=100)]) as emulator:
        report(emulator.spawn(["train", "--seconds", "0.2", "--sms", "25"]))
        (stay,) = emulator.truth().stays(emulator.uuids[0])
        assert stay.sm_ns == 25 * stay.busy_ns


def test_an_exclusive_device_refuses_a_second_process_until_the_first_has_gone() -> None:
    with Emulator([DeviceSpec(mode="exclusive")]) as emulator:
        first = emulator.spawn(["idle"])
        with pytest.raises(EmulatorError, match="status 3"):
            emulator.spawn(["idle"])
        first.terminate()
        first.wait()
        emulator.spawn(["idle"])


def test_a_killed_process_loses_memory_and_queued_work_but_not_its_past() -> None:
    with Emulator([DeviceSpec(context_bytes=0)]) as emulator:
        hog = emulator.spawn(["hog", *LONG, "--memory", "5G"])
        at_work(emulator, hog)
        os.kill(hog.pid, signal.SIGKILL)
        hog.wait()
        truth = eventually(emulator, lambda t: t.stays(emulator.uuids[0])[0].closed_boot_ns is not None)
        (stay,) = truth.stays(emulator.uuids[0])
        assert AT_WORK_NS < stay.busy_ns < 15_000_000_000
        code = "answer = nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(0)).used"
        assert run_python(emulator, NVML_PRELUDE, code) == 0
        after = boot_ns()
        time.sleep(0.1)
        assert emulator.truth().device_busy_ns(emulator.uuids[0], after, after + 90_000_000) == 0


def test_processes_killed_at_any_instant_leave_the_model_whole() -> None:
    """Launches of a microsecond keep the device's lock so busy that some die inside it."""
    with Emulator([DeviceSpec(context_bytes=1 << 20)]) as emulator:
        for i in range(23):
            hog = emulator.spawn(["hog", "--duration-us", "1", "--sync-every", "7", "--memory", "1M"])
            time.sleep(0.01 + 0.003 * (i % 5))
            os.kill(hog.pid, signal.SIGKILL)
            hog.wait()
        truth = eventually(
            emulator, lambda t: all(stay.closed_boot_ns is not None for stay in t.stays(emulator.uuids[0]))
        )
        stays = truth.stays(emulator.uuids[0])
        assert len(stays) == 23
        total = truth.device_busy_ns(emulator.uuids[0], 0, truth.recorded_through_boot_ns)
        assert sum(stay.busy_ns for stay in stays) == pytest.approx(total, abs=23 * 2000)
        code = "answer = nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(0)).used"
        assert run_python(emulator, NVML_PRELUDE, code) == 0
        report(emulator.spawn(["train", "--seconds", "0.05"]))


def test_the_truth_refuses_what_it_cannot_know() -> None:
    with Emulator() as emulator:
        truth = emulator.truth()
        with pytest.raises(TruthError, match="ends"):
            truth.device_busy_ns(emulator.uuids[0], 0, boot_ns() + 10**9)
        with pytest.raises(TruthError, match="no device"):
            truth.device_busy_ns("GPU-0", 0, 1)


def test_the_same_seed_gives_the_same_uuids_and_the_same_work() -> None:
    command = ["train", "--seconds", "0.3", "--gap-us", "10000000", "--burst", "13", "--jitter", "0.5"]

    def work(seed: int) -> tuple[list[str], int]:
        with Emulator([DeviceSpec(), DeviceSpec()], seed=5) as emulator:
            done = report(emulator.spawn([*command, "--seed", str(seed)]))
            assert done["launches"] == 13
            return emulator.uuids, done["work_ns"]

    assert work(9) == work(9) != work(8)


def test_the_daemon_takes_little_of_a_core() -> None:
    with Emulator([DeviceSpec()] * 3) as emulator:
        for i in range(3):
            emulator.spawn(["nosync", "--device", str(i), "--burst", "5", "--gap-us", "10000"])

        def cpu_s() -> float:
            fields = Path(f"/proc/{emulator.daemon_pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        before, start = cpu_s(), boot_ns()
        time.sleep(1.5)
        assert cpu_s() - before < 0.5 * (boot_ns() - start) / 1e9, "it sleeps between its ticks"


def test_nothing_stays_when_the_process_that_started_it_is_killed() -> None:
    code = (
        "import time; from tests.emulator import Emulator\n"
        "e = Emulator(); e.start(); w = e.spawn(['idle'])\n"
        "print(e.daemon_pid, w.pid, e.directory, flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    daemon, workload, directory = starter.stdout.readline().split()
    starter.kill()
    starter.wait()
    starter.stdout.close()
    until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in (daemon, workload)))
    for file in Path(directory).iterdir():
        file.unlink()
    Path(directory).rmdir()
