"""The worked examples of the charging rules, with values by hand.

Prices are $12.29 a GPU-hour: 10 s cost 12.29e9 * 10 / 3600 = 34 138 888.9 nano, which the floors of cum make
34 138 888 or ..889 depending on where the window lies; the window of these tests costs 34 138 889.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuledger.attribution import charge_window
from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.formula import Category, pay
from gpuledger.attribution.holding import Entitlement, Holding
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Holder, NodeLayout, Pod
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Teams
from tests.support.charging import (
    RATE_10S,
    Calls,
    S,
    gpu,
    host_process,
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
EMPTY = Calls([])


def charge(*args, **more):
    charges = charge_window(window(*args, **more), prices(), Teams())
    assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0)
    return charges


def test_a_holder_pays_for_what_he_used_and_for_what_he_let_lie():
    """Busy 3 s of 10: used 3/10 and held idle 7/10 of 34 138 889."""
    x = pod_process(1, "x")
    charges = charge([state(LAYOUT, [Holder("x", 0)], [x])], [Calls([x]).busy(1, 4).batch()])
    row = row_of(charges, "x")
    assert (row["used_ns"], row["held_idle_ns"]) == (3 * S, 7 * S)
    assert (row["used_nano"], row["held_idle_nano"]) == (10_241_667, 23_897_222)
    assert row["evidence"] == "busy_estimated"
    assert keys(charges) == {("GPU-0", "x", "none")}


def test_who_holds_alone_is_busy_and_leaves_pays_his_half_only():
    """X holds 0-5 s, is busy all that time, then leaves: half used, half unallocated; at the hour's rate
    $6.15 and $6.15, not a quarter of everything."""
    x = pod_process(1, "x")
    charges = charge(
        [state(LAYOUT, [Holder("x", 0)], [x]), state(LAYOUT, at_s=5, sequence=2)],
        [Calls([x]).busy(0, 5).batch()],
    )
    assert row_of(charges, "x")["used_ns"] == 5 * S
    assert row_of(charges, "x")["held_idle_ns"] == 0
    free = row_of(charges, reason="free")
    assert free["unallocated_ns"] == 5 * S
    assert row_of(charges, "x")["used_nano"] + free["unallocated_nano"] == RATE_10S
    assert row_of(charges, "x")["used_nano"] == pytest.approx(RATE_10S / 2, abs=1)


def test_a_sample_across_pieces_is_laid_where_the_work_was():
    """One 10 s sample says the engine was active half the time; the calls say it was 0-5 s, when X held."""
    x = pod_process(1, "x")
    charges = charge(
        [state(LAYOUT, [Holder("x", 0)], [x]), state(LAYOUT, at_s=5, sequence=2)],
        [Calls([x]).busy(0, 5).batch()],
        [samples([(Field.ENGINE_ACTIVE, 0, 10, 0.5)], sequence=3)],
    )
    assert row_of(charges, "x")["used_ns"] == 5 * S
    assert row_of(charges, reason="free")["unallocated_ns"] == 5 * S


def test_time_slices_held_are_the_entitlement_and_the_rest_is_the_pools():
    """A holds 2 of 4 slots and is busy 2 s, B holds 1 and is idle. Idle is 8 s; it goes in the proportion
    max(0, .5 - .2) : .25 : .25 to A, B and the pool: 3, 2.5 and 2.5 s."""
    a = pod_process(1, "a")
    charges = charge(
        [state(SHARED, [Holder("a", 0, slots=2), Holder("b", 0)], [a])], [Calls([a]).busy(0, 2).batch()]
    )
    assert (row_of(charges, "a")["used_ns"], row_of(charges, "a")["held_idle_ns"]) == (2 * S, 3 * S)
    assert row_of(charges, "b")["held_idle_ns"] == 2_500_000_000
    assert row_of(charges, reason="free")["unallocated_ns"] == 2_500_000_000
    assert row_of(charges, "a")["entitlement"] == 0.5


def test_slots_of_several_containers_of_a_pod_add_up_and_its_containers_share_its_money():
    """One pod, containers m with 2 slots and s with 1 of 4: entitled to 3/4; idle 10 s in the proportion 3:1
    to pod and pool, and the pod's 7.5 s in the proportion 2:1 to its containers."""
    held = [Holder("a", 0, container="m", slots=2), Holder("a", 0, container="s")]
    charges = charge([state(SHARED, held)], [EMPTY.batch()])
    idle = {row["container"]: row["held_idle_ns"] for row in charges.rows() if row["consumer"] == "a"}
    assert idle == {"m": 5 * S, "s": 2_500_000_000}
    assert row_of(charges, reason="free")["unallocated_ns"] == 2_500_000_000


def test_a_burster_relieves_the_holder_who_lends():
    """CHARGING, Shown: 1 of 4 slots used 0.9 pays 90 %, the three idle holders 1/3 of the remaining 10 %."""
    p = pod_process(1, "p")
    held = [Holder(uid, 0) for uid in ("p", "q", "r", "s")]
    charges = charge([state(SHARED, held, [p])], [Calls([p]).busy(0, 9).batch()])
    assert row_of(charges, "p")["used_ns"] == 9 * S
    assert row_of(charges, "p")["held_idle_ns"] == 0
    assert row_of(charges, "p")["borrowed_ns"] == 6_500_000_000
    assert [row_of(charges, uid)["held_idle_ns"] for uid in "qrs"] == [333_333_334, 333_333_333, 333_333_333]


def test_processes_that_want_the_device_at_once_share_it():
    """A has work outstanding 0-6 s, B 2-4 s: A gets 2 + 1 + 2 = 5 s, B 1 s."""
    a, b = pod_process(1, "a"), pod_process(2, "b")
    calls = Calls([a, b]).busy(0, 6).busy(2, 4, process=1)
    charges = charge([state(SHARED, [Holder("a", 0), Holder("b", 0)], [a, b])], [calls.batch()])
    assert row_of(charges, "a")["used_ns"] == 5 * S
    assert row_of(charges, "b")["used_ns"] == 1 * S


