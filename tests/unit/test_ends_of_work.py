"""When work ended that no call was seen to wait for: polled ends, and work that goes on beyond the window."""

from __future__ import annotations

from gpuledger.attribution import charge_window
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Holder, NodeLayout
from gpuledger.pricing import Teams
from tests.support.charging import Calls, S, gpu, pod_process, prices, row_of, state, window

A, B = pod_process(1, "a"), pod_process(2, "b")
SHARED = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=2)])
HOLDERS = [Holder("a", 0), Holder("b", 0)]


def charge(calls, layout=SHARED, holders=HOLDERS, **more):
    records = window([state(layout, holders, (A, B), **more)], [calls.batch()])
    return charge_window(records, prices(), Teams())


def polled(operation=Operation.QUERY_EVENT, between=()):
    """A works 0 to 2 s and 5 to 7 s, and asks until it is done; ``between``: seconds of its other queries."""
    calls = Calls([A, B])
    for start in (0.0, 5.0):
        calls.call(Operation.LAUNCH_KERNEL, start, launched_threads=256)
        calls.call(Operation.LAUNCH_KERNEL, start + 0.0003, launched_threads=256)
        calls.call(operation, start + 2.0)
    for at in between:
        calls.call(operation, at)
    return calls


def test_who_polls_had_work_outstanding_until_the_first_query_that_succeeded():
    for operation in (Operation.QUERY_EVENT, Operation.QUERY_STREAM):
        row = row_of(charge(polled(operation)), "a")
        assert abs(row["used_ns"] - 4 * S) < S // 1000


def test_a_polled_end_is_no_witness():
    """Which event was asked for is not known: beside a neighbour the interval leaves it open."""
    row = row_of(charge(polled().busy(1.0, 6.0, process=1)), "a")
    assert row["confidence_low_ns"] == 0


def test_a_query_among_launches_ends_nothing():
    """Memory pools ask for events of long ago all the time."""
    calls = polled(between=(0.0002,))
    assert row_of(charge(calls), "a")["used_ns"] == row_of(charge(polled()), "a")["used_ns"]


def test_who_also_waits_is_known_by_his_waits_alone():
    calls = polled().busy(8.0, 9.0)
    row = row_of(charge(calls), "a")
    assert abs(row["used_ns"] - 9 * S) < S // 1000  # from its first launch to the end of its one wait


def test_work_that_goes_on_at_the_windows_end_is_as_certain_as_the_rest_of_a_process_that_always_waits():
    """A and B each wait 3 s twice, A has work outstanding from 8 s on: 2 s, of which a third may be B's."""
    calls = Calls([A, B]).busy(0.0, 3.0).busy(4.0, 7.0).busy(5.0, 6.0, process=1)
    calls.call(Operation.LAUNCH_KERNEL, 8.0, launched_threads=256)
    row = row_of(charge(calls), "a")
    assert row["used_ns"] == 7.5 * S
    assert row["confidence_low_ns"] > 7 * S


def test_of_a_process_that_never_waited_work_that_is_open_at_the_windows_end_is_in_doubt():
    calls = Calls([A, B]).busy(5.0, 6.0, process=1)
    calls.call(Operation.LAUNCH_KERNEL, 2.0, launched_threads=256)
    row = row_of(charge(calls), "a")
    assert row["used_ns"] == 7.5 * S
    assert row["confidence_low_ns"] == 0
