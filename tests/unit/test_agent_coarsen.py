"""Tallies: nothing is dropped, and the outstanding intervals stay."""

import numpy as np

from gpuledger.agent.coarsen import OutstandingIntervals, tally
from gpuledger.agent.rules import EVENT_GRACE_NS
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import EventBatch
from tests.support.agent import Bench, S, event, joined

W = 10 * S
SYNC = Operation.SYNCHRONIZE_STREAM


def batches(bench: Bench, until_ns: int) -> list[EventBatch]:
    return [p for p in bench.advance(until_ns) if isinstance(p, EventBatch)]


def test_a_tally_sums_the_calls_of_one_process_device_operation_and_result() -> None:
    rows = [event(t, bytes=10, duration_ns=2, launched_threads=3, tid=t) for t in (100, 130, 120)]
    rows += [event(110, process=1), event(111, device=1), event(112, SYNC), event(113, result=1)]
    tallies = tally(joined(rows))
    assert tallies["count"].sum() == len(rows)
    big = tallies[tallies["count"] == 3][0]
    assert (int(big["bytes"]), int(big["duration_ns"]), int(big["launched_threads"])) == (30, 6, 9)
    assert len(tallies) == 5
    assert (np.diff(tallies["time_ns"]) >= 0).all()


def test_a_tally_says_within_which_time_its_calls_returned() -> None:
    tallies = tally(joined([event(100), event(130)]))
    time, span = int(tallies["time_ns"][0]), int(tallies["span_ns"][0])
    assert time - span < 100 <= 130 <= time
    assert time - span == 99


def test_intervals_go_from_a_launch_s_call_to_the_synchronising_return() -> None:
    intervals = OutstandingIntervals(0, {})
    rows = [event(100, duration_ns=5), event(110), event(150, SYNC, duration_ns=30), event(160)]
    ended = intervals.apply(joined(rows))
    assert [column.tolist() for column in ended] == [[0], [0], [95], [55], [30], [2], [1]]
    rest = intervals.end(200, {})
    assert [column.tolist() for column in rest] == [[0], [0], [160], [40], [0], [0], [1]]


def test_what_was_outstanding_at_the_start_counts_from_there() -> None:
    intervals = OutstandingIntervals(1000, {(0, 0): 400, (1, 0): 1000})
    assert intervals.end(1500, {1: 1200}).duration_ns.tolist() == [500, 200]


def test_under_pressure_a_window_is_tallied_whole() -> None:
    bench = Bench(max_events=50)
    bench.cutter.pressure = 1
    bench.advance(EVENT_GRACE_NS)
    bench.cutter.add_events(joined([event(S + i * 100) for i in range(120)] + [event(2 * S, SYNC)]))
    bench.cutter.add_events(event(3 * S))
    found = batches(bench, W + EVENT_GRACE_NS)
    assert sum(int(b.count.sum()) for b in found) == 122
    assert all(b.header.coarsening == 1 for b in found)
    assert sum(len(b.time_ns) for b in found) < 10
    spans = [
        (int(start), int(length))
        for b in found
        for start, length in zip(b.outstanding_start_ns, b.outstanding_duration_ns, strict=True)
    ]
    assert spans == [(S, S), (3 * S, 7 * S)]


def test_pressure_that_rises_inside_a_window_counts_from_the_next_one() -> None:
    bench = Bench()
    bench.advance(S)
    bench.cutter.pressure = 1
    bench.cutter.add_events(joined([event(2 * S), event(2 * S + 1)]))
    found = batches(bench, W + EVENT_GRACE_NS)
    assert [(b.header.coarsening, b.count.tolist()) for b in found] == [(0, [1, 1])]


def test_at_the_spool_s_end_a_window_keeps_its_frame_and_counts_what_it_lost() -> None:
    bench = Bench()
    bench.cutter.pressure = 2
    bench.advance(S)
    bench.cutter.add_events(joined([event(2 * S + i) for i in range(17)]))
    parts = bench.advance(W + EVENT_GRACE_NS)
    assert [len(p.time_ns) for p in parts if isinstance(p, EventBatch)] == [0]
    assert parts[1].header.last
    assert parts[1].header.lost_user == 17
    assert [p.header.part for p in parts] == [1, 2, 0]
