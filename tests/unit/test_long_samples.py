"""A sample longer than the window, as of an exporter that is scraped every 30 s."""

from __future__ import annotations

import pytest

from gpuledger.attribution import charge_window
from gpuledger.contract.fields import Field
from gpuledger.contract.records import Holder, NodeLayout
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Teams
from tests.support.charging import Calls, S, gpu, pod_process, prices, row_of, samples, state, window

X = pod_process(1, "x")
WHOLE = NodeLayout(devices=[gpu()])
MPS = NodeLayout(devices=[gpu(sharing="mps", replicas=1, sm_active_declared=True)])
FIELDS = pytest.mark.parametrize(("layout", "field"), [(WHOLE, Field.ENGINE_ACTIVE), (MPS, Field.SM_ACTIVE)])


def charge(layout, field, unwitnessed=0):
    """X works 4 s of 10; a sample from 15 s before the window to 15 s after its start says 0.2."""
    calls = Calls([X]).busy(0, 4)
    keyframe = state(layout, [Holder("x", 0)], [X], unwitnessed=[unwitnessed])
    sampled = [samples([(field, -15, 30, 0.2)])]
    return charge_window(window([keyframe], [calls.batch()], sampled), prices(), Teams())


@FIELDS
def test_where_all_calls_are_seen_it_scales_nothing_and_makes_nothing_unobserved(layout, field):
    """4 s by the calls against 2 s by the sample: used 4 s, held idle 6 s; the interval reaches down to the
    2 s that they differ by."""
    charges = charge(layout, field)
    row = row_of(charges, "x")
    assert (row["used_ns"], row["held_idle_ns"], row["evidence"]) == (4 * S, 6 * S, "busy_estimated")
    assert row["confidence_low_ns"] <= 2 * S
    assert not row["flags"] & Flag.SAMPLE_SPREAD
    assert sum(other["unobserved_ns"] for other in charges.rows()) == 0


@FIELDS
def test_where_not_all_are_seen_it_is_spread_evenly_and_flagged(layout, field):
    """One context is not witnessed: 0.2 of the 10 s are occupied, 2 s."""
    charges = charge(layout, field, unwitnessed=1)
    rows = list(charges.rows())
    assert sum(row["used_ns"] for row in rows) == 2 * S
    assert row_of(charges, "x")["flags"] & Flag.SAMPLE_SPREAD


@pytest.mark.parametrize("value", [0.0, 0.9])
def test_a_declared_sm_active_over_a_window_or_less_is_what_counts(value):
    """The same MPS device with samples of 1 s: A is 0.9, and 0 beside 4 s of work is missing."""
    calls = Calls([X]).busy(0, 4)
    keyframe = state(MPS, [Holder("x", 0)], [X])
    sampled = [samples([(Field.SM_ACTIVE, i, 1, value) for i in range(10)])]
    charges = charge_window(window([keyframe], [calls.batch()], sampled), prices(), Teams())
    unobserved = sum(row["unobserved_ns"] for row in charges.rows())
    assert unobserved == (10 * S if value == 0 else 5 * S)
