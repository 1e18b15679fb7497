"""The emulated GPU shared by multiprocessors (MPS), its graphs, streams, and ways to wait."""

from __future__ import annotations

import json
import time

import pytest

from tests.emulator import H100, DeviceSpec, Emulator, mig_slice
from tests.support.waiting import until

MPS = DeviceSpec(mode="mps", sms=100)


def boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def test_under_mps_processes_that_ask_for_more_than_there_is_share_it_by_their_percentages() -> None:
    with Emulator([MPS]) as emulator:
        hogs = [
            emulator.spawn(["hog", "--duration-us", "20000"], env={"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": text})
            for text in ("30", "70", "100")
        ]
        until(lambda: emulator.truth().at_work(emulator.uuids[0]) == {hog.pid for hog in hogs})
        start = boot_ns()
        time.sleep(0.5)
        end = boot_ns()
        truth, (uuid,) = emulator.truth(), emulator.uuids
        parts = [truth.sm_ns(hog.pid, uuid, start, end) / (end - start) for hog in hogs]
        assert parts == pytest.approx([15, 35, 50], abs=2)
        assert truth.device_busy_ns(uuid, start, end) == pytest.approx(end - start, rel=0.02)


def test_under_mps_a_launch_takes_as_much_longer_as_it_has_fewer_multiprocessors() -> None:
    with Emulator([MPS]) as emulator:
        quarter = emulator.spawn(
            ["train", "--burst", "3", "--seconds", "0.2"], env={"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"}
        )
        output, _ = quarter.communicate()
        work_ns = json.loads(output)["work_ns"]
        (stay,) = emulator.truth().stays(emulator.uuids[0])
        assert stay.busy_ns == pytest.approx(4 * work_ns, rel=0.001)
        assert stay.sm_ns == pytest.approx(100 * work_ns, rel=0.001)


@pytest.mark.parametrize(
    "options",
    [
        ["--sync", "event"],
        ["--sync", "poll-event"],
        ["--sync", "poll-stream"],
        ["--sync", "context", "--streams", "3"],
        ["--graph"],
    ],
)
def test_however_work_is_launched_and_waited_for_it_takes_its_device_time(options: list[str]) -> None:
    with Emulator([H100]) as emulator:
        train = ["train", "--burst", "5", "--duration-us", "300", "--seconds", "0.2"]
        output, _ = emulator.spawn([*train, *options]).communicate()
        report = json.loads(output)
        (stay,) = emulator.truth().stays(emulator.uuids[0])
        assert report["synchronisations"] > 0
        assert stay.busy_ns == report["work_ns"]


def test_a_process_finds_a_mig_instance_by_its_name() -> None:
    with Emulator([H100, mig_slice(0, 7), mig_slice(0, 9, 3)]) as emulator:
        seconds = ["train", "--seconds", "0.1"]
        chosen = emulator.spawn(seconds, visible_devices=emulator.uuids[2])
        chosen.communicate()
        assert [emulator.truth().pids(uuid) for uuid in emulator.uuids] == [[], [], [chosen.pid]]
