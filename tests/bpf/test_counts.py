"""Every call is seen once, with what it was."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gpuledger.agent.probes import ProbeSource
from gpuledger.agent.probes.symbols import SILENT, SYMBOLS
from gpuledger.agent.procfs import process_start_ns, same_start
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import WAIT_S, Bench, Pod, Running, events_of, run
from tests.emulator.calls import counted_calls
from tests.emulator.control import LIBCUDA, Emulator

OPERATIONS = {symbol.name: symbol.operation for symbol in SYMBOLS if symbol.effect not in SILENT}

ROUNDS = 101
THREADS = 7
POLLS = 23


def test_every_probed_function_is_seen_in_order_with_its_arguments(source: ProbeSource, bench: Bench) -> None:
    pid, out = run([bench.program("calls")], bench.directory)
    expected = [line.split() for line in out.splitlines()]
    assert {row[0].split(":")[0] for row in expected} == set(OPERATIONS)
    events = events_of(source, pid)
    seen = zip(
        *(
            events[c].tolist()
            for c in ("bytes", "stream", "function", "launched_threads", "ordinal", "result")
        ),
        strict=True,
    )
    names = [Operation(code).name for code in events["operation"].tolist()]
    assert list(zip(names, seen, strict=True)) == [
        (operation_of(name), tuple(int(value) for value in values)) for name, *values in expected
    ]


def operation_of(name: str) -> str:
    """Of a row's name, which says the operation itself where the symbol alone does not."""
    symbol, _, said = name.partition(":")
    return said or OPERATIONS[symbol].name


def test_polling_is_counted_and_makes_no_records(source: ProbeSource, bench: Bench) -> None:
    before = source.not_ready()
    pid, _ = run([bench.program("calls")], bench.directory)
    queries = (Operation.QUERY_STREAM, Operation.QUERY_EVENT)
    assert np.isin(events_of(source, pid)["operation"], queries).sum() == 3 * POLLS
    assert source.not_ready() - before == 3 * POLLS


def test_the_uuids_that_a_process_is_told_are_known_while_it_lives_and_said_once_after_it(
    source: ProbeSource, bench: Bench
) -> None:
    with Running([bench.program("calls"), "wait", "tell"], bench.directory) as running:
        running.go_on()
        while running.line() != "told":
            pass
        for _ in range(2):
            mine = [u for u in source.device_uuids() if u.pid == running.pid]
            assert [(u.ordinal, u.uuid, u.alive) for u in mine] == [
                (3, "30313233-3435-3637-3839-3a3b3c3d3e3f", True),
                (5, "05060708-090a-0b0c-0d0e-0f1011121314", True),
            ]
        running.finish()
    events_of(source, running.pid)
    deadline = time.monotonic() + WAIT_S  # the kernel may bury a process a little after it was waited for
    gone = mine
    while any(u.alive for u in gone):
        assert time.monotonic() < deadline
        gone = [u for u in source.device_uuids() if u.pid == running.pid]
    assert gone == [replace(u, alive=False) for u in mine]
    assert not [u for u in source.device_uuids() if u.pid == running.pid]


def test_times_are_of_the_boot_clock_and_in_order_on_a_thread(source: ProbeSource, bench: Bench) -> None:
    with Running([bench.program("calls"), "wait"], bench.directory) as running:
        assert running.line() == "waiting"
        start_ns = process_start_ns(running.pid)
        assert start_ns is not None
        running.finish()
        events = events_of(source, running.pid)
    assert len(events) > 1000
    begins = events["time_ns"] - events["duration_ns"]
    assert (begins[1:] > events["time_ns"][:-1]).all()
    assert (events["duration_ns"] > 0).all()
    assert (begins > start_ns).all()
    assert {same_start(value, start_ns) for value in set(events["start_ns"].tolist())} == {True}
    assert set(events["start_ns"].tolist()) != {0}


