"""MIG: which part of a GPU each instance costs, and what of it no instance can take."""

from __future__ import annotations

import pytest

from gpuledger.attribution import Policy, charge_window
from gpuledger.contract.fields import Field
from gpuledger.contract.records import Device, Holder, NodeLayout
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Teams
from tests.support.charging import (
    RATE_10S,
    Calls,
    S,
    gpu,
    pod_process,
    prices,
    row_of,
    samples,
    state,
    window,
)

GIB = 1 << 30
X = pod_process(1, "x")


def instance(number, profile, slices, memory_gib=0, compute=0, total=7, **more):
    return Device(
        f"MIG-{number}",
        parent_uuid="GPU-0",
        gpu_instance=number,
        compute_instance=compute,
        slices=slices,
        slices_total=total,
        model="H100",
        mig_profile=profile,
        memory_total_bytes=memory_gib * GIB,
        **more,
    )


def layout(*instances, memory_gib=80, total=7, **more):
    parent = gpu(sharing="mig", slices_total=total, memory_total_bytes=memory_gib * GIB, **more)
    return NodeLayout(devices=[parent, *instances])


def charge(*args, mig="slices", **more):
    charges = charge_window(window(*args, policy=Policy(mig=mig), **more), prices(), Teams())
    assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0)
    return charges


def parts(charges, whole):
    """Each device's or leftover's part of the GPU, in units of 1/whole."""
    found = {}
    for row in charges.rows():
        key = row["device"] if row["reason"] == "none" else row["reason"]
        found[key] = round(row.total_ns * whole / (10 * S), 6)
    return found


def held(where):
    """Every instance is held, so that what is free or stranded stands alone."""
    return state(where, [Holder(f"h{i}", i) for i in range(1, len(where.devices))])


def test_each_instance_costs_its_slices_and_the_rest_is_free():
    """datadog-agent#45266: 3g.40gb and 1g.10gb of an 80 GB H100: 3/7 and 1/7. Of the other 3 slices each
    finds memory, as 8 - 4 - 1 = 3 slices of it are left: all 3 are free."""
    where = layout(instance(1, "3g.40gb", 3, 40), instance(2, "1g.10gb", 1, 10))
    assert parts(charge([held(where)]), 7) == {"MIG-1": 3, "MIG-2": 1, "free": 3}


def test_slices_without_memory_are_stranded_and_name_who_took_it():
    """Two 3g.40gb take all 8 memory slices: the seventh SM slice is stranded by both."""
    where = layout(instance(1, "3g.40gb", 3, 40), instance(2, "3g.40gb", 3, 40))
    charges = charge([held(where)])
    assert parts(charges, 7) == {"MIG-1": 3, "MIG-2": 3, "stranded": 1}
    stranded = row_of(charges, reason="stranded")
    assert stranded["mig_profile"] == "3g.40gb#1+3g.40gb#2"
    assert stranded["unallocated_ns"] == stranded.total_ns


def test_only_those_with_more_memory_than_sms_strand_slices():
    """1g.20gb three times and 1g.10gb: memory 6 + 1 of 8, SMs 4 of 7. One more slice finds memory, two do
    not; 1g.10gb took a seventh of the SMs and an eighth of the memory, and strands nothing."""
    wide = [instance(i, "1g.20gb", 1, 20) for i in (1, 2, 3)]
    charges = charge([held(layout(*wide, instance(4, "1g.10gb", 1, 10)))])
    assert parts(charges, 7) == {"MIG-1": 1, "MIG-2": 1, "MIG-3": 1, "MIG-4": 1, "free": 1, "stranded": 2}
    assert row_of(charges, reason="stranded")["mig_profile"] == "1g.20gb#1+1g.20gb#2+1g.20gb#3"


H100_PLACES = {"slice_starts": 0b111_1111, "slice_size": 1}  # nvidia-smi mig -lgipp: {0,1,2,3,4,5,6}:1


def at(start, size):
    return {"placement_start": start, "placement_size": size}


