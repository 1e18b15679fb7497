"""Faults that users of other tools reported, with the right value by hand. docs/faults.md lists them all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuledger.attribution import charge_window, charge_windows
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Device, Holder, NodeLayout, Pod, PriceBookVersion, PriceEntry
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Prices, Teams
from tests.support.charging import (
    DOLLARS_12_29,
    RATE_10S,
    START,
    WINDOW,
    Calls,
    S,
    gpu,
    keys,
    pod_process,
    prices,
    row_of,
    samples,
    state,
    window,
)

LAYOUT = NodeLayout(devices=[gpu()])
SHARED = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=4)])
PODS = [pod_process(1 + i, uid) for i, uid in enumerate("abcd")]
X = pod_process(1, "x")
EVERY_SECOND = range(10)


def charge(*args, book=None, **more):
    charges = charge_window(window(*args, **more), book or prices(), Teams())
    assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0)
    return charges


def every_second(field, value, sequence=3, processes=(), of_process=-1, **more):
    rows = [(field, i, 1, value) for i in EVERY_SECOND]
    return samples(rows, sequence, processes, of_process, **more)


def sharers(calls, sampled):
    held = [Holder(process.consumer, 0) for process in PODS]
    return charge([state(SHARED, held, PODS)], [calls.batch()], sampled)


def test_one_device_value_for_all_pods_is_counted_once():
    """dcgm-exporter#587, #582, #474, #642: four sliced pods each show the device's 0.714. All four want it
    all the time: a quarter of 7.14 s each, 1.785 s, and 7.14 s in all, not 28.56."""
    calls = Calls(PODS)
    for number in range(4):
        calls.busy(0, 10, process=number)
    charges = sharers(calls, [every_second(Field.ENGINE_ACTIVE, 0.714)])
    assert [row_of(charges, uid)["used_ns"] for uid in "abcd"] == [1_785_000_000] * 4
    assert all(row_of(charges, uid)["flags"] & Flag.SILICON_SHARED for uid in "abcd")


def test_four_pods_at_99_percent_each_are_flagged_and_share_one_device():
    """dcgm-exporter#151: per process 0.99 each, 3.96 of a device that was busy 0.99. No driver's process
    values can be right that sum to more than the device: the calls decide, 2.475 s each."""
    calls = Calls(PODS)
    for number in range(4):
        calls.busy(0, 10, process=number)
    measured = [every_second(Field.ENGINE_ACTIVE, 0.99)]
    measured += [every_second(Field.PROCESS_SM_UTILIZATION, 0.99, 4 + i, PODS, i) for i in range(4)]
    charges = sharers(calls, measured)
    for uid in "abcd":
        row = row_of(charges, uid)
        assert row["used_ns"] == 2_475_000_000
        assert row["evidence"] == "busy_estimated"
        assert row["flags"] & Flag.SIGNALS_DISAGREE


@pytest.mark.parametrize("sharing", ["exclusive", "time_slicing"])
def test_profiling_counters_stuck_at_zero_are_missing_and_flagged(sharing):
    """dcgm-exporter#662: PROF_* read 0 for hours while utilisation reads 99. X works 9.9 s of 10: used is
    that, and SM active is not 0 but unknown, and so is what was effectively used."""
    stuck = [every_second(field, 0.0, 3 + field) for field in (Field.ENGINE_ACTIVE, Field.SM_ACTIVE)]
    stuck += [every_second(Field.DRAM_ACTIVE, 0.0, 20), every_second(Field.GPU_UTILIZATION, 0.99, 21)]
    layout = NodeLayout(devices=[gpu(sharing=sharing)])
    charges = charge([state(layout, [Holder("x", 0)], [X])], [Calls([X]).busy(0, 9.9).batch()], stuck)
    row = row_of(charges, "x")
    assert row["used_ns"] == 9_900_000_000
    assert row["flags"] & Flag.SIGNALS_DISAGREE
    assert row["effective_known"] == 0
    assert all(row[name] != row[name] for name in ("sm_active", "dram_active"))  # NaN


def test_profiling_counters_at_zero_on_an_idle_device_are_zero():
    idle = [every_second(Field.ENGINE_ACTIVE, 0.0), every_second(Field.SM_ACTIVE, 0.0, 4)]
    row = row_of(charge([state(LAYOUT, [Holder("x", 0)], [X])], [Calls([X]).batch()], idle), "x")
    assert (row["held_idle_ns"], row["sm_active"]) == (10 * S, 0.0)
    assert not row["flags"] & Flag.SIGNALS_DISAGREE


def test_an_mps_device_whose_sm_active_is_stuck_is_unobserved():
    """dcgm-exporter#662: SM active is declared to be A here, and is 0 beside a client at work: A is
    missing, never another quantity. The holder of half pays his half, 5 s of 10, as unobserved."""
    layout = NodeLayout(devices=[gpu(sharing="mps", replicas=2, sm_active_declared=True)])
    calls = Calls([X]).busy(0, 9)
    charges = charge(
        [state(layout, [Holder("x", 0)], [X])], [calls.batch()], [every_second(Field.SM_ACTIVE, 0.0)]
    )
    assert row_of(charges, "x", reason="no_sample")["unobserved_ns"] == 5 * S
    assert row_of(charges, "x", reason="no_sample")["flags"] & Flag.SIGNALS_DISAGREE


def test_a_series_that_vanishes_is_a_gap_and_not_an_idle_device():
    """dcgm-exporter#700: N/A makes the series vanish. The engine is seen 0-6 s at 0.5; nobody's calls are.
    The other 4 s are unobserved, not idle: used 3 s, held idle 3 s, unobserved 4 s."""
    seen = samples([(Field.ENGINE_ACTIVE, i, 1, 0.5) for i in range(6)], 1)
    charges = charge([state(LAYOUT, [Holder("x", 0)], unwitnessed=[1])], [], [seen])
    assert (row_of(charges, "x")["used_ns"], row_of(charges, "x")["held_idle_ns"]) == (3 * S, 3 * S)
    assert row_of(charges, "x", reason="no_sample")["unobserved_ns"] == 4 * S


def test_framebuffer_and_utilisation_that_mig_does_not_have_are_unknown():
    """dcgm-exporter#512, #216, #105: no FB_USED and no GPU_UTIL on an instance: not 0 bytes, not idle."""
    where = NodeLayout(
        devices=[
            gpu(sharing="mig", slices_total=7),
            Device("MIG-1", parent_uuid="GPU-0", gpu_instance=1, slices=7, slices_total=7, model="H100"),
        ]
    )
    calls = Calls([X], ["MIG-1"]).busy(0, 6)
    active = every_second(Field.SM_ACTIVE, 0.5, device="MIG-1")
    row = row_of(
        charge([state(where, [Holder("x", 1)], [X])], [calls.batch()], [active]), "x", device="MIG-1"
    )
    assert row["used_ns"] == 6 * S
    assert row["framebuffer_used_bytes"] != row["framebuffer_used_bytes"]


