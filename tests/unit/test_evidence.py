"""Who kept a device busy and how that is known, with values by hand.

Prices are those of test_charging_formula.py: 10 s cost 34 138 889 nano.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Holder, NodeLayout
from gpuledger.contract.rows import Flag
from tests.support.charging import (
    RATE_10S,
    Calls,
    S,
    charge,
    gpu,
    pod_process,
    row_of,
    samples,
    state,
)

LAYOUT = NodeLayout(devices=[gpu()])
SHARED = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=4)])
EMPTY = Calls([])


def test_processes_that_want_the_device_at_once_share_it():
    """A has work outstanding 0-6 s, B 2-4 s: A gets 2 + 1 + 2 = 5 s, B 1 s."""
    a, b = pod_process(1, "a"), pod_process(2, "b")
    calls = Calls([a, b]).busy(0, 6).busy(2, 4, process=1)
    charges = charge([state(SHARED, [Holder("a", 0), Holder("b", 0)], [a, b])], [calls.batch()])
    assert row_of(charges, "a")["used_ns"] == 5 * S
    assert row_of(charges, "b")["used_ns"] == 1 * S


def test_what_the_device_shows_and_nobody_explains_is_unobserved():
    """Engine active 0.5 of 10 s, the only process explains 3 s: 2 s are the pool's, unexplained."""
    x = pod_process(1, "x")
    charges = charge(
        [state(LAYOUT, [Holder("x", 0)], [x])],
        [Calls([x]).busy(0, 3).batch()],
        [samples([(Field.ENGINE_ACTIVE, i, 1, 0.5) for i in range(10)])],
    )
    assert row_of(charges, "x")["used_ns"] == 3 * S
    assert row_of(charges, "x")["held_idle_ns"] == 5 * S
    assert row_of(charges, reason="unexplained")["unobserved_ns"] == 2 * S


def test_shares_above_what_the_device_shows_are_scaled_down():
    """Outstanding 4 s and 4 s apart, engine active 0.6: 3 s each, flagged."""
    a, b = pod_process(1, "a"), pod_process(2, "b")
    calls = Calls([a, b]).busy(0, 4).busy(5, 9, process=1)
    charges = charge(
        [state(SHARED, [Holder("a", 0), Holder("b", 0)], [a, b])],
        [calls.batch()],
        [samples([(Field.ENGINE_ACTIVE, 0, 10, 0.6)])],
    )
    for uid in ("a", "b"):
        assert row_of(charges, uid)["used_ns"] == 3 * S
        assert row_of(charges, uid)["busy_ns"] == 4 * S
        assert row_of(charges, uid)["flags"] & Flag.SCALED_DOWN


def test_time_without_a_sample_and_without_a_witness_is_unobserved():
    """GPU_UTIL covers 0-6 s; contexts are not witnessed; A of the last 4 s is missing: the holder of 1 of 4
    slots pays a quarter of it as unobserved, the pool three as unallocated."""
    charges = charge(
        [state(SHARED, [Holder("a", 0)], unwitnessed=[1])],
        [],
        [samples([(Field.GPU_UTILIZATION, i, 1, 0.0) for i in range(6)], sequence=1)],
    )
    assert row_of(charges, "a", reason="no_sample")["unobserved_ns"] == 1 * S
    assert row_of(charges, reason="free")["unallocated_ns"] == 4_500_000_000 + 3 * S
    assert row_of(charges, "a")["held_idle_ns"] == 1_500_000_000


def test_gpu_util_is_the_last_resort_and_flagged():
    """Nobody's calls are seen: the one holder gets what the device shows, by his slots."""
    charges = charge(
        [state(LAYOUT, [Holder("x", 0)], unwitnessed=[1])],
        [],
        [samples([(Field.GPU_UTILIZATION, 0, 10, 0.25)], sequence=1)],
    )
    row = row_of(charges, "x")
    assert row["used_ns"] == 2_500_000_000
    assert row["flags"] & Flag.GPU_UTILIZATION_USED
    assert row["evidence"] == "equal_slots"
    assert (row["confidence_low_ns"], row["confidence_high_ns"]) == (0, 10 * S)