def test_an_instance_in_an_unlucky_place_strands_a_slice():
    """3g.40gb at slot 0 lies on 0 to 3, and of 4 to 7 an instance can not begin in the last: three of the
    four SM slices that are left find a place. At slot 4 it lies on 4 to 7, and all four do."""
    unlucky = charge([held(layout(instance(1, "3g.40gb", 3, 40, **at(0, 4)), **H100_PLACES))])
    assert parts(unlucky, 7) == {"MIG-1": 3, "free": 3, "stranded": 1}
    assert row_of(unlucky, reason="stranded")["mig_profile"] == "3g.40gb#1"
    lucky = charge([held(layout(instance(1, "3g.40gb", 3, 40, **at(4, 4)), **H100_PLACES))])
    assert parts(lucky, 7) == {"MIG-1": 3, "free": 4}


def test_of_two_halves_the_one_that_strands_the_slice_is_named():
    halves = [instance(1, "3g.40gb", 3, 40, **at(0, 4)), instance(2, "3g.40gb", 3, 40, **at(4, 4))]
    charges = charge([held(layout(*halves, **H100_PLACES))])
    assert parts(charges, 7) == {"MIG-1": 3, "MIG-2": 3, "stranded": 1}
    assert row_of(charges, reason="stranded")["mig_profile"] == "3g.40gb#1"


def test_a_wide_instance_strands_a_slice_but_at_the_end_of_the_gpu():
    """1g.20gb takes two slots: at 6 the second is one in which nothing could begin anyway."""
    for start, stranded in ((0, 1), (6, 0)):
        where = layout(instance(1, "1g.20gb", 1, 20, **at(start, 2)), **H100_PLACES)
        left = {"free": 6 - stranded} | ({"stranded": stranded} if stranded else {})
        assert parts(charge([held(where)]), 7) == {"MIG-1": 1} | left


def test_slots_are_the_drivers_and_need_not_be_slices():
    """An RTX PRO 6000 has 4 slices on 12 slots, one slice at {0,3,6,9}:3. 2g.48gb at 6 blocks two of the four
    places; an instance at 4, where no driver puts one, would block two with a single slice."""
    places = {"slice_starts": 0b10_0100_1001, "slice_size": 3}
    where = layout(instance(1, "2g.48gb", 2, 48, total=4, **at(6, 6)), memory_gib=96, total=4, **places)
    assert parts(charge([held(where)]), 4) == {"MIG-1": 2, "free": 2}
    between = layout(instance(1, "1g.24gb", 1, 24, total=4, **at(4, 3)), memory_gib=96, total=4, **places)
    assert parts(charge([held(between)]), 4) == {"MIG-1": 1, "free": 2, "stranded": 1}


@pytest.mark.parametrize(
    "places",
    [
        [at(-1, 0), at(0, 4)],
        [at(0, 4), at(2, 4)],
        [at(0, 4), at(1 << 30, 1 << 30)],
    ],
    ids=["one is not known", "two overlap", "beyond any GPU"],
)
def test_places_that_are_not_known_or_make_no_sense_change_nothing(places):
    one, two = places
    told = [instance(1, "3g.40gb", 3, 40, **one), instance(2, "1g.10gb", 1, 10, **two)]
    assert parts(charge([held(layout(*told, **H100_PLACES))]), 7) == {"MIG-1": 3, "MIG-2": 1, "free": 3}
    known = [instance(1, "3g.40gb", 3, 40, **at(0, 4)), instance(2, "1g.10gb", 1, 10, **at(4, 1))]
    for unsaid in ({}, {"slice_starts": 0b111_1111, "slice_size": 1 << 30}):
        assert parts(charge([held(layout(*known, **unsaid))]), 7) == {"MIG-1": 3, "MIG-2": 1, "free": 3}


