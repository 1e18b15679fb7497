"""What a row says beside its money: how it is known, in which currency, and what it was entitled to."""

from __future__ import annotations

import pytest

from gpuledger.attribution import charge_window
from gpuledger.contract.fields import Field
from gpuledger.contract.records import Holder, NodeLayout, PriceEntry
from gpuledger.pricing import Teams
from tests.support.charging import (
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

SHARED = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=4)])


def charge(*args, **more):
    charges = charge_window(window(*args, **more), prices(), Teams())
    assert (charges.conservation_error_nano, charges.conservation_error_ns) == (0, 0)
    return charges


def test_a_consumer_without_gpu_time_on_a_priced_device_pays_zero_and_not_an_unknown_amount():
    """X wants the device all the time, so nothing is left idle for Y, who only has memory on it."""
    x, y = pod_process(1, "x"), pod_process(2, "y")
    held = state(SHARED, [Holder("x", 0), Holder("y", 0)], [x, y], resident=[(1, 0, 1 << 30)])
    row = row_of(charge([held], [Calls([x, y]).busy(0, 10).batch()]), "y")
    assert (row.total_ns, row.total_nano, row["unpriced_ns"]) == (0, 0, 0)
    assert (row["priced"], row["currency"], row["price_ids"]) == (1, "USD", "gpu")


def test_a_consumer_without_gpu_time_on_a_device_without_a_price_has_no_amount():
    x, y = pod_process(1, "x"), pod_process(2, "y")
    held = state(SHARED, [Holder("x", 0), Holder("y", 0)], [x, y], resident=[(1, 0, 1 << 30)])
    other = prices(PriceEntry("other", "gpu", 1, "USD", gpu_model="L4"))
    charges = charge_window(window([held], [Calls([x, y]).busy(0, 10).batch()]), other, Teams())
    assert (row_of(charges, "y")["priced"], row_of(charges, "y")["currency"]) == (0, "")


def test_a_row_names_the_weakest_evidence_for_what_it_used_not_for_what_lay_idle():
    """X is idle and has no process until Y comes to hold the rest at 2 s; its work is seen after that."""
    x = pod_process(1, "x")
    active = [(Field.ENGINE_ACTIVE, i, 1, float(5 <= i < 8)) for i in range(10)]
    charges = charge(
        [
            state(SHARED, [Holder("x", 0)]),
            state(SHARED, [Holder("x", 0), Holder("y", 0)], at_s=2, sequence=2),
        ],
        [Calls([x]).busy(5, 8).batch()],
        [samples(active, sequence=3)],
    )
    assert (row_of(charges, "x")["used_ns"], row_of(charges, "x")["evidence"]) == (3 * S, "busy_estimated")
    assert row_of(charges, "y")["evidence"] == "device_total"


def test_time_without_a_sample_does_not_take_the_evidence_of_the_time_with_one():
    """SM active is declared and covers 0-6 s only; used is 3 s of them."""
    layout = NodeLayout(devices=[gpu(sharing="mps", replicas=2, sm_active_declared=True)])
    x = pod_process(1, "x")
    charges = charge(
        [state(layout, [Holder("x", 0)], [x])],
        [Calls([x]).busy(0, 8).batch()],
        [samples([(Field.SM_ACTIVE, i, 1, 0.5) for i in range(6)], sequence=3)],
    )
    used, unknown = row_of(charges, "x"), row_of(charges, "x", reason="no_sample")
    assert (used["used_ns"], used["evidence"]) == (3 * S, "busy_estimated")
    assert (unknown["unobserved_ns"], unknown["evidence"]) == (2 * S, "none")
    assert (used["entitlement"], unknown["entitlement"]) == (pytest.approx(0.3), pytest.approx(0.2))


def test_a_pods_entitlement_is_its_containers_by_their_slots_whoever_of_them_works():
    """Containers m with 2 slots and s with 1 of 4; only s works."""
    held = [Holder("a", 0, container="m", slots=2), Holder("a", 0, container="s")]
    s = pod_process(1, "a", container="s")
    charges = charge([state(SHARED, held, [s])], [Calls([s]).busy(0, 2).batch()])
    rows = {row["container"]: row for row in charges.rows() if row["consumer"] == "a"}
    assert (rows["m"]["used_ns"], rows["s"]["used_ns"]) == (0, 2 * S)
    assert {name: row["entitlement"] for name, row in rows.items()} == {"m": 0.5, "s": 0.25}


def test_nobody_holds_more_than_the_whole_of_an_exclusive_device():
    """A shared claim is in equal parts, however many slots one of the two states."""
    layout = NodeLayout(devices=[gpu()])
    charges = charge([state(layout, [Holder("x", 0, slots=2), Holder("y", 0)])], [Calls([]).batch()])
    assert row_of(charges, "x")["held_idle_ns"] == row_of(charges, "y")["held_idle_ns"] == 5 * S
