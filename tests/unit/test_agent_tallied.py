"""Processes that the kernel tallies: their calls stay counted, and their work stays in its time."""

from __future__ import annotations

from gpuledger.agent.batches import BY_AGENT, BY_KERNEL
from gpuledger.agent.events import NO_THREAD, Events
from gpuledger.agent.rules import EVENT_GRACE_NS, TALLY
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import EventBatch
from tests.support.agent import MS, Bench, S, event, joined, raw

W = 10 * S
SYNC = Operation.SYNCHRONIZE_STREAM


def run(start_ns: int, end_ns: int, work_ns: int | None = None, **columns: int) -> Events:
    """A run of outstanding work as the kernel tells it; one burst of one launch that was waited for."""
    work = end_ns - start_ns if work_ns is None else work_ns
    values = {"launched_threads": 1, "function": 1, "bytes": work, **columns}
    return event(
        end_ns,
        Operation.OTHER,
        count=0,
        tid=NO_THREAD,
        span_ns=end_ns - start_ns,
        duration_ns=work,
        **values,
    )


def tally(time_ns: int, count: int, span_ns: int = 100 * MS, **columns: int) -> Events:
    return event(time_ns, count=count, span_ns=span_ns, tid=NO_THREAD, **columns)


def batches(bench: Bench, until_ns: int) -> list[EventBatch]:
    return [p for p in bench.advance(until_ns) if isinstance(p, EventBatch)]


def intervals(found: list[EventBatch]) -> list[tuple[int, int, int, int]]:
    """(start, length, launches, bursts)."""
    return [
        tuple(int(value) for value in row)  # type: ignore[misc]
        for b in found
        for row in zip(
            b.outstanding_start_ns,
            b.outstanding_duration_ns,
            b.outstanding_launches,
            b.outstanding_bursts,
            strict=True,
        )
    ]


def test_what_the_kernel_tallied_is_told_from_calls_and_from_runs() -> None:
    bench = Bench()
    rows = bench.resolve(raw(S), raw(S, tid=0, span_ns=5, count=7), raw(S, tid=0, span_ns=5, count=0))
    assert rows["tid"].tolist() == [1, NO_THREAD, NO_THREAD]
    assert rows["count"].tolist() == [1, 7, 0]
    assert rows["span_ns"].tolist() == [0, 5, 5]


def test_a_source_without_tallies_need_not_count() -> None:
    assert Bench().resolve(raw(S, count=0))["count"].tolist() == [1]


def test_a_batch_says_who_is_tallied_by_whom_and_since_when() -> None:
    bench = Bench(processes=(1, 2))
    bench.advance(S)
    bench.cutter.add_events(
        joined(
            [
                tally(2 * S, 1000),
                tally(2 * S + 100 * MS, 900),
                event(2 * S, process=1),
                run(2 * S, 2 * S + MS),
            ]
        )
    )
    bench.cutter.add_events(tally(5 * S, 700))
    found = batches(bench, W + EVENT_GRACE_NS)
    assert [b.header.coarsening for b in found] == [TALLY, TALLY]
    calls = found[0]
    assert sorted(calls.count.tolist()) == [1, 700, 900, 1000]
    named = [
        (calls.processes[p].pid, by) for p, by in zip(calls.tallied_process, calls.tallied_by, strict=True)
    ]
    assert named == [(1, BY_KERNEL)]
    assert calls.tallied_since_ns.tolist() == [5 * S - 100 * MS]  # it was raw for more than a second before


def test_a_window_without_tallies_says_none() -> None:
    bench = Bench()
    bench.advance(S)
    bench.cutter.add_events(event(2 * S))
    (batch,) = batches(bench, W + EVENT_GRACE_NS)
    assert batch.header.coarsening == 0
    assert len(batch.tallied_process) == 0