def test_a_profiling_zero_beside_outstanding_work_is_missing_not_zero():
    x = pod_process(1, "x")
    charges = charge(
        [state(LAYOUT, [Holder("x", 0)], [x])],
        [Calls([x]).busy(0, 4).batch()],
        [samples([(Field.ENGINE_ACTIVE, 0, 10, 0.0)])],
    )
    assert row_of(charges, "x")["used_ns"] == 4 * S


def test_measured_shares_are_used_where_they_agree_with_the_device():
    """Both always want the device, which the kernel's view would halve; NVML measured 0.7 and 0.3."""
    a, b = pod_process(1, "a"), pod_process(2, "b")
    calls = Calls([a, b]).busy(0, 10).busy(0, 10, process=1)
    measured = [
        samples([(Field.PROCESS_SM_UTILIZATION, i, 1, 0.7) for i in range(10)], 3, [a, b], 0),
        samples([(Field.PROCESS_SM_UTILIZATION, i, 1, 0.3) for i in range(10)], 4, [a, b], 1),
        samples([(Field.ENGINE_ACTIVE, i, 1, 1.0) for i in range(10)], 5),
    ]
    charges = charge([state(SHARED, [Holder("a", 0), Holder("b", 0)], [a, b])], [calls.batch()], measured)
    assert row_of(charges, "a")["used_ns"] == 7 * S
    assert row_of(charges, "b")["used_ns"] == 3 * S
    assert row_of(charges, "a")["evidence"] == "process_measured"
    assert row_of(charges, "a")["confidence_low_ns"] <= 5 * S


@pytest.mark.parametrize("value", [37.1, 0.9], ids=["absurd", "busier than its outstanding work"])
def test_implausible_measured_shares_are_left_aside(value):
    x = pod_process(1, "x")
    measured = [
        samples([(Field.PROCESS_SM_UTILIZATION, i, 1, value) for i in range(10)], 3, [x], 0),
        samples([(Field.ENGINE_ACTIVE, i, 1, 0.9) for i in range(10)], 4),
    ]
    charges = charge([state(LAYOUT, [Holder("x", 0)], [x])], [Calls([x]).busy(0, 3).batch()], measured)
    assert row_of(charges, "x")["used_ns"] == 3 * S
    assert row_of(charges, "x")["evidence"] == "busy_estimated"


def test_whose_ends_were_not_seen_gets_what_the_others_leave():
    """A waits for its work, 5 s of it. B launches once and never synchronises; the engine was active 0.55 of
    the time, so that at least 0.5 s were B's. That is all that it did in the 5 s in which A was idle, a tenth
    of them; with a tenth of A's 5 s as well B had at most 1 s. The mean is 0.75 s, and A had 4.75 s. Without
    the device's total both would be taken to share."""
    a, b = pod_process(1, "a"), pod_process(2, "b")
    calls = Calls([a, b]).busy(0, 5).call(Operation.LAUNCH_KERNEL, 0, process=1)
    held = [state(SHARED, [Holder("a", 0), Holder("b", 0)], [a, b])]
    total = [samples([(Field.ENGINE_ACTIVE, i, 1, 0.55) for i in range(10)])]
    charges = charge(held, [calls.batch()], total)
    assert row_of(charges, "a")["used_ns"] == 4_750_000_000
    assert row_of(charges, "b")["used_ns"] == 750_000_000
    assert row_of(charges, "b")["confidence_low_ns"] <= 500_000_000
    assert row_of(charges, "b")["confidence_high_ns"] >= 1 * S
    assert row_of(charges, "b")["flags"] & Flag.UNWITNESSED
    alone = charge(held, [calls.batch()])
    assert row_of(alone, "b")["used_ns"] == 7_500_000_000
    assert row_of(alone, "b")["confidence_low_ns"] == 0
    assert row_of(alone, "a")["confidence_high_ns"] == 5 * S