def test_dominant_units_follow_the_places_too():
    """3g.40gb weighs 28 of 56. At slot 0 three more slices find a place, 8 each: 24 are free, 4 stranded."""
    where = layout(instance(1, "3g.40gb", 3, 40, **at(0, 4)), **H100_PLACES)
    found = parts(charge([held(where)], mig="dominant"), 56)
    assert found == {"MIG-1": 28, "free": 24, "stranded": 4}


def test_the_dominant_part_of_an_instance_is_the_greater_of_sms_and_memory():
    """In 1/56: 3g.40gb max(3/7, 4/8) = 28, 1g.20gb max(1/7, 2/8) = 14, 1g.10gb max(1/7, 1/8) = 8. 6 are left;
    a slice and memory for it are there, which would weigh 8, so all 6 are free."""
    mixed = [instance(1, "3g.40gb", 3, 40), instance(2, "1g.20gb", 1, 20), instance(3, "1g.10gb", 1, 10)]
    charges = charge([held(layout(*mixed))], mig="dominant")
    assert parts(charges, 56) == {"MIG-1": 28, "MIG-2": 14, "MIG-3": 8, "free": 6}


def test_dominant_parts_above_the_whole_are_divided_by_their_sum():
    """4g.40gb is 4/7 = 32/56 and 3g.40gb 4/8 = 28/56: 60 in all, so 32/60 and 28/60."""
    where = layout(instance(1, "4g.40gb", 4, 40), instance(2, "3g.40gb", 3, 40))
    assert parts(charge([held(where)], mig="dominant"), 60) == {"MIG-1": 32, "MIG-2": 28}


def test_a_model_has_its_own_counts():
    """An A30 has 4 SM and 4 memory slices: 2g.12gb is a half, 1g.6gb a quarter, and a quarter is free."""
    a30 = [instance(1, "2g.12gb", 2, 12, total=4), instance(2, "1g.6gb", 1, 6, total=4)]
    for mig in ("slices", "dominant"):
        charges = charge([held(layout(*a30, memory_gib=24, total=4))], mig=mig)
        assert parts(charges, 4) == {"MIG-1": 2, "MIG-2": 1, "free": 1}


def test_compute_instances_share_their_gpu_instance_by_their_slices():
    """3g.40gb cut into 1c.3g and 1c.3g: 1/7 each; the third slice of the GPU instance is stranded by it, the
    other four slices are free (memory for them: 4)."""
    both = [instance(1, "1c.3g.40gb", 1, 40), instance(1, "1c.3g.40gb", 1, 40, compute=1)]
    both[1].uuid = "MIG-1b"
    charges = charge([held(layout(*both))])
    assert parts(charges, 7) == {"MIG-1": 1, "MIG-1b": 1, "free": 4, "stranded": 1}
    assert row_of(charges, reason="stranded")["mig_profile"] == "1c.3g.40gb#1"


def test_compute_instances_that_each_state_their_gpu_instances_slices_are_not_counted_twice():
    """Both say 3 slices, as the GPU instance has them; their profile says 1 and 2 of 3."""
    both = [instance(1, "1c.3g.40gb", 3, 40), instance(1, "2c.3g.40gb", 3, 40, compute=1)]
    both[1].uuid = "MIG-1b"
    assert parts(charge([held(layout(*both))]), 7) == {"MIG-1": 1, "MIG-1b": 2, "free": 4}
    dominant = charge([held(layout(*both))], mig="dominant")  # 28 of 56, in thirds
    assert parts(dominant, 56) == {"MIG-1": 9, "MIG-1b": 19, "free": 28}


def test_a_profile_that_is_called_differently_elsewhere_changes_nothing():
    """dcgm-exporter#544: an H100 NVL calls 1g.11gb what its resource calls mig-1g.12gb; slices are stated."""
    for profile in ("1g.11gb", "mig-1g.12gb"):
        where = layout(instance(1, profile, 1, 11), memory_gib=94)
        assert parts(charge([held(where)]), 7) == {"MIG-1": 1, "free": 6}