@pytest.mark.parametrize("blank", [2147483632 / 100, 4294967295.0, 140737488355328.0, 371.0])
def test_a_blank_of_a_process_is_missing(blank):
    """DCGM#83 (INT32_BLANK as 2147483632 %), DCGM#199, DCGM#202: the value is left aside, the calls
    decide."""
    measured = [every_second(Field.PROCESS_SM_UTILIZATION, blank, 3, [X], 0)]
    charges = charge([state(LAYOUT, [Holder("x", 0)], [X])], [Calls([X]).busy(0, 4).batch()], measured)
    assert (row_of(charges, "x")["used_ns"], row_of(charges, "x")["evidence"]) == (4 * S, "busy_estimated")


def test_a_hundred_copies_of_a_process_sample_are_one():
    """nvtop#110: the first call with time 0 gives a hundred duplicates. 0.7 and 0.3 of a device that both
    want all the time, however often it is said."""
    calls = Calls(PODS[:2]).busy(0, 10).busy(0, 10, process=1)
    measured = [every_second(Field.ENGINE_ACTIVE, 1.0, 2)]
    for number in range(100):
        for who, value in ((0, 0.7), (1, 0.3)):
            sequence = 3 + 2 * number + who
            measured.append(every_second(Field.PROCESS_SM_UTILIZATION, value, sequence, PODS, who))
    held = [Holder("a", 0), Holder("b", 0)]
    charges = charge([state(SHARED, held, PODS[:2])], [calls.batch()], measured)
    assert (row_of(charges, "a")["used_ns"], row_of(charges, "b")["used_ns"]) == (7 * S, 3 * S)


