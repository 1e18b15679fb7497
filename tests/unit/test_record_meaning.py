"""Records that keep their schemas and say what can not be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuledger.attribution import charge_window, check_layout, check_record
from gpuledger.contract.columns import longs
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.fields import Field
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Device, Holder, NodeLayout, PriceEntry
from gpuledger.pricing import Teams
from tests.support.charging import START, Calls, S, gpu, pod_process, prices, row_of, samples, state, window

PEOPLE = [pod_process(1, "uid-0")]
DAY = 86_400 * S


@pytest.mark.parametrize(
    "layout",
    [
        NodeLayout(gpu_count=(1 << 31) - 1),
        NodeLayout(devices=[gpu(0), gpu(0)]),
        NodeLayout(devices=[Device("")]),
        NodeLayout(devices=[Device("node")]),
        NodeLayout(devices=[Device("MIG-0", parent_uuid="-")]),
        NodeLayout(devices=[Device("MIG-0", parent_uuid="MIG-0")]),
        NodeLayout(devices=[Device("a", parent_uuid="b"), Device("b", parent_uuid="c")]),
        NodeLayout(devices=[Device("MIG-0", parent_uuid="GPU-0", slices=-1)]),
        NodeLayout(devices=[Device("GPU-0", slices_total=(1 << 31) - 1)]),
        NodeLayout(devices=[Device(f"MIG-{i}", parent_uuid="GPU-0", slices=600) for i in range(2)]),
        NodeLayout(devices=[Device(f"GPU-{i}") for i in range(2000)]),
        NodeLayout(region="x" * 2000),
    ],
)
def test_layout_that_no_node_can_have_is_refused(layout: NodeLayout) -> None:
    with pytest.raises(BadRecord, match="bad_meaning"):
        check_layout(layout)
    with pytest.raises(BadRecord, match="bad_meaning"):
        check_record(state(layout))


def test_layout_of_a_large_partitioned_node_is_none_of_these() -> None:
    devices = [gpu(i, sharing="mig", slices_total=7) for i in range(16)]
    devices += [
        Device(f"MIG-{i}-{j}", parent_uuid=f"GPU-{i}", slices=1, slices_total=7)
        for i in range(16)
        for j in range(7)
    ]
    check_layout(NodeLayout(gpu_count=16, devices=devices))


@pytest.mark.parametrize(
    "holder",
    [
        Holder("x", 0, mps_percentage=float("nan")),
        Holder("x", 0, mps_percentage=float("inf")),
        Holder("x", 0, mps_percentage=-1.0),
        Holder("x", 0, share_numerator=1, share_denominator=1 << 62),
    ],
)
def test_holder_of_an_impossible_part_is_refused(holder: Holder) -> None:
    with pytest.raises(BadRecord, match="bad_meaning"):
        check_record(state(NodeLayout(devices=[gpu()]), [holder]))


def test_shares_that_multiply_without_end_are_refused() -> None:
    holders = [Holder(f"x{i}", 0, share_numerator=1, share_denominator=10**11 + i) for i in range(40)]
    with pytest.raises(BadRecord, match="denominators"):
        check_record(state(NodeLayout(devices=[gpu()]), holders))


def test_times_far_from_their_window_are_refused() -> None:
    calls, sampled = Calls(PEOPLE).busy(1, 2).batch(), samples([(Field.ENGINE_ACTIVE, 0, 10, 0.5)])
    check_record(calls)
    check_record(sampled)
    for far in (START + 2 * DAY, START - 2 * DAY, -(1 << 63)):
        with pytest.raises(BadRecord, match="time_ns"):
            check_record(replace(calls, time_ns=longs([START, far])))
        with pytest.raises(BadRecord, match="start_ns"):
            check_record(replace(sampled, start_ns=longs([far])))
    with pytest.raises(BadRecord, match="time_ns"):
        check_record(replace(state(NodeLayout()), time_ns=START + 2 * DAY))
    with pytest.raises(BadRecord, match="duration_ns"):
        check_record(replace(sampled, duration_ns=longs([(1 << 63) - 1])))


def test_call_that_began_long_ago_is_not_work_of_another_device() -> None:
    """200 s are more than a window can be long: the interval must not reach the device before it."""
    layout = NodeLayout(devices=[gpu(0), gpu(1)])
    calls = Calls(PEOPLE, ("GPU-0", "GPU-1"))
    calls.call(Operation.LAUNCH_KERNEL, 2, 200, device=1).call(Operation.SYNCHRONIZE_STREAM, 5, 3, device=1)
    charges = charge_window(window([state(layout, [], PEOPLE)], [calls.batch()]), prices(), Teams())
    assert row_of(charges, "uid-0", device="GPU-1")["used_ns"] == 5 * S
    assert sum(row["used_ns"] for row in charges.rows() if row["device"] == "GPU-0") == 0


def test_counts_beyond_a_long_are_shown_as_the_most_there_is() -> None:
    calls = Calls(PEOPLE)
    for at in (1, 2, 3):
        calls.call(Operation.COPY_HOST_TO_DEVICE, at, bytes=1 << 62, count=1 << 62)
        calls.call(Operation.ALLOCATE_DEVICE, at, bytes=1 << 62)
    held = [state(NodeLayout(devices=[gpu()]), [Holder("uid-0", 0)], PEOPLE)]
    row = row_of(charge_window(window(held, [calls.batch()]), prices(), Teams()), "uid-0")
    assert row["bytes_h2d"] == 1 << 53
    assert row["memory_peak_bytes"] == 1 << 53
    assert row["memory_byte_seconds"] > 0


def test_node_whose_gpus_are_all_gone_still_costs_its_price() -> None:
    book = prices(PriceEntry("n", "node", 36_000_000_000, "USD", gpu_share_ppb=800_000_000))
    charges = charge_window(window([state(NodeLayout())]), book, Teams())
    assert charges.conservation_error_nano == 0
    assert [row.total_nano for row in charges.rows()] == [100_000_000]


def test_window_of_more_states_than_one_may_have_is_refused() -> None:
    layout = NodeLayout(devices=[gpu()])
    states = [state(layout, at_s=i / 100, sequence=i) for i in range(600)]
    with pytest.raises(BadRecord, match="over_limit"):
        charge_window(window(states), prices(), Teams())


def test_window_of_more_pairs_than_one_may_have_is_refused() -> None:
    layout = NodeLayout(devices=[gpu(i) for i in range(300)])
    people = [pod_process(i, "uid-0") for i in range(1000)]
    with pytest.raises(BadRecord, match="pairs"):
        charge_window(window([state(layout, [], people)]), prices(), Teams())


def test_instances_of_which_nobody_says_the_slices_are_equal_parts_of_their_gpu() -> None:
    layout = NodeLayout(devices=[Device(f"MIG-{i}", parent_uuid="GPU-0") for i in range(3)])
    charges = charge_window(window([state(layout)]), prices(), Teams())
    assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0)
    assert sorted(row.total_ns for row in charges.rows()) == [10 * S // 3, 10 * S // 3, 10 * S // 3 + 1]
