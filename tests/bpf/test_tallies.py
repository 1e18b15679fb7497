"""Above a rate the kernel adds calls up instead of recording each; none is lost on the way there and back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from gpuledger.agent.probes import ProbeSource, RawEvents
from gpuledger.agent.probes.symbols import RATE_SLOT_NS
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import Bench, Running, events_of

THREADS, ROUNDS = 3, 101
BLOCK_BYTES = 1009  # what phases.c allocates in a round, and gives back
EACH = THREADS * ROUNDS
TALLY_ALL, RECORD_ALL = 0, None


@pytest.fixture
def switched(source: ProbeSource) -> Iterator[ProbeSource]:
    """The shared source; whatever a test set its rate to, the next one finds that every call is recorded."""
    yield source
    source.set_tally_rate(None)


def phases(bench: Bench, count: int) -> Running:
    command = [bench.program("phases"), str(count), str(THREADS), str(ROUNDS)]
    return Running(command, bench.directory)


def sums(events: RawEvents) -> dict[tuple[str, int], tuple[int, int, int]]:
    """(operation, result) -> (calls, bytes, launched threads)."""
    found = {}
    for operation, result in {(int(e["operation"]), int(e["result"])) for e in events if e["count"]}:
        rows = events[
            (events["operation"] == operation) & (events["result"] == result) & (events["count"] > 0)
        ]
        size, threads = int(rows["bytes"].sum()), int(rows["launched_threads"].sum())
        found[Operation(operation).name, result] = (int(rows["count"].sum()), size, threads)
    return found


def expected(count: int) -> dict[tuple[str, int], tuple[int, int, int]]:
    """What phases.c does in so many phases."""
    n = count * EACH
    return {
        ("INITIALISE", 0): (1, 0, 0),
        ("RETAIN_PRIMARY_CONTEXT", 0): (1, 0, 0),
        ("SELECT_CONTEXT", 0): (1 + count * THREADS, 0, 0),
        ("LAUNCH_KERNEL", 0): (4 * n, 0, 4 * n * 64),
        ("LAUNCH_KERNEL", 700): (n, 0, 0),
        ("ALLOCATE_DEVICE", 0): (n + 1, n * BLOCK_BYTES + 1_000_003, 0),
        ("FREE_DEVICE", 0): (n, n * BLOCK_BYTES, 0),
        ("SYNCHRONIZE_STREAM", 0): (n, 0, 0),
    }


def tallied(events: RawEvents) -> int:
    """Calls that came in tallies."""
    return int(events["count"][events["span_ns"] > 0].sum())


def run_phase(running: Running) -> None:
    """Let it make one phase, to its end."""
    running.go_on()
    assert running.line() == "waiting"


def collect(source: ProbeSource, running: Running, *rates: int | None) -> RawEvents:
    """One phase at each rate."""
    parts = []
    assert running.line() == "waiting"
    for rate in rates:
        source.set_tally_rate(rate)
        time.sleep(2 * RATE_SLOT_NS / 1e9)  # who is tallied stays so to the end of a slot of time
        run_phase(running)
        parts.append(events_of(source, running.pid))
    return np.concatenate(parts)


def test_counts_and_bytes_are_exact_from_records_to_tallies_and_back(
    switched: ProbeSource, bench: Bench
) -> None:
    with phases(bench, 5) as running:
        rates = (RECORD_ALL, TALLY_ALL, RECORD_ALL, RECORD_ALL, TALLY_ALL)
        events = collect(switched, running, *rates)
        resident = [entry.bytes for entry in switched.resident() if entry.pid == running.pid]
        running.finish()
    assert resident == [1_000_003]
    assert sums(events) == expected(len(rates))
    assert 9 * EACH < tallied(events) < 9 * EACH * len(rates)
    assert (events["span_ns"] == 0).sum() > 9 * EACH


def test_functions_and_results_are_told_apart_in_tallies(switched: ProbeSource, bench: Bench) -> None:
    with phases(bench, 1) as running:
        events = collect(switched, running, TALLY_ALL)
        running.finish()
    launches = events[(events["operation"] == Operation.LAUNCH_KERNEL) & (events["count"] > 0)]
    calls = {
        (function, result): int(
            launches["count"][(launches["function"] == function) & (launches["result"] == result)].sum()
        )
        for function in (1, 2)
        for result in (0, 700)
    }
    assert calls == {(1, 0): 3 * EACH, (2, 0): EACH, (1, 700): 0, (2, 700): EACH}


def test_a_process_that_is_killed_while_it_is_tallied_leaves_nothing_behind(
    switched: ProbeSource, bench: Bench
) -> None:
    switched.set_tally_rate(TALLY_ALL)
    with phases(bench, 1) as running:
        assert running.line() == "waiting"
        run_phase(running)
        running.process.kill()
        running.process.wait()
        assert sums(events_of(switched, running.pid)) == expected(1)
        assert len(events_of(switched, running.pid)) == 0


def test_a_process_that_goes_quiet_is_read_whole_and_nothing_twice(
    switched: ProbeSource, bench: Bench
) -> None:
    switched.set_tally_rate(TALLY_ALL)
    with phases(bench, 2) as running:
        assert running.line() == "waiting"
        run_phase(running)
        first = events_of(switched, running.pid)
        assert sums(first) == expected(1)
        assert tallied(events_of(switched, running.pid)) == 0
        run_phase(running)
        assert sums(np.concatenate((first, events_of(switched, running.pid)))) == expected(2)
        running.finish()


def test_a_tally_lies_in_the_time_of_its_calls(switched: ProbeSource, bench: Bench) -> None:
    with phases(bench, 1) as running:
        events = collect(switched, running, TALLY_ALL)
        running.finish()
    tallies = events[(events["span_ns"] > 0) & (events["count"] > 0)]
    assert len(set(tallies["time_ns"].tolist())) == 1
    frees = np.flatnonzero(tallies["operation"] == Operation.FREE_DEVICE)
    allocations = np.flatnonzero(tallies["operation"] == Operation.ALLOCATE_DEVICE)
    assert frees.max() < allocations.min()


def test_runs_say_when_work_was_outstanding(switched: ProbeSource, bench: Bench) -> None:
    with phases(bench, 1) as running:
        events = collect(switched, running, TALLY_ALL)
        running.finish()
        events = np.concatenate((events, events_of(switched, running.pid)))
    runs = events[events["count"] == 0]
    _, last = np.unique((runs["time_ns"] - runs["span_ns"])[::-1], return_index=True)
    runs = runs[::-1][last]  # a run that was told twice counts as it was told last
    assert 0 < runs["function"].sum() <= 2 * EACH  # a free ends a burst, and so does a wait
    assert 3 * EACH < runs["launched_threads"].sum() <= 4 * EACH
    assert (runs["duration_ns"] <= runs["span_ns"]).all()
    first = events[(events["span_ns"] == 0) & (events["operation"] == Operation.LAUNCH_KERNEL)]
    assert (runs["time_ns"] - runs["span_ns"] > first["time_ns"].min()).all()


def test_a_rate_between_is_switched_by_the_kernel(switched: ProbeSource, bench: Bench) -> None:
    switched.set_tally_rate(1_000)  # 100 in a slot, of which a phase makes thousands
    with phases(bench, 1) as running:
        assert running.line() == "waiting"
        run_phase(running)
        events = events_of(switched, running.pid)
        running.finish()
    assert sums(events) == expected(1)
    assert tallied(events) > 0
    assert (events["span_ns"] == 0).sum() >= 100
