"""Who is who: pods on several GPUs and nodes, equal names, containers, memory that nobody booked."""

from __future__ import annotations

from dataclasses import replace

from gpuledger.attribution import Policy, charge_window, charge_windows
from gpuledger.contract.fields import Field
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Holder, NodeLayout, Pod
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Teams
from tests.support.charging import (
    Calls,
    S,
    gpu,
    host_process,
    pod_process,
    prices,
    row_of,
    samples,
    state,
    window,
)

GIB = 1 << 30
X = pod_process(1, "x")
ONE = NodeLayout(devices=[gpu(memory_total_bytes=80 * GIB)])
TWO = NodeLayout(devices=[gpu(0), gpu(1)])


def charge(*args, **more):
    charges = charge_window(window(*args, **more), prices(), Teams())
    assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0)
    return charges


def test_a_pod_on_two_gpus_pays_for_each_by_itself():
    """Busy 6 s on the first, 1 s on the second."""
    calls = Calls([X], ["GPU-0", "GPU-1"]).busy(0, 6).busy(0, 1, device=1)
    charges = charge([state(TWO, [Holder("x", 0), Holder("x", 1)], [X])], [calls.batch()])
    both = [row_of(charges, "x", device=device) for device in ("GPU-0", "GPU-1")]
    assert [(row["used_ns"], row["held_idle_ns"]) for row in both] == [(6 * S, 4 * S), (1 * S, 9 * S)]


def test_the_workers_of_a_job_on_two_nodes_are_its_pods_and_share_its_workload():
    """Each node is a record of its own; the job is what their rows have in common: 10 + 10 s."""
    windows = []
    for node, uid in (("n1", "w1"), ("n2", "w2")):
        pods = [Pod(uid, "ml", uid, "Running", workload_kind="Job", workload="train")]
        one = window([state(ONE, [Holder(uid, 0)], pods=pods)], [Calls([]).batch()])
        windows.append(replace(one, node=node))
    rows = [row for charges in charge_windows(windows, prices(), Teams()) for row in charges.rows()]
    assert [(row["workload"], row["namespace"], row["consumer"]) for row in rows] == [
        ("Job/train", "ml", "w1"),
        ("Job/train", "ml", "w2"),
    ]
    assert sum(row.total_ns for row in rows) == 20 * S


def test_pods_of_one_name_in_two_namespaces_are_two():
    """opencost#2979, koku#711: the uid decides, never the name. 2 of 4 slots and 1 of 4."""
    shared = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=4)])
    pods = [Pod("u1", "red", "trainer"), Pod("u2", "blue", "trainer")]
    held = [Holder("u1", 0, slots=2), Holder("u2", 0)]
    rows = [row for row in charge([state(shared, held, pods=pods)], [Calls([]).batch()]).rows() if row["pod"]]
    assert [(row["namespace"], row["pod"], row["held_idle_ns"]) for row in rows] == [
        ("red", "trainer", 5 * S),
        ("blue", "trainer", 2.5 * S),
    ]


def test_nodes_and_pods_of_one_name_in_two_clusters_are_charged_apart():
    """opencost#2979, koku#711: 10 s of money on each, under its own cluster, not 20 s under one name."""
    windows = [window([state(ONE, [Holder("x", 0)])], [Calls([]).batch()])]
    windows.append(replace(windows[0], cluster="other"))
    sets = [charges.to_record() for charges in charge_windows(windows, prices(), Teams())]
    assert [(one.cluster, one.node, sum(one.held_idle_ns)) for one in sets] == [
        ("c", "n", 10 * S),
        ("other", "n", 10 * S),
    ]


def test_two_containers_of_a_pod_share_its_money_by_what_each_used():
    """m 3 s and s 1 s; the idle 6 s by their slots, one each."""
    m, s = pod_process(1, "x", container="m"), pod_process(2, "x", container="s")
    held = [Holder("x", 0, container="m"), Holder("x", 0, container="s")]
    calls = Calls([m, s]).busy(0, 3).busy(5, 6, process=1)
    rows = {row["container"]: row for row in charge([state(ONE, held, [m, s])], [calls.batch()]).rows()}
    assert {name: (row["used_ns"], row["held_idle_ns"]) for name, row in rows.items()} == {
        "m": (3 * S, 3 * S),
        "s": (1 * S, 3 * S),
    }