def test_an_unwitnessed_process_is_given_what_the_device_shows():
    x = replace(pod_process(1, "x"), witnessed=False)
    charges = charge(
        [state(LAYOUT, [Holder("x", 0)], [x], resident=[(0, 0, 1 << 30)], unwitnessed=[1])],
        [],
        [samples([(Field.ENGINE_ACTIVE, 0, 10, 0.4)], sequence=1)],
    )
    assert row_of(charges, "x")["used_ns"] == 4 * S
    assert row_of(charges, "x")["evidence"] == "equal_active"


def test_sm_active_stands_beside_the_money():
    """Used 4 s of 10 at SM active 0.3 of the window: 3 s of the device's time did work."""
    x = pod_process(1, "x")
    charges = charge(
        [state(LAYOUT, [Holder("x", 0)], [x])],
        [Calls([x]).busy(0, 4).batch()],
        [samples([(Field.SM_ACTIVE, 0, 10, 0.3), (Field.ENERGY_JOULES, 0, 10, 900.0)])],
    )
    row = row_of(charges, "x")
    assert row["sm_active"] == pytest.approx(0.3)
    assert row["effectively_used_ns"] == 3 * S
    assert row["effectively_used_nano"] == pytest.approx(RATE_10S * 0.3, abs=1)
    assert row["energy_joules"] == pytest.approx(900.0)


def test_sharers_do_not_get_the_devices_efficiency_as_their_own():
    a = pod_process(1, "a")
    charges = charge(
        [state(SHARED, [Holder("a", 0)], [a])],
        [Calls([a]).busy(0, 4).batch()],
        [samples([(Field.SM_ACTIVE, 0, 10, 0.3)])],
    )
    assert row_of(charges, "a")["effective_known"] == 0
    assert row_of(charges, "a")["sm_active"] == pytest.approx(0.3)


def test_effectively_used_is_at_most_used():
    x = pod_process(1, "x")
    charges = charge(
        [state(LAYOUT, [Holder("x", 0)], [x])],
        [Calls([x]).busy(0, 4).batch()],
        [samples([(Field.SM_ACTIVE, 0, 10, 0.6)])],
    )
    assert row_of(charges, "x")["effectively_used_ns"] == 4 * S


def test_what_a_sample_across_pieces_shows_beyond_the_explained_lies_evenly_over_the_room_left():
    """X holds 0-5 s and explains 2 s of the 5 s that a 10 s sample shows. The other 3 s lie over 8 s of room:
    1.125 s in X's piece, which leaves him 5 - 3.125 s idle, and 1.875 s after it."""
    x = pod_process(1, "x")
    charges = charge(
        [state(LAYOUT, [Holder("x", 0)], [x]), state(LAYOUT, at_s=5, sequence=2)],
        [Calls([x]).busy(0, 2).batch()],
        [samples([(Field.ENGINE_ACTIVE, 0, 10, 0.5)], sequence=3)],
    )
    assert (row_of(charges, "x")["used_ns"], row_of(charges, "x")["held_idle_ns"]) == (2 * S, 1_875_000_000)
    assert row_of(charges, reason="unexplained")["unobserved_ns"] == 3 * S
    assert row_of(charges, reason="free")["unallocated_ns"] == 3_125_000_000


def test_a_sample_that_comes_in_two_records_counts_once():
    a, b = pod_process(1, "a"), pod_process(2, "b")
    calls = Calls([a, b]).busy(0, 10).busy(0, 10, process=1)
    measured = [samples([(Field.ENGINE_ACTIVE, i, 1, 1.0) for i in range(10)], 9)]
    for sequence in (3, 4):
        for who, value in ((0, 0.7), (1, 0.3)):
            rows = [(Field.PROCESS_SM_UTILIZATION, i, 1, value) for i in range(10)]
            measured.append(samples(rows, 2 * sequence + who, [a, b], who))
    charges = charge([state(SHARED, [Holder("a", 0), Holder("b", 0)], [a, b])], [calls.batch()], measured)
    assert row_of(charges, "a")["used_ns"] == 7 * S


