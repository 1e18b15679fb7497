"""What the kernel side remembers of processes, and what it counts as lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent.probes import UNKNOWN_ORDINAL, Limits, ProbeSource
from gpuledger.agent.probes.libbpf import LibbpfLoader
from gpuledger.agent.probes.state import KernelState
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import Bench, Running, events_of, run, started

ROUNDS = 503
BLOCK_BYTES = 1_000_003  # what loop.c allocates
SETTLE_S = 240.0  # the kernel may bury a process a little after its parent has reaped it


@pytest.fixture
def small(bench: Bench, tmp_path: Path) -> Iterator[ProbeSource]:
    """A source with a ring of one page."""
    with started(bench.library, Limits(ring_bytes=4096), proc=tmp_path) as source:
        yield source


def loop(bench: Bench, rounds: int, threads: int = 1, *words: str) -> list[str]:
    return [str(bench.program("loop")), str(rounds), str(threads), *words]


def test_what_finds_no_room_in_the_ring_is_tallied(small: ProbeSource, bench: Bench) -> None:
    pid, _ = run(loop(bench, ROUNDS), bench.directory)
    events = events_of(small, pid)
    assert events["count"].sum() == 2 * ROUNDS + 5  # init, retain, select twice, allocate
    assert 0 < (events["span_ns"] == 0).sum() < ROUNDS
    assert small.losses().events == 0


def test_a_drain_makes_room_for_records(small: ProbeSource, bench: Bench) -> None:
    run(loop(bench, ROUNDS), bench.directory)
    small.drain()
    pid, _ = run(loop(bench, 7), bench.directory)
    assert events_of(small, pid)["count"].tolist() == [1] * (2 * 7 + 5)


def test_what_finds_no_room_at_all_is_counted_and_counts_never_fall(bench: Bench, tmp_path: Path) -> None:
    limits = Limits(ring_bytes=4096, processes=1)
    with (
        started(bench.library, limits, proc=tmp_path) as source,
        Running(loop(bench, 1, 1, "wait"), bench.directory) as only,
    ):
        assert only.line() == "waiting"
        pid, _ = run(loop(bench, ROUNDS), bench.directory)
        seen = events_of(source, pid)
        losses = source.losses()
        assert losses.ring_full == losses.events == 2 * ROUNDS + 5 - len(seen)
        assert len(seen) > 0
        assert losses.processes_full > 0
        run(loop(bench, 7), bench.directory)
        assert source.losses().ring_full == losses.ring_full


def test_a_table_of_threads_that_is_full_is_counted(bench: Bench, tmp_path: Path) -> None:
    with started(bench.library, Limits(ring_bytes=1 << 20, threads=1), proc=tmp_path) as source:
        pid, _ = run(loop(bench, 11, 3), bench.directory)
        assert len(events_of(source, pid)) == 4
        assert source.losses().threads_full == 3 * (2 * 11 + 1)
        assert source.losses().events == source.losses().threads_full


def test_resident_memory_is_known_while_the_process_lives(source: ProbeSource, bench: Bench) -> None:
    with Running(loop(bench, 1, 1, "wait"), bench.directory) as running:
        assert running.line() == "waiting"
        mine = [entry for entry in source.resident() if entry.pid == running.pid]
        assert [(entry.ordinal, entry.bytes) for entry in mine] == [(0, BLOCK_BYTES)]
        assert mine[0].start_ns in set(events_of(source, running.pid)["start_ns"].tolist())
        running.finish()
    deadline = time.monotonic() + SETTLE_S
    while [entry for entry in source.resident() if entry.pid == running.pid]:
        assert time.monotonic() < deadline


def test_resident_memory_is_exact_whatever_the_ring_loses(small: ProbeSource, bench: Bench) -> None:
    run(loop(bench, ROUNDS), bench.directory)
    with Running(loop(bench, 1, 1, "wait"), bench.directory) as running:
        assert running.line() == "waiting"
        mine = [entry.bytes for entry in small.resident() if entry.pid == running.pid]
        assert mine == [BLOCK_BYTES]


def test_a_new_program_in_the_same_process_owns_nothing_of_the_old(source: ProbeSource, bench: Bench) -> None:
    program = bench.program("loop")
    script = f'"{program}" 1 1; exec "{program}" 1 1 wait'
    with Running(["/bin/sh", "-c", script], bench.directory) as running:
        assert running.line() == "waiting"
        mine = [entry.bytes for entry in source.resident() if entry.pid == running.pid]
        assert mine == [BLOCK_BYTES]
        running.finish()


@pytest.mark.parametrize("by_name", [True, False], ids=["attached by name", "found"])
def test_a_process_older_than_its_probes_is_not_given_a_guessed_device(
    source: ProbeSource, bench: Bench, tmp_path: Path, by_name: bool
) -> None:
    library = bench.copy_library(tmp_path)
    with Running(loop(bench, 3, 2, "wait"), tmp_path) as running:
        assert running.line() == "waiting"
        if by_name:
            source.preattach(library)
        source.refresh()
        running.finish()
        events = events_of(source, running.pid)
    launches = events[events["operation"] == Operation.LAUNCH_KERNEL]
    assert len(launches) == 2 * 2 * 3
    assert set(launches["ordinal"].tolist()) == {UNKNOWN_ORDINAL}


def test_what_ended_processes_leave_is_swept_and_the_living_keep_theirs(bench: Bench, tmp_path: Path) -> None:
    loader = LibbpfLoader(Limits(ring_bytes=1 << 20))
    with started(bench.library, load=lambda _: loader, proc=tmp_path) as source:
        state = KernelState(loader)
        with Running(loop(bench, 1, 1, "wait"), bench.directory) as living:
            assert living.line() == "waiting"
            for _ in range(3):
                run(loop(bench, 1), bench.directory)
            deadline = time.monotonic() + SETTLE_S
            while state.process_ends() < 3:
                assert time.monotonic() < deadline
            assert state.sweep() == 3 * 4  # a context, whose it is, a total and an allocation of each
            assert state.sweep() == 0
            assert [entry.pid for entry in source.resident()] == [living.pid]