def test_a_gpu_that_is_cut_anew_inside_a_window_is_charged_by_both_layouts():
    """7g.80gb until 4 s, X's; then 3g.40gb, X's, and 4g.40gb, free: X holds idle 4 s + 6 s x 3/7, and
    6 s x 4/7 are nobody's."""
    before = layout(instance(0, "7g.80gb", 7, 80))
    after = layout(instance(1, "3g.40gb", 3, 40), instance(2, "4g.40gb", 4, 40))
    states = [state(before, [Holder("x", 1)]), state(after, [Holder("x", 1)], at_s=4, sequence=2)]
    charges = charge(states)
    assert row_of(charges, "x", device="MIG-0").total_ns == 4 * S
    assert row_of(charges, "x", device="MIG-1").total_ns == pytest.approx(6 * S * 3 / 7, abs=1)
    assert row_of(charges, reason="free", device="MIG-2").total_ns == pytest.approx(6 * S * 4 / 7, abs=1)
    assert sum(row.total_nano for row in charges.rows()) == RATE_10S


def test_work_before_and_after_a_new_layout_is_each_layouts_own():
    """X works 1-3 s on the whole GPU and 5-6 s on an instance of 3 slices: used 2 s, and 1 s x 3/7."""
    before, after = NodeLayout(devices=[gpu()]), layout(instance(1, "3g.40gb", 3, 40))
    states = [state(before, [Holder("x", 0)], [X]), state(after, [Holder("x", 1)], [X], at_s=4, sequence=2)]
    calls = Calls([X], ["GPU-0", "MIG-1"]).busy(1, 3).busy(5, 6, device=1)
    charges = charge(states, [calls.batch()])
    assert row_of(charges, "x")["used_ns"] == 2 * S
    assert row_of(charges, "x", device="MIG-1")["used_ns"] == pytest.approx(S * 3 / 7, abs=1)


@pytest.mark.parametrize("sharing", ["time_slicing", "mps"])
def test_an_instance_can_itself_be_shared(sharing):
    """1g.10gb in two slots: A works 4 s of 10 and holds one, the other is free. Of a seventh of 10 s A used
    0.4, held idle 0.6 x 0.1 / 0.6, and 0.6 x 0.5 / 0.6 is nobody's."""
    where = layout(instance(1, "1g.10gb", 1, 10, sharing=sharing, replicas=2))
    calls = Calls([X], ["MIG-1"]).busy(0, 4)
    charges = charge([state(where, [Holder("x", 1)], [X])], [calls.batch()])
    row = row_of(charges, "x", device="MIG-1")
    assert row["used_ns"] == pytest.approx(10 * S / 7 * 0.4, abs=1)
    assert row["held_idle_ns"] == pytest.approx(10 * S / 7 * 0.1, abs=1)
    assert row_of(charges, reason="free", device="MIG-1")["unallocated_ns"] == pytest.approx(
        10 * S / 7 / 2, abs=1
    )
    assert row["flags"] & Flag.SILICON_SHARED


def test_the_engine_of_a_lone_compute_instance_is_a_part_of_its_gpu_instances():
    """DCGM#138: the engine of 1c.3g, at work 9 s of 10, reads 0.3, since it is counted for all three slices:
    X used 0.9 of his seventh of the GPU."""
    where = layout(instance(1, "1c.3g.40gb", 1, 40))
    active = samples([(Field.ENGINE_ACTIVE, i, 1, 0.3) for i in range(10)], device="MIG-1")
    calls = Calls([X], ["MIG-1"]).busy(0, 9)
    charges = charge([state(where, [Holder("x", 1)], [X])], [calls.batch()], [active])
    assert row_of(charges, "x", device="MIG-1")["used_ns"] == pytest.approx(9 * S / 7, abs=1)


def test_a_partitioned_gpu_that_is_lost_is_lost_in_all_its_parts():
    where = layout(instance(1, "3g.40gb", 3, 40), lost=True)
    charges = charge([state(where, [Holder("x", 1)])])
    assert {row["reason"] for row in charges.rows()} == {"device_lost"}
    assert sum(row["unallocated_nano"] for row in charges.rows()) == RATE_10S