def test_of_two_sources_of_one_field_the_better_speaks_alone():
    x = pod_process(1, "x")
    sources = [
        samples([(Field.ENGINE_ACTIVE, i, 1, 0.2) for i in range(10)], 3, source=SampleSource.NVML),
        samples([(Field.ENGINE_ACTIVE, 0, 10, 0.6)], 4, source=SampleSource.GPM),
    ]
    charges = charge([state(LAYOUT, [Holder("x", 0)], [x])], [Calls([x]).busy(0, 8).batch()], sources)
    assert row_of(charges, "x")["used_ns"] == 6 * S


def test_a_measurement_that_missed_a_burst_is_left_aside():
    """X alone had work outstanding for 4 s, each burst seen to its end; NVML's samples fell between bursts
    and sum to 3 s. The device's own counter agrees within its tolerance, and the kernel is right."""
    x = pod_process(1, "x")
    measured = [
        samples([(Field.PROCESS_SM_UTILIZATION, i, 1, 0.3) for i in range(10)], 3, [x], 0),
        samples([(Field.ENGINE_ACTIVE, i, 1, 0.4) for i in range(10)], 4),
    ]
    charges = charge([state(LAYOUT, [Holder("x", 0)], [x])], [Calls([x]).busy(0, 4).batch()], measured)
    assert row_of(charges, "x")["used_ns"] == 4 * S
    assert row_of(charges, "x")["evidence"] == "busy_estimated"


def test_an_occupied_share_above_one_is_clamped_and_flagged():
    """DCGM#152: engine active 1.04 and SM active 1.2 on MIG. The device was busy all the 10 s, no more."""
    x = pod_process(1, "x")
    measured = [samples([(Field.ENGINE_ACTIVE, i, 1, 1.04) for i in range(10)], 3)]
    measured.append(samples([(Field.SM_ACTIVE, i, 1, 1.2) for i in range(10)], 4))
    charges = charge([state(LAYOUT, [Holder("x", 0)], [x])], [Calls([x]).busy(0, 10).batch()], measured)
    row = row_of(charges, "x")
    assert row["used_ns"] == 10 * S
    assert row["flags"] & Flag.OCCUPIED_CLAMPED
    assert row["sm_active"] == 1


@pytest.mark.parametrize("value", [2.01, 140737488355328.0, 4294967295.0])
def test_a_ratio_that_no_device_can_have_is_missing(value):
    """DCGM#199, DCGM#202, dcgm-exporter#418: a blank is no ratio; the calls decide, 4 s, and nothing is
    clamped."""
    x = pod_process(1, "x")
    measured = [samples([(Field.ENGINE_ACTIVE, i, 1, value) for i in range(10)], 3)]
    charges = charge([state(LAYOUT, [Holder("x", 0)], [x])], [Calls([x]).busy(0, 4).batch()], measured)
    row = row_of(charges, "x")
    assert (row["used_ns"], row["evidence"]) == (4 * S, "busy_estimated")
    assert not row["flags"] & Flag.OCCUPIED_CLAMPED


def test_samples_that_scatter_step_back_behind_an_estimate_that_is_not_in_doubt():
    """X is busy half of every second, seen from launch to synchronise. NVML's samples say 0.9 six times and 0
    four times: their mean, 0.54, may well be 0.28 or 0.8. The estimate, 0.5, is right."""
    x = pod_process(1, "x")
    calls = Calls([x])
    for second in range(10):
        calls.busy(second, second + 0.5)
    values = [0.9, 0.9, 0.0, 0.9, 0.0, 0.9, 0.9, 0.0, 0.9, 0.0]
    rows = [(Field.PROCESS_SM_UTILIZATION, i, 1, value) for i, value in enumerate(values)]
    measured = [samples(rows, 3, [x], 0), samples([(Field.ENGINE_ACTIVE, i, 1, 0.52) for i in range(10)], 4)]
    charges = charge([state(LAYOUT, [Holder("x", 0)], [x])], [calls.batch()], measured)
    row = row_of(charges, "x")
    assert row["evidence"] == "busy_estimated"
    assert row["used_ns"] == 5 * S
