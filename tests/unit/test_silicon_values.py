"""What the silicon says beside the money: each column has its own field's mean, worked out by hand."""

from __future__ import annotations

import pytest

from gpuledger.attribution import charge_window
from gpuledger.contract.fields import Field
from gpuledger.contract.records import Holder, NodeLayout, Pod
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Teams
from tests.support.charging import Calls, S, gpu, pod_process, prices, row_of, samples, state, window

GIB = 1 << 30
X, Y = pod_process(1, "x"), pod_process(2, "y")
VALUES = {  # over 0-5 s and over 5-10 s
    Field.SM_ACTIVE: (0.6, 0.2),
    Field.SM_OCCUPANCY: (0.5, 0.1),
    Field.TENSOR_ACTIVE: (0.25, 0.05),
    Field.DRAM_ACTIVE: (0.9, 0.7),
}


def silicon(sequence: int = 3):
    halves = [(field, 5 * half, 5, values[half]) for field, values in VALUES.items() for half in (0, 1)]
    memory = [
        (Field.FRAMEBUFFER_USED_BYTES, second, 0, size) for second, size in ((2, 10 * GIB), (7, 30 * GIB))
    ]
    return samples(halves + memory, sequence)


def charge(layout, holders, processes, calls):
    keyframe = state(layout, holders, processes)
    return charge_window(window([keyframe], [calls.batch()], [silicon()]), prices(), Teams())


def test_each_value_of_a_lone_holder_is_the_mean_of_its_own_field():
    """X works all the 10 s: 5 s at the first values and 5 s at the second, so SM active is 0.4, occupancy
    0.3, tensor 0.15, DRAM 0.8; 10 and 30 GiB of framebuffer are 20 GiB; 10 s x 0.4 = 4 s effectively used."""
    charges = charge(NodeLayout(devices=[gpu()]), [Holder("x", 0)], [X], Calls([X]).busy(0, 10))
    row = row_of(charges, "x")
    assert row["sm_active"] == pytest.approx(0.4)
    assert row["sm_occupancy"] == pytest.approx(0.3)
    assert row["tensor_active"] == pytest.approx(0.15)
    assert row["dram_active"] == pytest.approx(0.8)
    assert row["framebuffer_used_bytes"] == pytest.approx(20 * GIB)
    assert (row["effective_known"], row["effectively_used_ns"]) == (1, 4 * S)
    assert not row["flags"] & Flag.SILICON_SHARED


def test_sharers_see_the_devices_values_and_are_told_so():
    """X and Y work 4 s each of 10 s on one device: both rows carry its 0.4, flagged as the device's."""
    layout = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=2)])
    calls = Calls([X, Y]).busy(0, 4).busy(5, 9, process=1)
    charges = charge(layout, [Holder("x", 0), Holder("y", 0)], [X, Y], calls)
    for uid in "xy":
        row = row_of(charges, uid)
        assert row["used_ns"] == 4 * S
        assert row["sm_active"] == pytest.approx(0.4)
        assert row["flags"] & Flag.SILICON_SHARED


def test_a_label_that_changes_inside_a_window_counts_as_it_was_at_the_first_instant():
    """The pod is of team red from 0 s and is labelled blue at 4 s: the window is red's, the next blue's."""
    layout, names = NodeLayout(devices=[gpu()]), ("red", "blue")
    states = [
        state(
            layout,
            [Holder("x", 0)],
            pods=[Pod("x", "ns", "p", labels={"team": team})],
            at_s=4.0 * number,
            sequence=number,
        )
        for number, team in enumerate(names)
    ]
    charges = charge_window(window(states, [Calls([]).batch()]), prices(), Teams())
    assert {row["team"] for row in charges.rows() if row["pod"]} == {"red"}
    later = charge_window(
        window([state(layout, [Holder("x", 0)], pods=states[1].pods)], [Calls([]).batch()]), prices(), Teams()
    )
    assert {row["team"] for row in later.rows() if row["pod"]} == {"blue"}
