"""The checks of `make test-gpu` fail where something is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuledger.agent.probes.events import RAW_EVENT, DeviceUuid
from gpuledger.agent.samplers.samples import Round, Sample
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Device
from tests.gpu import checks
from tests.gpu.__main__ import judge
from tests.gpu.amounts import HELD_BYTES
from tests.gpu.checks import State
from tests.gpu.observed import Observed

HEX = "e3dd2abbc77b42ff905dce7b67491216"
UUID = "e3dd2abb-c77b-42ff-905d-ce7b67491216"
GPU = f"GPU-{UUID}"
PID = 456


def seen(**changes: Any) -> Observed:
    """A run in which three launches were made, one of which failed, and the device was busy."""
    events = np.zeros(3, RAW_EVENT)
    events["operation"] = Operation.LAUNCH_KERNEL
    events["result"] = [0, 0, 1]
    busy = [
        Sample(GPU, None, field, source, 0, 10**9, 0.9)
        for field, source in (
            (Field.GPU_UTILIZATION, SampleSource.NVML),
            (Field.ENGINE_ACTIVE, SampleSource.GPM),
            (Field.SM_ACTIVE, SampleSource.GPM),
        )
    ]
    rounds = [Round(0), Round(0, busy, contexts={GPU: {PID: HELD_BYTES + 1}})]
    values: dict[str, Any] = {
        "pid": PID,
        "devices": [Device(uuid=GPU)],
        "counted": {"uuid": HEX, "ok": {"cuLaunchKernel": 2}, "failed": {"cuLaunchKernel": 1}},
        "loaded": {"seconds": 6.0},
        "addresses": {"same": 3, "other": [], "none": []},
        "events": events,
        "told": [DeviceUuid(PID, 1, 0, UUID)],
        "rounds": rounds,
        "probed_ns": 1100.0,
        "plain_ns": 100.0,
    }
    return Observed(**{**values, **changes})


def with_events(**columns: Any) -> Observed:
    changed = seen()
    assert changed.events is not None
    for name, value in columns.items():
        changed.events[name] = value
    return changed


@pytest.mark.parametrize("check", [checks.counts, checks.identity, checks.utilisation, checks.process_memory])
def test_what_is_right_passes(check: Any) -> None:
    assert check(seen()).state is State.OK


def test_a_call_that_was_missed_or_doubled_or_misread_is_found() -> None:
    whole = seen().events
    assert whole is not None
    for events in (whole[:2], np.concatenate([whole, whole[:1]])):
        assert checks.counts(seen(events=events)).state is State.FAILED
    assert checks.counts(with_events(result=0)).state is State.FAILED
    assert checks.counts(with_events(operation=Operation.LAUNCH_GRAPH)).state is State.FAILED
    assert checks.counts(seen(lost=1)).state is State.FAILED


def test_another_device_than_nvml_lists_is_found() -> None:
    assert checks.identity(seen(devices=[Device(uuid="GPU-0")])).state is State.FAILED
    assert checks.identity(seen(told=[])).state is State.FAILED
    assert checks.identity(with_events(ordinal=1)).state is State.FAILED


def test_an_idle_device_a_process_that_is_not_listed_and_a_value_of_nonsense_are_found() -> None:
    idle = Sample(GPU, None, Field.GPU_UTILIZATION, SampleSource.NVML, 0, 10**9, 0.01)
    assert checks.utilisation(seen(rounds=[Round(0), Round(0, [idle])])).state is State.FAILED
    assert checks.process_memory(seen(rounds=[Round(0)])).state is State.FAILED
    assert checks.process_utilisation(seen()).state is State.FAILED
    nonsense = [
        Sample(GPU, None, field, SampleSource.GPM, 0, 10**9, 1.7)
        for field in (Field.ENGINE_ACTIVE, Field.SM_ACTIVE)
    ]
    assert checks.gpm(seen(rounds=[Round(0), Round(0, nonsense)])).state is State.FAILED
    assert checks.gpm(seen()).state is State.OK
    assert checks.gpm(seen(rounds=[Round(0)])).state is State.NOT_HERE


def test_a_function_that_the_driver_hands_out_elsewhere_is_found_and_so_is_a_trap_that_costs_much() -> None:
    assert (
        checks.addresses(seen(addresses={"same": 3, "other": ["cuLaunchKernel"], "none": []})).state
        is State.FAILED
    )
    assert checks.cost(seen(probed_ns=1e6)).state is State.FAILED
    assert checks.cost(seen()).figures["extra_ns"] == 1000.0


def test_wrong_sums_matter_on_silicon_alone_and_a_check_that_falls_over_has_failed() -> None:
    wrong = seen(counted={**seen().counted, "added_right": False})
    names = {check.name: check.state for check in judge(wrong, emulated=False)}
    assert names["the vectors were added"] is State.FAILED
    assert "the vectors were added" not in {check.name for check in judge(wrong, emulated=True)}
    broken = {check.name: check.state for check in judge(seen(counted={}), emulated=True)}
    assert broken["counts"] is State.FAILED