def test_a_run_is_an_interval_as_long_as_its_work_and_told_twice_counts_once() -> None:
    bench = Bench()
    bench.advance(S)
    bench.cutter.add_events(joined([run(2 * S, 2 * S + 8, 3), run(2 * S, 2 * S + 10, 4, function=2)]))
    bench.cutter.add_events(run(3 * S, 3 * S + 7))
    assert intervals(batches(bench, W + EVENT_GRACE_NS)) == [(2 * S, 4, 1, 2), (3 * S, 7, 1, 1)]


def test_work_that_goes_on_over_the_border_is_in_both_windows() -> None:
    bench = Bench()
    bench.advance(S)
    bench.cutter.add_events(run(W - S, W + 2 * S))
    first = batches(bench, W + EVENT_GRACE_NS)
    assert intervals(first) == [(W - S, S, 0, 1)]  # not all of its launches are in this part
    assert intervals(batches(bench, 2 * W + EVENT_GRACE_NS)) == [(W, 2 * S, 0, 1)]


def test_work_ends_with_its_process() -> None:
    bench = Bench()
    bench.advance(S)
    bench.cutter.add_events(run(2 * S, 6 * S))
    bench.reader.gone = [1]
    bench.state.note_ends(4 * S)
    assert intervals(batches(bench, W + EVENT_GRACE_NS)) == [(2 * S, 2 * S, 0, 1)]


def test_who_began_before_a_window_with_tallies_and_did_not_stop_states_it() -> None:
    bench = Bench(processes=(1, 2))
    bench.advance(S)
    bench.cutter.add_events(joined([event(2 * S, process=1), event(3 * S)]))
    bench.advance(W + EVENT_GRACE_NS)
    bench.cutter.add_events(joined([tally(W + 4 * S, 50), event(W + 5 * S, SYNC)]))
    found = batches(bench, 2 * W + EVENT_GRACE_NS)
    assert intervals(found) == [(W, W, 0, 1)]
    whose = [b.processes[p].pid for b in found for p in b.outstanding_process]
    assert whose == [2]  # the other one's wait is a call of its own


def test_tallies_begin_and_end_no_outstanding_work() -> None:
    bench = Bench()
    bench.state.apply(joined([tally(S, 5), tally(S + 1, 5, operation=int(SYNC))]))
    assert bench.state.outstanding.items() == []
    bench.state.apply(event(2 * S))
    bench.state.apply(tally(3 * S, 5, operation=int(SYNC)))
    assert len(bench.state.outstanding.items()) == 1


def test_memory_follows_tallies() -> None:
    bench = Bench()
    bench.state.apply(tally(S, 7, operation=int(Operation.ALLOCATE_DEVICE), bytes=7000))
    bench.state.apply(tally(S, 3, operation=int(Operation.FREE_DEVICE), bytes=3000))
    assert bench.state.resident.items() == [((0, 0), 4000)]


def test_under_pressure_tallies_of_the_kernel_are_tallied_on() -> None:
    bench = Bench()
    bench.cutter.pressure = TALLY
    bench.advance(S)
    bench.cutter.add_events(joined([tally(2 * S, 1000), tally(3 * S, 30), run(2 * S, 2 * S + 5)]))
    bench.cutter.add_events(joined([event(4 * S), event(4 * S + 9, SYNC)]))
    found = batches(bench, W + EVENT_GRACE_NS)
    assert sum(int(b.count.sum()) for b in found) == 1032
    assert sorted(intervals(found)) == [(2 * S, 5, 1, 1), (4 * S, 9, 1, 1)]
    assert {by for b in found for by in b.tallied_by.tolist()} == {BY_KERNEL, BY_AGENT}


def test_a_window_without_runs_after_one_with_them_has_none() -> None:
    bench = Bench()
    bench.advance(S)
    bench.cutter.add_events(run(2 * S, 3 * S))
    assert intervals(batches(bench, W + EVENT_GRACE_NS))
    for window in (2, 3):
        assert intervals(batches(bench, window * W + EVENT_GRACE_NS)) == []