def test_a_pod_that_begins_inside_a_window_pays_from_then_on():
    """Nobody until 7 s, then X: 7 s free, 3 s held idle."""
    charges = charge([state(ONE), state(ONE, [Holder("x", 0)], at_s=7, sequence=2)], [Calls([]).batch()])
    assert row_of(charges, reason="free")["unallocated_ns"] == 7 * S
    assert row_of(charges, "x")["held_idle_ns"] == 3 * S


def test_memory_that_nobody_booked_is_listed_whoever_holds_the_gpu():
    """A host process keeps 10 GiB on X's GPU and never works: 0 of the money, on a row of its own, 100
    GiB-seconds; X's row is not flagged, since nobody used what he holds."""
    h = host_process(7)
    keyframe = state(ONE, [Holder("x", 0)], [X, h], resident=[(1, 0, 10 * GIB)])
    charges = charge([keyframe], [Calls([X]).batch()])
    row = row_of(charges, "7:1")
    assert (row.total_nano, row["memory_peak_bytes"]) == (0, 10 * GIB)
    assert row["memory_byte_seconds"] == 100 * GIB
    assert (
        row["flags"] & (Flag.UNBOOKED_MEMORY | Flag.OFF_THE_BOOKS)
        == Flag.UNBOOKED_MEMORY | Flag.OFF_THE_BOOKS
    )
    assert not row_of(charges, "x")["flags"] & Flag.INTRUDER


def test_memory_entitles_by_its_mean_over_each_piece():
    """1 of 4 slots, and 40 of 80 GiB from 5 s on: mean 0.25 over the window, no more than the slot. Were
    it 80 GiB, 0.5: held idle 5 s, and 5 s free."""
    shared = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=4, memory_total_bytes=80 * GIB)])
    policy = Policy(entitlement="max(slots,memory)")
    for size, idle in ((40, 2.5), (80, 5.0)):
        calls = Calls([X])
        calls.call(Operation.ALLOCATE_DEVICE, 5, bytes=size * GIB)
        charges = charge([state(shared, [Holder("x", 0)], [X])], [calls.batch()], policy=policy)
        assert row_of(charges, "x")["held_idle_ns"] == idle * S


def test_an_intruders_work_is_not_taken_for_the_holders_efficiency():
    """X and an unbooked process both work on X's GPU: SM active is the device's on both rows; alone it is
    X's."""
    h = host_process(7)
    active = [samples([(Field.SM_ACTIVE, 0, 10, 0.3)])]
    calls = Calls([X, h]).busy(0, 2).busy(4, 7, process=1)
    both = charge([state(ONE, [Holder("x", 0)], [X, h])], [calls.batch()], active)
    alone = charge([state(ONE, [Holder("x", 0)], [X])], [Calls([X]).busy(0, 4).batch()], active)
    assert row_of(both, "x")["flags"] & row_of(both, "7:1")["flags"] & Flag.SILICON_SHARED
    assert row_of(both, "x")["effective_known"] == 0
    assert not row_of(alone, "x")["flags"] & Flag.SILICON_SHARED
    assert row_of(alone, "x")["effective_known"] == 1


def test_energy_of_sharers_is_the_devices_in_the_proportion_of_gpu_time():
    """1000 J; A has 5 s used and 0 idle, B 0 used and 5 s idle: 500 J each, an allocation."""
    shared = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=2)])
    a = pod_process(1, "a")
    energy = [samples([(Field.ENERGY_JOULES, 0, 10, 1000.0)])]
    held = [Holder("a", 0), Holder("b", 0)]
    charges = charge([state(shared, held, [a])], [Calls([a]).busy(0, 5).batch()], energy)
    assert [row_of(charges, uid)["energy_joules"] for uid in "ab"] == [500.0, 500.0]


def test_who_reserves_first_is_billed_for_what_he_reserved_and_bounded_by_it():
    """1 of 4 slots used 0.9: used 2.5 s, 6.5 s borrowed beside it, the interval ends at 2.5 s. Of the
    pool's 7.5 s 1 : 6.5 are idle and lent."""
    shared = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=4)])
    charges = charge(
        [state(shared, [Holder("x", 0)], [X])],
        [Calls([X]).busy(0, 9).batch()],
        policy=Policy("reserved_first"),
    )
    row = row_of(charges, "x")
    assert (row["used_ns"], row["held_idle_ns"], row["borrowed_ns"]) == (2.5 * S, 0, 6.5 * S)
    assert row["confidence_high_ns"] == 2.5 * S
    assert row_of(charges, reason="free")["unallocated_ns"] == 1 * S
    assert row_of(charges, reason="lent")["unallocated_ns"] == 6.5 * S
