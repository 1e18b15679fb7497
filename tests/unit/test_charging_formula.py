"""The worked examples of the charging rules, with values by hand.

Prices are $12.29 a GPU-hour: 10 s cost 12.29e9 * 10 / 3600 = 34 138 888.9 nano, which the floors of cum make
34 138 888 or ..889 depending on where the window lies; the window of these tests costs 34 138 889.
"""

from __future__ import annotations

import pytest

from gpuledger.attribution import charge_window
from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.formula import Category, pay
from gpuledger.attribution.holding import Entitlement, Holding
from gpuledger.contract.fields import Field
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
    """opencost#3900; CHARGING, Shown: 1 of 4 slots used 0.9 pays 90 %, the three idle holders 1/3 of the
    remaining 10 %."""
    p = pod_process(1, "p")
    held = [Holder(uid, 0) for uid in ("p", "q", "r", "s")]
    charges = charge([state(SHARED, held, [p])], [Calls([p]).busy(0, 9).batch()])
    assert row_of(charges, "p")["used_ns"] == 9 * S
    assert row_of(charges, "p")["held_idle_ns"] == 0
    assert row_of(charges, "p")["borrowed_ns"] == 6_500_000_000
    assert [row_of(charges, uid)["held_idle_ns"] for uid in "qrs"] == [333_333_334, 333_333_333, 333_333_333]


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


def test_parts_are_in_the_order_of_the_rows_so_that_ties_fall_the_same_way():
    """Used of b and held idle of a tie for the last nano: a's row comes first."""
    a, b = ConsumerKey("pod", "a"), ConsumerKey("pod", "b")
    weighted = pay(2, 1, {b: 1}, Holding((Entitlement(a, 1, (("", 1),)),), 1))
    assert [(part.consumer, part.category) for part in weighted.parts] == [
        (a, Category.HELD_IDLE),
        (b, Category.USED),
    ]
    assert weighted.divide(3) == [2, 1]