def test_a_device_that_nobody_holds_is_the_pools():
    charges = charge([state(LAYOUT)], [EMPTY.batch()])
    assert row_of(charges, reason="free")["unallocated_nano"] == RATE_10S
    assert len(list(charges.rows())) == 1


def test_a_host_process_on_a_free_device_pays_what_it_used_and_is_off_the_books():
    h = host_process(7)
    charges = charge([state(LAYOUT, [], [h])], [Calls([h]).busy(0, 4).batch()])
    row = row_of(charges, "7:1")
    assert (row["used_ns"], row["held_idle_ns"], row["borrowed_ns"]) == (4 * S, 0, 4 * S)
    assert row["flags"] & Flag.OFF_THE_BOOKS
    assert not row["flags"] & Flag.INTRUDER
    assert row["team"] == "(host)"
    assert row_of(charges, reason="free")["unallocated_ns"] == 6 * S


def test_an_intruder_on_a_held_device_is_flagged_on_both_rows():
    """The holder is busy 2 s, an unbooked process 3 s: idle 5 s is all the holder's."""
    x, h = pod_process(1, "x"), host_process(7)
    calls = Calls([x, h]).busy(0, 2).busy(4, 7, process=1)
    charges = charge([state(LAYOUT, [Holder("x", 0)], [x, h])], [calls.batch()])
    holder, intruder = row_of(charges, "x"), row_of(charges, "7:1")
    assert (holder["used_ns"], holder["held_idle_ns"]) == (2 * S, 5 * S)
    assert intruder["used_ns"] == 3 * S
    assert intruder["flags"] & (Flag.INTRUDER | Flag.OFF_THE_BOOKS) == Flag.INTRUDER | Flag.OFF_THE_BOOKS
    assert holder["flags"] & Flag.INTRUDER
    assert not holder["flags"] & Flag.OFF_THE_BOOKS


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


def test_a_lost_device_is_the_pools_whoever_held_it():
    lost = NodeLayout(devices=[gpu(lost=True)])
    charges = charge([state(lost, [Holder("x", 0)])], [EMPTY.batch()])
    assert row_of(charges, reason="device_lost")["unallocated_nano"] == RATE_10S


def test_a_device_that_is_no_longer_listed_is_still_paid_for():
    charges = charge([state(NodeLayout(gpu_count=2, devices=[gpu()]))], [EMPTY.batch()])
    assert row_of(charges, device="-", reason="device_lost")["unallocated_nano"] == RATE_10S


def test_a_finished_pod_holds_nothing_and_a_pending_one_does():
    pods = [Pod("done", "ns", "d", "Succeeded"), Pod("wait", "ns", "w", "Pending")]
    held = [Holder("done", 0), Holder("wait", 0)]
    charges = charge([state(LAYOUT, held, pods=pods)], [EMPTY.batch()])
    assert keys(charges) == {("GPU-0", "wait", "none")}
    assert row_of(charges, "wait")["held_idle_nano"] == RATE_10S


def test_two_holders_of_an_exclusive_device_share_a_claim_in_equal_parts():
    charges = charge([state(LAYOUT, [Holder("a", 0), Holder("b", 0)])], [EMPTY.batch()])
    assert row_of(charges, "a")["held_idle_ns"] == row_of(charges, "b")["held_idle_ns"] == 5 * S
    assert not row_of(charges, "a")["flags"] & Flag.OVERBOOKED


def test_slots_above_what_the_device_has_are_divided_by_their_sum_and_flagged():
    """3 and 2 of 4 slots: 3/5 and 2/5."""
    charges = charge([state(SHARED, [Holder("a", 0, slots=3), Holder("b", 0, slots=2)])], [EMPTY.batch()])
    assert row_of(charges, "a")["held_idle_ns"] == 6 * S
    assert row_of(charges, "b")["held_idle_ns"] == 4 * S
    assert row_of(charges, "a")["flags"] & Flag.OVERBOOKED


def test_a_stated_share_counts_as_stated():
    part = NodeLayout(devices=[gpu(sharing="fractional", replicas=1)])
    held = [Holder("a", 0, share_numerator=3, share_denominator=10)]
    charges = charge([state(part, held)], [EMPTY.batch()])
    assert row_of(charges, "a")["held_idle_ns"] == 3 * S
    assert row_of(charges, reason="free")["unallocated_ns"] == 7 * S


def test_holders_that_nobody_can_name_leave_all_but_the_used_time_unobserved():
    x = pod_process(1, "x")
    charges = charge(
        [state(LAYOUT, [], [x], holders_known=False, pods=[Pod("x", "ns", "x")])],
        [Calls([x]).busy(0, 4).batch()],
    )
    assert row_of(charges, "x")["used_ns"] == 4 * S
    assert row_of(charges, reason="holders_unknown")["unobserved_ns"] == 6 * S


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


def test_parts_are_in_the_order_of_the_rows_so_that_ties_fall_the_same_way():
    """Used of b and held idle of a tie for the last nano: a's row comes first."""
    a, b = ConsumerKey("pod", "a"), ConsumerKey("pod", "b")
    weighted = pay(2, 1, {b: 1}, Holding((Entitlement(a, 1, (("", 1),)),), 1))
    assert [(part.consumer, part.category) for part in weighted.parts] == [
        (a, Category.HELD_IDLE),
        (b, Category.USED),
    ]
    assert weighted.divide(3) == [2, 1]


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
    """SM and engine active above 1 were seen on MIG devices: the device was busy all the time, no more."""
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