def test_two_sources_of_one_value_are_not_added():
    """dcgm-exporter PR#594: a line of the device and lines of its pods carry the same value; what comes
    twice, by whichever way, is one: 0.5 is 5 s."""
    twice = [every_second(Field.ENGINE_ACTIVE, 0.5, 3 + i, source=SampleSource.DCGM_EXPORTER) for i in (0, 1)]
    charges = charge([state(LAYOUT, [Holder("x", 0)], [X])], [Calls([X]).busy(0, 10).batch()], twice)
    assert row_of(charges, "x")["used_ns"] == 5 * S


def test_a_pod_that_is_completed_and_still_listed_holds_nothing():
    """kubernetes#119423, #132020: the kubelet lists a finished Job's pod: the GPU is free, 10 s."""
    pods = [Pod("x", "ns", "job", "Succeeded")]
    charges = charge([state(LAYOUT, [Holder("x", 0)], pods=pods)], [Calls([]).batch()])
    assert keys(charges) == {("GPU-0", "", "free")}


def test_a_core_limit_that_is_exceeded_is_no_more_than_the_device():
    """HAMi#555: more than 100 %. Two shares of 80 % are at work all the time: 8/16 of 10 s each, flagged
    as booked beyond the device."""
    part = NodeLayout(devices=[gpu(sharing="fractional")])
    held = [Holder(uid, 0, share_numerator=4, share_denominator=5) for uid in "ab"]
    calls = Calls(PODS[:2]).busy(0, 10).busy(0, 10, process=1)
    charges = charge([state(part, held, PODS[:2])], [calls.batch()])
    for uid in "ab":
        assert row_of(charges, uid)["used_ns"] == pytest.approx(5 * S, abs=10)
        assert row_of(charges, uid)["flags"] & Flag.OVERBOOKED


def test_a_process_from_before_the_agent_counts_from_the_keyframe():
    """datadog-agent#33626: training ran before the agent began; the keyframe says that it had work
    outstanding, its first call of the window is the wait that ends it at 7 s."""
    keyframe = state(LAYOUT, [Holder("x", 0)], [X], outstanding=[(0, 0)])
    calls = Calls([X]).call(Operation.SYNCHRONIZE_STREAM, 7, 7)
    assert row_of(charge([keyframe], [calls.batch()]), "x")["used_ns"] == 7 * S


def test_a_price_is_an_hours_and_not_a_windows():
    """opencost#2029: $12.29 an hour is 0.0341 for 10 s; 360 windows of an hour are $12.29."""
    windows = []
    for start in range(START, START + 3600 * S, WINDOW):
        keyframe = state(LAYOUT, [Holder("x", 0)], start=start)
        windows.append(window([keyframe], [Calls([]).batch(start=start)], start=start))
    charges = charge_windows(windows, prices(), Teams())
    assert sum(row.total_nano for one in charges for row in one.rows()) == DOLLARS_12_29


def test_a_pod_that_ran_twice_is_charged_for_the_time_that_it_ran():
    """A pod held a GPU for 50 s, then again for 30 s after a pause of 20 s: 80 s, not 100 (300 + 180
    minutes, not 600)."""
    total = {"x": 0, "": 0}
    for number in range(10):
        start = START + number * WINDOW
        held = [] if number in (5, 6) else [Holder("x", 0)]
        for row in charge(
            [state(LAYOUT, held, start=start)], [Calls([]).batch(start=start)], start=start
        ).rows():
            total[row["consumer"]] += row.total_ns
    assert total == {"x": 80 * S, "": 20 * S}


