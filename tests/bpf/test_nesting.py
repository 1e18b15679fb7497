"""Calls inside calls, calls that never return, and processes that are gone at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent.probes import ProbeSource
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import LOADERS, Bench, Pod, Running, compile_c, events_of, run, started

NESTED_ROUNDS = 23
JUMPS = 7


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("nested")
    library = directory / "libcuda.so.1"
    compile_c(["nested.c"], library, ["-fPIC", "-shared", "-Wl,-soname,libcuda.so.1"])
    compile_c(["jumps.c"], directory / "jumps", [f"-L{directory}", "-l:libcuda.so.1"])
    return directory


@pytest.fixture(scope="module", params=LOADERS)
def nested(request: pytest.FixtureRequest, place: Path) -> Iterator[ProbeSource]:
    with started(place / "libcuda.so.1", loader=request.param) as source:
        yield source


def test_a_call_inside_a_call_is_a_call_of_its_own(nested: ProbeSource, place: Path) -> None:
    pid, _ = run([place / "jumps"], place)
    events = events_of(nested, pid)[: 3 * NESTED_ROUNDS]
    inner, outer = Operation.SYNCHRONIZE_STREAM, Operation.SYNCHRONIZE_CONTEXT
    assert events["operation"].tolist() == [inner, inner, outer] * NESTED_ROUNDS
    assert events["result"].tolist() == [0, 1, 1] * NESTED_ROUNDS
    triples = events["duration_ns"].reshape(NESTED_ROUNDS, 3)
    assert (triples[:, 2] > triples[:, 0] + triples[:, 1]).all()


def test_calls_that_never_return_are_counted_and_disturb_none_that_do(
    nested: ProbeSource, place: Path
) -> None:
    before = nested.losses()
    pid, _ = run([place / "jumps"], place)
    events = events_of(nested, pid)
    assert events["operation"].tolist()[3 * NESTED_ROUNDS :] == [
        Operation.SYNCHRONIZE_EVENT,
        Operation.SYNCHRONIZE_STREAM,
    ]
    losses = nested.losses()
    assert losses.unreturned - before.unreturned == JUMPS
    assert losses.events - before.events == JUMPS
    assert losses.duplicate == 0


def test_many_processes_that_are_gone_at_once_are_seen_whole(
    source: ProbeSource, bench: Bench, pods: list[Pod]
) -> None:
    command = [bench.program("loop"), "11", "2"]
    places = [pods[i % 2].directory for i in range(23)]
    running = [Running(command, bench.directory, place) for place in places]
    pids = []
    for process in running:
        with process:
            process.finish()
            pids.append(process.pid)
    events = events_of(source, *pids)
    for pid, place in zip(pids, places, strict=True):
        mine = events[events["pid"] == pid]
        assert len(mine) == 2 * 2 * 11 + 4 + 2
        assert set(mine["cgroup_id"].tolist()) == {place.stat().st_ino}
        assert len(set(mine["start_ns"].tolist())) == 1
