"""Where SM-time is shared: MPS thread percentages, core and memory fractions."""

from __future__ import annotations

import pytest

from gpuledger.attribution import charge_window
from gpuledger.contract.columns import longs
from gpuledger.contract.fields import Field
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Holder, NodeLayout
from gpuledger.pricing import Teams
from tests.support.charging import Calls, S, gpu, pod_process, prices, row_of, samples, state, window

A, B, C = (pod_process(1 + i, uid) for i, uid in enumerate("abc"))


def charge(calls, sampled=(), layout=None, processes=(A, B), holders=None, **more):
    held = holders or [Holder(process.consumer, 0) for process in processes]
    found = charge_window(
        window([state(layout or MPS, held, processes, **more)], [calls.batch()], sampled), prices(), Teams()
    )
    assert (found.conservation_error_nano, found.conservation_error_ns) == (0, 0)
    return found


MPS = NodeLayout(devices=[gpu(sharing="mps", replicas=2)])


def held(*percentages):
    return [Holder(uid, 0, mps_percentage=p) for uid, p in zip("abc", percentages, strict=False)]


def test_under_mps_thread_percentages_weigh_who_works_at_once():
    """A (30 %) works 0-10 s, B (70 %) 0-5 s: SM-time 3 s and 3.5 s, and 3.5 s are idle. B's half was all used
    but 1.5 s, A's but 2 s: held idle in the proportion 2 : 1.5."""
    charges = charge(Calls([A, B]).busy(0, 10).busy(0, 5, process=1), layout=MPS, holders=held(30.0, 70.0))
    assert (row_of(charges, "a")["used_ns"], row_of(charges, "b")["used_ns"]) == (3 * S, 3_500_000_000)
    assert (row_of(charges, "a")["held_idle_ns"], row_of(charges, "b")["held_idle_ns"]) == (2 * S, 1.5 * S)


def test_under_mps_more_than_all_sms_are_shared_in_proportion():
    """A (100 %, none stated) and B (50 %) at once 0-6 s: 100 : 50 of the device, 4 s and 2 s; B alone 6-8 s
    has half of the SMs, 1 s."""
    charges = charge(Calls([A, B]).busy(0, 6).busy(0, 8, process=1), layout=MPS, holders=held(None, 50.0))
    assert row_of(charges, "a")["used_ns"] == pytest.approx(4 * S, abs=10)
    assert row_of(charges, "b")["used_ns"] == pytest.approx(3 * S, abs=10)


def test_two_containers_of_one_pod_keep_their_own_thread_percentages():
    """m 20 %, s 40 %, both of A and at work 0-10 s: 2 s and 4 s."""
    m, s = pod_process(1, "a", container="m"), pod_process(2, "a", container="s")
    shares = [Holder("a", 0, container=name, mps_percentage=p) for name, p in (("m", 20.0), ("s", 40.0))]
    calls = Calls([m, s]).busy(0, 10).busy(0, 10, process=1)
    charges = charge(calls, layout=MPS, processes=(m, s), holders=shares)
    used = {row["container"]: row["used_ns"] for row in charges.rows() if row["consumer"] == "a"}
    assert used == {"m": 2 * S, "s": 4 * S}


def test_where_sm_active_is_declared_it_caps_what_percentages_say():
    """A (60 %) at work all the time, but SMs were active 0.3 of it: 3 s, flagged; effectively all of it."""
    layout = NodeLayout(devices=[gpu(sharing="mps", replicas=2, sm_active_declared=True)])
    active = [samples([(Field.SM_ACTIVE, i, 1, 0.3) for i in range(10)])]
    charges = charge(Calls([A]).busy(0, 10), active, layout=layout, processes=(A,), holders=held(60.0))
    row = row_of(charges, "a")
    assert (row["used_ns"], row["busy_ns"], row["effectively_used_ns"]) == (3 * S, 6 * S, 3 * S)


def test_a_core_fraction_is_a_limit_of_its_holder_however_many_processes_he_has():
    """HAMi: 40 % of the cores, two processes at work 0-10 s: 4 s, all that he holds; 6 s are nobody's."""
    part = NodeLayout(devices=[gpu(sharing="fractional", replicas=1)])
    one, two = pod_process(1, "a"), pod_process(2, "a")
    calls = Calls([one, two]).busy(0, 10).busy(0, 10, process=1)
    shares = [Holder("a", 0, share_numerator=2, share_denominator=5)]
    charges = charge(calls, layout=part, processes=(one, two), holders=shares)
    assert (row_of(charges, "a")["used_ns"], row_of(charges, "a")["held_idle_ns"]) == (4 * S, 0)
    assert row_of(charges, reason="free")["unallocated_ns"] == 6 * S


def test_a_memory_fraction_is_an_entitlement_and_no_limit_on_cores():
    """HAMi: 20 of 80 GiB and no cores stated, busy 5 s: entitled to a quarter, used half."""
    gib = 1 << 30
    part = NodeLayout(devices=[gpu(sharing="fractional", replicas=1, memory_total_bytes=80 * gib)])
    shares = [Holder("a", 0, memory_limit_bytes=20 * gib)]
    row = row_of(charge(Calls([A]).busy(0, 5), layout=part, processes=(A,), holders=shares), "a")
    assert (row["entitlement"], row["used_ns"], row["borrowed_ns"]) == (0.25, 5 * S, 2.5 * S)


def test_where_sm_active_shrinks_what_percentages_say_the_interval_moves_along():
    """A and B (50 % each) at work all the time, SMs active 0.8: 4 s each of 5, and 3.7 is inside."""
    layout = NodeLayout(devices=[gpu(sharing="mps", replicas=2, sm_active_declared=True)])
    active = [samples([(Field.SM_ACTIVE, i, 1, 0.8) for i in range(10)])]
    calls = Calls([A, B]).busy(0, 10).busy(0, 10, process=1)
    row = row_of(charge(calls, active, layout=layout, holders=held(50.0, 50.0)), "a")
    assert row["used_ns"] == 4 * S
    assert row["confidence_low_ns"] <= 3.7 * S


def test_learned_durations_are_no_sm_time():
    """A has 30 % of the SMs and works 0-2 s, as long as its launch is known to take: 0.6 s of SM-time."""
    calls = Calls([A, B], functions=[7])
    calls.call(Operation.LAUNCH_KERNEL, 0.0, launched_threads=256, function=0)
    calls.call(Operation.SYNCHRONIZE_STREAM, 2.0, 2.0)
    learned = {
        "learned_process": longs([0]),
        "learned_function": longs([7]),
        "learned_threads": longs([256]),
        "learned_duration_ns": longs([2 * S]),
        "learned_count": longs([100]),
    }
    calls.busy(0, 10, process=1)
    row = row_of(charge(calls, holders=held(30.0, 70.0), **learned), "a")
    assert row["used_ns"] == pytest.approx(0.6 * S, abs=10)