def test_two_pods_with_several_threads_each_are_counted_apart(
    source: ProbeSource, bench: Bench, pods: list[Pod]
) -> None:
    command = [bench.program("loop"), str(ROUNDS), str(THREADS), "wait"]
    with (
        Running(command, bench.directory, pods[0].directory) as one,
        Running(command, bench.directory, pods[1].directory) as other,
    ):
        for running in (one, other):
            assert running.line() == "waiting"
        for running in (one, other):
            running.go_on()
        for running in (one, other):
            running.finish()
        events = events_of(source, one.pid, other.pid)
    for running, place in ((one, pods[0]), (other, pods[1])):
        mine = events[events["pid"] == running.pid]
        assert set(mine["cgroup_id"].tolist()) == {place.cgroup_id}
        launches = mine[mine["operation"] == Operation.LAUNCH_KERNEL]
        assert Counter(Counter(launches["tid"].tolist()).values()) == {ROUNDS: 2 * THREADS}
        assert (mine["operation"] == Operation.SYNCHRONIZE_STREAM).sum() == 2 * THREADS * ROUNDS
        assert set(launches["ordinal"].tolist()) == {0}


@pytest.mark.parametrize("via_proc_address", [False, True], ids=["linked", "cuGetProcAddress"])
def test_the_emulated_driver_is_counted_exactly(
    source: ProbeSource, pods: list[Pod], via_proc_address: bool
) -> None:
    """Also where a program asks the driver for its functions, as the runtime does, and calls the pointers."""
    options = ["--rounds", "3", "--host-threads", "5", "--wait"] + ["--via-proc-address"] * via_proc_address
    with Emulator() as emulator:
        source.preattach(LIBCUDA)
        workloads = [emulator.spawn(["count", *options], cgroup=place.directory) for place in pods]
        reports = [process.communicate("\n")[0] for process in workloads]
        events = events_of(source, *(process.pid for process in workloads))
    for process, place, text in zip(workloads, pods, reports, strict=True):
        mine = events[events["pid"] == process.pid]
        assert set(mine["cgroup_id"].tolist()) == {place.cgroup_id}
        assert tallies(mine) == expected_tallies(text)
        said = json.loads(text.splitlines()[-1])["calls"]
        expected = counted_calls(3, 5, via_proc_address)
        assert {name: count["calls"] for name, count in said.items()} == {
            name: count.calls for name, count in expected.items()
        }
        assert ("cuGetProcAddress_v2" in said) == via_proc_address
        on_device = mine[mine["operation"] != Operation.INITIALISE]
        assert set(on_device["ordinal"].tolist()) == {0}


def test_the_less_usual_calls_of_the_emulated_driver_are_counted_exactly(
    source: ProbeSource, pods: list[Pod]
) -> None:
    with Emulator() as emulator:
        source.preattach(LIBCUDA)
        workloads = [
            emulator.spawn(["variants", "--rounds", "3", "--wait"], cgroup=place.directory) for place in pods
        ]
        reports = [process.communicate("\n")[0] for process in workloads]
        events = events_of(source, *(process.pid for process in workloads))
    for process, place, text in zip(workloads, pods, reports, strict=True):
        mine = events[events["pid"] == process.pid]
        assert set(mine["cgroup_id"].tolist()) == {place.cgroup_id}
        assert tallies(mine) == expected_tallies(text)
        given, taken = (
            int(mine["bytes"][mine["operation"] == operation].sum())
            for operation in (Operation.FREE_PHYSICAL, Operation.ALLOCATE_PHYSICAL)
        )
        assert given == taken == 3 * 13 * (2 << 20)


def tallies(events: np.ndarray) -> dict[str, tuple[int, int, int, int]]:
    """operation -> (calls, failed, bytes, launched threads); bytes of frees are judged in another test."""
    out = {}
    for code in set(events["operation"].tolist()):
        of = events[events["operation"] == code]
        name = Operation(code).name
        size = 0 if name.startswith("FREE") else int(of["bytes"].sum())
        out[name] = (len(of), int((of["result"] != 0).sum()), size, int(of["launched_threads"].sum()))
    return out


def expected_tallies(report: str) -> dict[str, tuple[int, int, int, int]]:
    """The same from what the workload says it called."""
    out: dict[str, tuple[int, int, int, int]] = {}
    for name, count in json.loads(report.splitlines()[-1])["calls"].items():
        if name not in OPERATIONS:
            continue
        operation = OPERATIONS[name].name
        size = 0 if operation.startswith("FREE") else count["bytes_ok"]
        row = (count["calls"], count["failed"], size, count["threads_launched"])
        before = out.get(operation, (0, 0, 0, 0))
        out[operation] = tuple(a + b for a, b in zip(before, row, strict=True))  # type: ignore[assignment]
    return out
