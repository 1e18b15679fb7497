"""Windows of which not everything is known, and usage beside the money."""

from __future__ import annotations

import pytest

from gpuledger.contract.records import Holder, NodeLayout
from gpuledger.contract.rows import Flag
from tests.support.charging import (
    RATE_10S,
    START,
    Calls,
    S,
    charge,
    gpu,
    header,
    keys,
    pod_process,
    row_of,
    state,
)

LAYOUT = NodeLayout(devices=[gpu()])
X = pod_process(1, "x")
HELD = state(LAYOUT, [Holder("x", 0)], [X])


def test_a_window_without_a_record_is_unobserved_for_the_devices_of_the_keyframe_before():
    charges = charge(state="unobserved", layout=LAYOUT)
    assert keys(charges) == {("GPU-0", "", "agent_gap")}
    assert row_of(charges, reason="agent_gap")["unobserved_nano"] == RATE_10S
    assert row_of(charges, reason="agent_gap")["completeness"] == 0


def test_a_window_before_any_keyframe_has_no_rows():
    assert not list(charge(state="unobserved").rows())


def test_a_window_with_a_refused_record_is_unobserved_whatever_else_is_known():
    charges = charge([HELD], [Calls([X]).busy(0, 5).batch()], state="incomplete", refused=1)
    row = row_of(charges, reason="refused")
    assert row["unobserved_nano"] == RATE_10S
    assert charges.record.state == "incomplete"


def test_a_window_after_the_nodes_end_is_an_empty_set():
    charges = charge([HELD], state="ended", layout=LAYOUT)
    assert not list(charges.rows())
    assert charges.record.state == "ended"


def test_only_the_nodes_life_is_charged():
    """Launched 4 s into the window: 6 s, all observed."""
    charges = charge([HELD], [Calls([X]).batch()], life_start_ns=START + 4 * S)
    assert row_of(charges, "x")["held_idle_ns"] == 6 * S
    assert row_of(charges, "x")["completeness"] == 1.0


def test_an_epoch_that_begins_inside_the_window_leaves_the_time_before_unobserved():
    late = state(
        LAYOUT,
        [Holder("x", 0)],
        [X],
        at_s=3,
        header=header(0, part=1, epoch_ns=START + 3 * S),
        keyframe=False,
    )
    batch = Calls([X]).busy(5, 6).batch(header=header(1, part=2, last=True, epoch_ns=START + 3 * S))
    charges = charge([late], [batch], state="incomplete")
    assert row_of(charges, reason="agent_gap")["unobserved_ns"] == 3 * S
    assert row_of(charges, "x")["used_ns"] == 1 * S
    assert row_of(charges, "x")["held_idle_ns"] == 6 * S
    assert row_of(charges, "x")["completeness"] == pytest.approx(0.7)


def test_between_two_epochs_the_gap_is_unobserved():
    """The first epoch is heard until 4 s, the second begins at 7 s."""
    first = Calls([X]).busy(3, 4).batch(header=header(1))
    late = state(
        LAYOUT,
        [Holder("x", 0)],
        [X],
        at_s=7,
        header=header(0, part=1, epoch_ns=START + 7 * S),
        keyframe=False,
    )
    second = Calls([X]).busy(8, 9).batch(header=header(1, part=2, last=True, epoch_ns=START + 7 * S))
    charges = charge([HELD, late], [first, second], state="incomplete")
    assert row_of(charges, reason="agent_gap")["unobserved_ns"] == 3 * S
    assert row_of(charges, "x")["used_ns"] == 2 * S


def test_a_missing_part_leaves_the_time_between_its_neighbours_unobserved():
    """Part 1 ends at 2 s, part 2 is missing, part 3 begins with a launch at 6 s."""
    first = Calls([X]).busy(1, 2).batch(header=header(1))
    third = Calls([X]).busy(6, 7).batch(header=header(3, last=True))
    charges = charge([HELD], [first, third], state="incomplete")
    assert row_of(charges, reason="agent_gap")["unobserved_ns"] == 4 * S
    assert row_of(charges, "x")["used_ns"] == 2 * S


def test_an_epoch_whose_end_is_missing_is_known_up_to_its_last_word():
    charges = charge([HELD], [Calls([X]).busy(1, 4).batch(header=header(1))], state="incomplete")
    assert row_of(charges, reason="agent_gap")["unobserved_ns"] == 6 * S
    assert row_of(charges, "x")["used_ns"] == 3 * S


def test_losses_within_the_window_are_counted_and_flagged():
    """The counters stand at 100 when the window begins and at 107 when it ends."""
    keyframe = state(LAYOUT, [Holder("x", 0)], [X], header=header(0, lost_kernel=90, lost_user=10))
    batch = Calls([X]).batch(header=header(1, last=True, lost_kernel=95, lost_user=12))
    row = row_of(charge([keyframe], [batch]), "x")
    assert row["lost_events"] == 7
    assert row["flags"] & Flag.EVENTS_LOST


def test_losses_that_no_node_can_have_are_shown_as_the_greatest_sum():
    """Two counters of 2^63 - 1 in an epoch that began here do not fit a column together."""
    most = (1 << 63) - 1
    keyframe = state(LAYOUT, [Holder("x", 0)], [X], header=header(0, lost_kernel=most, lost_user=most))
    assert (
        row_of(charge([keyframe], [Calls([X]).batch(header=header(1, last=True))]), "x")["lost_events"]
        == 1 << 53
    )
