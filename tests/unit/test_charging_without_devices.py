"""A keyframe without devices: the driver was not there. What the node is paid for is charged all the same."""

from __future__ import annotations

import pytest

from gpuledger.attribution import Charges, charge_window
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Holder, Holdings, NodeLayout, PriceEntry
from gpuledger.pricing import Teams
from tests.support.charging import (
    DOLLARS_12_29,
    RATE_10S,
    Calls,
    S,
    gpu,
    pod_process,
    prices,
    row_of,
    state,
    window,
)

A_GPU = PriceEntry("gpu", "gpu", DOLLARS_12_29, "USD")
A_SLICE = PriceEntry("slice", "gpu", DOLLARS_12_29 // 8, "USD", mig_profile="1g.10gb", priority=5)
WORKER = pod_process(1, "x")
AWAY = NodeLayout(gpu_count=2)
THERE = NodeLayout(gpu_count=2, devices=[gpu(0), gpu(1)])
ENTRIES = pytest.mark.parametrize("entries", [[A_GPU], [A_GPU, A_SLICE]], ids=["whole", "slices too"])


def charge(entries: list[PriceEntry], *frames: Holdings) -> Charges:
    calls = Calls([WORKER]).call(Operation.LAUNCH_KERNEL, 1, device=-1)
    charges = charge_window(window(frames, [calls.batch(sequence=len(frames))]), prices(*entries), Teams())
    assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0)
    return charges


@ENTRIES
def test_a_node_whose_driver_was_away_is_charged_for_the_gpus_that_it_has(entries: list[PriceEntry]) -> None:
    row = row_of(charge(entries, state(AWAY, processes=[WORKER])), device="-", reason="device_lost")
    assert row["unallocated_ns"] == 20 * S
    assert abs(row["unallocated_nano"] - 2 * RATE_10S) <= 2


@ENTRIES
def test_from_when_the_driver_came_its_devices_are_charged(entries: list[PriceEntry]) -> None:
    held = state(THERE, [Holder("x", 0)], [WORKER], at_s=4, sequence=1)
    charges = charge(entries, state(AWAY, processes=[WORKER]), held)
    assert row_of(charges, device="-", reason="device_lost")["unallocated_ns"] == 8 * S
    parts = ("used_ns", "held_idle_ns", "unallocated_ns", "unobserved_ns")
    whole = {row["device"]: 0 for row in charges.rows()}
    for row in charges.rows():
        whole[row["device"]] += sum(row[part] for part in parts)
    assert (whole["GPU-0"], whole["GPU-1"]) == (6 * S, 6 * S)