def test_idle_is_never_negative_and_nothing_is_clamped_away():
    """opencost#3359, #3387: used above what was asked for gives negative idle there. 1 of 4 slots used 0.9
    of the time: used 9 s, its own idle 0, the rest 1 s is the pool's 3 slots."""
    charges = charge([state(SHARED, [Holder("a", 0)], PODS[:1])], [Calls(PODS[:1]).busy(0, 9).batch()])
    assert (row_of(charges, "a")["used_ns"], row_of(charges, "a")["held_idle_ns"]) == (9 * S, 0)
    assert row_of(charges, reason="free")["unallocated_ns"] == 1 * S


def test_a_node_without_any_gpu_pod_is_all_the_pools():
    """opencost PR#883: 2 GPUs of a node at $24.58 that nobody uses: $24.58 an hour are unallocated."""
    two = NodeLayout(devices=[gpu(0), gpu(1)])
    charges = charge([state(two)], [Calls([]).batch()])
    assert keys(charges) == {("GPU-0", "", "free"), ("GPU-1", "", "free")}
    assert sum(row["unallocated_nano"] for row in charges.rows()) == 2 * RATE_10S


def test_the_parts_of_a_node_sum_to_the_nodes_price():
    """opencost#2657: a node at $10 an hour, 70 % of it its GPUs', three of them: 10 s are 27 777 777.8
    nano in all, of which the GPUs have 19 444 444 and the rest of the node the remainder."""
    book = prices(
        PriceEntry("n", "node", 10_000_000_000, "USD", instance_type="big", gpu_share_ppb=700_000_000)
    )
    layout = NodeLayout(instance_type="big", devices=[gpu(i) for i in range(3)])
    rows = list(charge([state(layout)], [Calls([]).batch()], book=book).rows())
    assert sum(row.total_nano for row in rows) in (27_777_777, 27_777_778)
    non_gpu = [row for row in rows if row["reason"] == "non_gpu"]
    assert [row.total_nano for row in non_gpu] == [pytest.approx(8_333_333, abs=1)]


def test_a_spot_price_that_comes_late_restates_the_window():
    """opencost#3725, #882: charged at the on-demand $12.29 first; the spot price, $3.60, arrives and a
    generation computes the window again with it: 3.6e9 x 10 / 3600 = 10 000 000 nano."""
    demand = PriceEntry("demand", "gpu", DOLLARS_12_29, "USD")
    spot = PriceEntry("spot", "gpu", 3_600_000_000, "USD", capacity_type="spot")
    book = Prices(
        [PriceBookVersion(1, 0, entries=[demand]), PriceBookVersion(2, START + WINDOW, entries=[spot])]
    )
    where = replace(LAYOUT, capacity_type="spot")
    first, again = (
        charge([state(where, [Holder("x", 0)])], [Calls([]).batch()], book=book, price_version=version)
        for version in (None, 2)
    )
    assert row_of(first, "x").total_nano == RATE_10S
    assert (row_of(again, "x").total_nano, row_of(again, "x")["price_ids"]) == (10_000_000, "spot")


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (Pod("web", "ns", "web", "Running", workload_kind="Deployment"), "kept_by_cpu_pods"),
        (Pod("log", "ns", "log", "Running", workload_kind="DaemonSet"), "free"),
        (Pod("old", "ns", "old", "Succeeded", workload_kind="Job"), "free"),
    ],
)
def test_a_gpu_node_that_a_cpu_pod_keeps_alive_says_so(pod, reason):
    """karpenter#8447: nobody holds a GPU; a pod without any keeps the node: all of its 34138889 nano is
    unallocated with that reason. A DaemonSet's or a finished pod keeps none."""
    charges = charge([state(LAYOUT, pods=[pod])], [Calls([]).batch()])
    assert row_of(charges, reason=reason)["unallocated_nano"] == RATE_10S
