"""What calls, tallies, memory and names within a window come to, with values by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuledger.attribution import charge_window, charge_windows
from gpuledger.contract.columns import longs
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Holder, NodeLayout, Pod, encode
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Teams
from tests.support.charging import (
    START,
    Calls,
    S,
    charge,
    gpu,
    header,
    pod_process,
    prices,
    row_of,
    state,
    window,
)

LAYOUT = NodeLayout(devices=[gpu()])
X = pod_process(1, "x")
HELD = state(LAYOUT, [Holder("x", 0)], [X])


def test_work_that_the_keyframe_says_was_outstanding_counts_from_the_windows_start():
    keyframe = state(LAYOUT, [Holder("x", 0)], [X], outstanding=[(0, 0)])
    calls = Calls([X]).call(Operation.SYNCHRONIZE_CONTEXT, 3, 3)
    assert row_of(charge([keyframe], [calls.batch()]), "x")["used_ns"] == 3 * S


def test_work_without_an_end_counts_to_the_windows_end_or_the_processs():
    launched = Calls([X]).call(Operation.LAUNCH_KERNEL, 4)
    assert row_of(charge([HELD], [launched.batch()]), "x")["used_ns"] == 6 * S
    gone = replace(X, ended_ns=START + 6 * S)
    launched = Calls([gone]).call(Operation.LAUNCH_KERNEL, 4)
    assert row_of(charge([HELD], [launched.batch()]), "x")["used_ns"] == 2 * S


@pytest.mark.parametrize(
    ("operation", "ends"),
    [
        (Operation.SYNCHRONIZE_STREAM, True),
        (Operation.SYNCHRONIZE_CONTEXT, True),
        (Operation.SYNCHRONIZE_EVENT, True),
        (Operation.COPY_DEVICE_TO_HOST, True),
        (Operation.FREE_DEVICE, True),
        (Operation.COPY_HOST_TO_DEVICE, False),
        (Operation.COPY_DEVICE_TO_HOST_ASYNC, False),
        (Operation.QUERY_EVENT, True),  # of a process that never waits: test_ends_of_work.py
    ],
)
def test_which_calls_end_outstanding_work(operation, ends):
    calls = Calls([X]).call(Operation.LAUNCH_KERNEL, 1).call(operation, 3, 1)
    assert row_of(charge([HELD], [calls.batch()]), "x")["used_ns"] == (2 * S if ends else 9 * S)


def test_a_launch_that_failed_is_an_error_and_no_work():
    calls = Calls([X]).call(Operation.LAUNCH_KERNEL, 1, result=719, launched_threads=64)
    row = row_of(charge([HELD], [calls.batch()]), "x")
    assert (row["used_ns"], row["launches"], row["launched_threads"], row["api_errors"]) == (0, 0, 0, 1)


def test_usage_is_summed_by_what_was_asked():
    calls = Calls([X])
    for _ in range(23):
        calls.call(Operation.LAUNCH_KERNEL, 1, launched_threads=32)
    calls.call(Operation.COPY_HOST_TO_DEVICE, 1, bytes=1001).call(
        Operation.COPY_HOST_TO_DEVICE_ASYNC, 1, bytes=7
    )
    calls.call(Operation.COPY_DEVICE_TO_HOST, 1, bytes=13).call(Operation.COPY_PEER, 1, bytes=5)
    calls.call(Operation.SYNCHRONIZE_STREAM, 3, 2)
    row = row_of(charge([HELD], [calls.batch()]), "x")
    assert (row["launches"], row["launched_threads"]) == (23, 736)
    assert (row["bytes_h2d"], row["bytes_d2h"], row["bytes_d2d"]) == (1008, 13, 5)
    assert row["synchronize_wait_ns"] == 2 * S


def test_a_tally_counts_as_its_calls_and_states_its_own_outstanding_time():
    calls = Calls([X]).call(Operation.LAUNCH_KERNEL, 9, count=1009, span_ns=8 * S, launched_threads=32 * 1009)
    batch = calls.batch(
        outstanding_process=longs([0, 0]),
        outstanding_device=longs([0, 0]),
        outstanding_start_ns=longs([START + 1 * S, START + 5 * S]),
        outstanding_duration_ns=longs([2 * S, 1 * S]),
        outstanding_blocked_ns=longs([S, S]),
    )
    row = row_of(charge([HELD], [batch]), "x")
    assert (row["launches"], row["launched_threads"], row["used_ns"]) == (1009, 32288, 3 * S)


@pytest.mark.parametrize(
    "end", [Operation.FREE_ASYNC, Operation.DESTROY_CONTEXT, Operation.RELEASE_PRIMARY_CONTEXT]
)
def test_device_memory_is_followed_from_what_is_resident_through_allocations_and_frees(end):
    """1 GiB throughout, 1 GiB more from 2 s to 6 s: peak 2 GiB, 14 GiB-seconds."""
    gib = 1 << 30
    keyframe = state(LAYOUT, [Holder("x", 0)], [X], resident=[(0, 0, gib)])
    calls = Calls([X]).call(Operation.ALLOCATE_DEVICE, 2, bytes=gib).call(end, 6, bytes=gib)
    row = row_of(charge([keyframe], [calls.batch()]), "x")
    assert row["memory_peak_bytes"] == 2 * gib
    assert row["memory_byte_seconds"] == 14 * gib


def test_calls_on_an_unknown_device_go_to_the_only_device_that_the_consumer_holds():
    two = NodeLayout(devices=[gpu(0), gpu(1)])
    calls = (
        Calls([X])
        .call(Operation.LAUNCH_KERNEL, 2, device=-1)
        .call(Operation.SYNCHRONIZE_CONTEXT, 3, 1, device=-1)
    )
    charges = charge([state(two, [Holder("x", 1)], [X])], [calls.batch()])
    assert row_of(charges, "x", device="GPU-1")["used_ns"] == 1 * S


def test_calls_on_one_of_several_devices_are_flagged_and_not_guessed():
    two = NodeLayout(devices=[gpu(0), gpu(1)])
    calls = Calls([X]).call(Operation.LAUNCH_KERNEL, 2, device=-1)
    charges = charge([state(two, [Holder("x", 0), Holder("x", 1)], [X])], [calls.batch()])
    for device in ("GPU-0", "GPU-1"):
        row = row_of(charges, "x", device=device)
        assert (row["launches"], row["used_ns"]) == (0, 0)
        assert row["flags"] & Flag.DEVICE_UNKNOWN


def test_memory_without_a_holding_is_a_row_without_money_and_flagged():
    charges = charge([state(LAYOUT, [], [X], resident=[(0, 0, 4096)])], [Calls([X]).batch()])
    row = row_of(charges, "x")
    assert (row.total_nano, row["memory_peak_bytes"]) == (0, 4096)
    assert row["flags"] & Flag.UNBOOKED_MEMORY


def test_a_name_that_became_known_in_an_amendment_is_used():
    pending = pod_process(1, "x", pending=True)
    nameless = state(LAYOUT, [Holder("x", 0)], [pending], pods=[Pod("x")])
    told = state(
        LAYOUT, processes=[X], at_s=1, header=header(9, amendment=True), pods=[Pod("x", "ml", "trainer")]
    )
    before = row_of(charge([nameless], [Calls([pending]).busy(0, 1).batch()]), "x")
    after = row_of(charge([nameless, told], [Calls([pending]).busy(0, 1).batch()]), "x")
    assert (before["pod"], after["pod"], after["namespace"]) == ("", "trainer", "ml")
    assert after["held_idle_ns"] == before["held_idle_ns"] == 9 * S


def test_a_change_of_holder_ends_one_share_and_begins_another():
    """X until 4 s, Y after it; both idle."""
    charges = charge(
        [HELD, state(LAYOUT, [Holder("y", 0)], at_s=4, sequence=2)], [Calls([X]).batch(sequence=1)]
    )
    assert row_of(charges, "x")["held_idle_ns"] == 4 * S
    assert row_of(charges, "y")["held_idle_ns"] == 6 * S


def test_a_state_that_repeats_the_one_before_cuts_nothing():
    """Busy in the first half only: were the window cut, all idle would fall into the second half."""
    shared = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=2)])
    held = [Holder("x", 0), Holder("y", 0)]
    calls = [Calls([X]).busy(0, 5).batch()]
    plain = charge([state(shared, held, [X])], calls)
    repeated = charge([state(shared, held, [X]), state(shared, held, [X], at_s=5, sequence=2)], calls)
    for uid in ("x", "y"):
        assert row_of(plain, uid)["held_idle_ns"] == row_of(repeated, uid)["held_idle_ns"]
    assert row_of(plain, "x")["held_idle_ns"] == 0


def test_work_counts_from_the_call_of_the_launch():
    calls = Calls([X]).call(Operation.LAUNCH_KERNEL, 3, 1).call(Operation.SYNCHRONIZE_STREAM, 5, 2)
    assert row_of(charge([HELD], [calls.batch()]), "x")["used_ns"] == 3 * S


def test_a_launch_called_while_another_thread_waits_is_not_counted_twice():
    """Outstanding 1-3 s; the next launch is called at 2.5 s and returns at 3.5 s, done at 5 s: 4 s in all, of
    which Y, who always wants the device, has half."""
    y = pod_process(2, "y")
    calls = Calls([X, y]).busy(0, 10, process=1).busy(1, 3).call(Operation.LAUNCH_KERNEL, 3.5, 1)
    calls.call(Operation.SYNCHRONIZE_STREAM, 5, 1)
    shared = NodeLayout(devices=[gpu(sharing="time_slicing", replicas=2)])
    charges = charge([state(shared, [Holder("x", 0), Holder("y", 0)], [X, y])], [calls.batch()])
    assert (row_of(charges, "x")["used_ns"], row_of(charges, "y")["used_ns"]) == (2 * S, 8 * S)


def test_tallies_and_calls_of_one_process_are_joined():
    """Tallied outstanding 1-4 s, raw calls 3-5 s: 4 s."""
    calls = Calls([X]).busy(3, 5)
    batch = calls.batch(
        outstanding_process=longs([0]),
        outstanding_device=longs([0]),
        outstanding_start_ns=longs([START + 1 * S]),
        outstanding_duration_ns=longs([3 * S]),
        outstanding_blocked_ns=longs([S]),
    )
    assert row_of(charge([HELD], [batch]), "x")["used_ns"] == 4 * S


def test_columns_of_one_value_are_summed_as_they_are_beside_others():
    """A window in which nothing failed, moved or was tallied keeps those columns once. Alone and beside one
    with copies, failures, tallies and calls of an unknown device it is charged to the same byte."""
    plain = Calls([X]).busy(1, 4).busy(6, 7)
    other = Calls([X]).busy(0, 5)
    other.call(Operation.COPY_HOST_TO_DEVICE, 5.5, 0.1, bytes=1 << 20)
    other.call(Operation.LAUNCH_KERNEL, 6.0, result=700, launched_threads=64)
    other.call(Operation.LAUNCH_KERNEL, 7.0, count=40, span_ns=S, launched_threads=64)
    other.call(Operation.LAUNCH_KERNEL, 8.0, device=-1, launched_threads=64)
    windows = [window([HELD], [calls.batch()]) for calls in (plain, other)]
    together = [encode(one.record) for one in charge_windows(windows, prices(), Teams())]
    assert together == [encode(charge_window(one, prices(), Teams()).record) for one in windows]
    first, second = (row_of(charge_window(one, prices(), Teams()), "x") for one in windows)
    assert (first["bytes_h2d"], first["api_errors"], first["launches"]) == (0, 0, 2)
    assert (second["bytes_h2d"], second["api_errors"]) == (1 << 20, 1)
    assert second["launches"] == 42  # of busy, the tally, and the one whose device is not known
    assert first["synchronize_wait_ns"] == 4 * S
