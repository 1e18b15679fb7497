"""Tetragon's export as an event source: whose calls they are, where they went, and what is not told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpuledger.agent.metrics import REGISTRY
from gpuledger.agent.names import Names
from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.processes import ProcessTable
from gpuledger.agent.runtime import SourceKind, parse_source
from gpuledger.agent.tetragon import MISSING, TetragonReader, TetragonSource
from gpuledger.agent.tetragon.processes import FIRST_MADE_UP_ID
from gpuledger.contract.clock import NS_PER_S, ManualClock
from gpuledger.contract.errors import ConfigError, Unsupported
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Device

UID, OTHER_UID = "1b3a6f0e-7f51-4c0e-9c56-0e1f5a3c2d41", "2c4b7f1f-8062-4d1f-8d67-1f206b4d3e52"
CONTAINER = 64 * "a"
UNIX_NS, BOOT_NS = 1_772_359_200 * NS_PER_S, 5_000 * NS_PER_S
OFFSET_NS = UNIX_NS - BOOT_NS
TICK_NS = 10_000_000


class Living:
    """A `ProcessReader` over the processes that a test says there are."""

    tick_ns = TICK_NS

    def __init__(self) -> None:
        self.processes: dict[int, ProcessFacts] = {}
        self.paths: dict[int, str] = {}
        self.closed = False

    def look(self, pid: int) -> ProcessFacts | None:
        return self.processes.get(pid)

    def cgroup_path(self, cgroup_id: int) -> str | None:
        return self.paths.get(cgroup_id)

    def watch(self, pid: int) -> None: ...

    def libraries(self, pid: int) -> frozenset[tuple[int, int]]:
        return frozenset()

    def ended(self) -> list[int]:
        return []

    def close(self) -> None:
        self.closed = True


class World:
    """A followed export and what is written into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock(UNIX_NS, BOOT_NS)
        self.living = Living()
        self.reader = TetragonReader(self.living)
        self.source = TetragonSource(path, self.reader, self.clock)

    def write(self, *lines: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))

    def call(self, symbol: str, *arguments: int, **changes: Any) -> None:
        """One call, a second after the start unless said otherwise."""
        process = {
            "exec_id": changes.get("exec_id", "first"),
            "pid": changes.get("pid", 456),
            "tid": changes.get("tid", 457),
            "start_time": stamp(changes.get("began_ns", -NS_PER_S)),
            "binary": "/usr/bin/python3",
            "arguments": f"--pod {OTHER_UID}",
        }
        uid = changes.get("uid", UID)
        if uid:
            process["pod"] = {"uid": uid, "container": {"id": f"containerd://{CONTAINER}"}}
        uprobe = {
            "process": process,
            "symbol": symbol,
            "policy_name": "gpuledger-cuda",
            "args": [{"size_arg": str(value)} for value in arguments],
        }
        event = {"process_uprobe": uprobe, "time": stamp(changes.get("at_ns", NS_PER_S))}
        self.write(json.dumps(event).encode())


def stamp(after_start_ns: int) -> str:
    whole, ns = divmod(UNIX_NS + after_start_ns, NS_PER_S)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09}Z"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    path = tmp_path / "tetragon.log"
    path.touch()
    world = World(path)
    world.source.start()
    world.clock.advance(10 * NS_PER_S)
    yield world
    world.source.close()


def test_a_call_has_its_time_on_the_boot_clock_its_arguments_and_its_thread(world: World) -> None:
    world.call("cuMemcpyHtoDAsync_v2", 4099, 77)
    world.call("cuMemsetD2D16Async", 101, 13)
    world.call("cuLaunchKernel", 0xF00)
    events = world.source.drain()
    assert events["time_ns"].tolist() == [BOOT_NS + NS_PER_S] * 3
    assert events["bytes"].tolist() == [4099, 2 * 101 * 13, 0]
    assert events["stream"].tolist() == [77, 0, 0]
    assert events["function"].tolist() == [0, 0, 0xF00]
    assert [Operation(code).name for code in events["operation"].tolist()] == [
        "COPY_HOST_TO_DEVICE_ASYNC",
        "SET_MEMORY_ASYNC",
        "LAUNCH_KERNEL",
    ]
    assert set(events["pid"].tolist()) == {456}
    assert set(events["tid"].tolist()) == {457}


def test_what_is_not_told_is_empty_and_named(world: World) -> None:
    world.call("cuLaunchKernel", 1)
    world.call("cuMemAlloc_v2")
    events = world.source.drain()
    for column in (*MISSING, "bytes"):
        assert events[column].tolist() == [0, 0], column
    assert world.source.resident() == []


def test_a_living_process_is_who_the_kernel_says_whatever_it_says_itself(world: World) -> None:
    world.living.processes[456] = ProcessFacts(start_ns=BOOT_NS - 2 * NS_PER_S, cgroup_id=99)
    world.living.paths[99] = f"/kubepods/burstable/pod{OTHER_UID}/{64 * 'b'}"
    world.call("cuCtxSynchronize")
    (event,) = world.source.drain()
    assert (int(event["start_ns"]), int(event["cgroup_id"])) == (BOOT_NS - 2 * NS_PER_S, 99)


def test_one_that_is_gone_is_in_the_pod_and_container_of_tetragons_record(world: World) -> None:
    world.call("cuCtxSynchronize")
    events = world.source.drain()
    assert int(events["cgroup_id"][0]) == FIRST_MADE_UP_ID
    assert int(events["start_ns"][0]) == BOOT_NS - NS_PER_S
    table = ProcessTable(world.reader, [Device(uuid="GPU-1")], "boot")
    (index,) = table.resolve(events, OFFSET_NS)["process"].tolist()
    known = table[index]
    assert (known.kind, known.consumer, known.container_id) == ("pod", UID, CONTAINER)


def test_another_process_with_the_pid_of_one_that_is_gone_is_not_taken_for_it(world: World) -> None:
    world.living.processes[456] = ProcessFacts(start_ns=BOOT_NS + 5 * NS_PER_S, cgroup_id=99)
    world.call("cuCtxSynchronize")
    (event,) = world.source.drain()
    assert int(event["cgroup_id"]) == FIRST_MADE_UP_ID


def test_who_was_seen_alive_stays_the_same_when_it_has_ended(world: World) -> None:
    world.living.processes[456] = ProcessFacts(start_ns=BOOT_NS - 2 * NS_PER_S, cgroup_id=99)
    world.call("cuCtxSynchronize")
    first = world.source.drain()
    world.living.processes.clear()
    world.call("cuCtxSynchronize")
    assert world.source.drain()["cgroup_id"].tolist() == first["cgroup_id"].tolist() == [99]


def test_a_name_that_is_no_pods_uid_makes_nobody_pay(world: World) -> None:
    world.call("cuCtxSynchronize", uid="../../etc", exec_id="a")
    world.call("cuCtxSynchronize", uid="", exec_id="b")
    assert world.source.drain()["cgroup_id"].tolist() == [0, 0]


def test_a_process_with_contexts_on_one_device_works_on_that_one(world: World) -> None:
    world.call("cuLaunchKernel", 1)
    world.call("cuDevicePrimaryCtxRetain", 3)
    world.call("cuLaunchKernel", 1)
    world.call("cuLaunchKernel", 1, exec_id="another")
    world.call("cuCtxCreate_v2", 5)
    world.call("cuLaunchKernel", 1)
    world.call("cuDevicePrimaryCtxRelease_v2", 5)
    assert world.source.drain()["ordinal"].tolist() == [-1, 3, 3, -1, 5, -1, 5]


def test_what_was_called_before_the_start_is_in_no_epoch_of_this_agent(world: World) -> None:
    world.call("cuLaunchKernel", 1, at_ns=-1)
    world.call("cuLaunchKernel", 1, at_ns=0)
    assert len(world.source.drain()) == 1
    assert world.source.losses().events == 0


def test_a_restart_counts_nothing_twice(world: World) -> None:
    world.call("cuLaunchKernel", 1)
    assert len(world.source.drain()) == 1
    world.call("cuLaunchKernel", 1, at_ns=2 * NS_PER_S)  # while nobody reads
    again = TetragonSource(world.path, world.reader, world.clock)
    again.start()
    world.call("cuLaunchKernel", 1, at_ns=11 * NS_PER_S)
    assert again.drain()["time_ns"].tolist() == [BOOT_NS + 10 * NS_PER_S]  # no call is later than its reading
    again.close()


def test_lines_that_can_not_be_read_and_what_tetragon_dropped_are_lost_calls(world: World) -> None:
    world.write(b"{", b"[]", b"\xff\xfe")
    world.write(b'{"rate_limit_info": {"number_of_dropped_process_events": "23"}}')
    world.write(b'{"process_exec": {}}')
    world.call("cuSomethingElse")
    world.call("cuLaunchKernel", 1)
    assert len(world.source.drain()) == 1
    assert world.source.skipped_lines == 3
    assert REGISTRY.get_sample_value("gpuledger_agent_export_skipped_lines") == 3
    assert world.source.losses().events == 3 + 23


def test_missing_arguments_are_zero_and_huge_ones_fit_the_column(world: World) -> None:
    world.call("cuMemcpyHtoD_v2")
    world.call("cuMemcpyHtoD_v2", (1 << 64) - 1)
    world.call("cuDevicePrimaryCtxRetain", 1 << 40)
    events = world.source.drain()
    assert events["bytes"].tolist() == [0, (1 << 63) - 1, 0]
    assert events["ordinal"].tolist() == [-1, -1, -1]


def test_nonsense_in_a_line_that_can_be_read_does_not_stop_the_source(world: World) -> None:
    world.call("cuGraphLaunch", -1, -(1 << 63))
    world.call("cuDevicePrimaryCtxRetain", -1)
    centuries_ns = 7000 * 365 * 86_400 * NS_PER_S
    world.call("cuLaunchKernel", 1, exec_id="future", began_ns=centuries_ns, at_ns=centuries_ns)
    events = world.source.drain()
    assert events["function"].tolist() == [(1 << 64) - 1, 0, 1]
    assert events["ordinal"].tolist() == [-1, -1, -1]
    now_ns = world.clock.boot_ns()
    assert (int(events["start_ns"][2]), int(events["time_ns"][2])) == (now_ns, now_ns)


def test_a_directory_that_is_not_there_is_said_at_the_start(tmp_path: Path) -> None:
    world = World(tmp_path / "nowhere" / "tetragon.log")
    with pytest.raises(ConfigError, match="is Tetragon's export mounted here"):
        world.source.start()
    with pytest.raises(Unsupported, match="not started"):
        world.source.drain()


def test_the_reader_answers_for_the_living_and_is_closed_with_them(world: World) -> None:
    world.living.paths[7] = "/system.slice"
    assert world.reader.cgroup_path(7) == "/system.slice"
    assert world.reader.cgroup_path(FIRST_MADE_UP_ID + 5) is None
    world.reader.close()
    assert world.living.closed


def test_a_file_that_can_not_be_opened_is_waited_for(world: World) -> None:
    """It was rotated away, and what is at its place now is no file, or not ours to read yet."""
    world.path.rename(world.path.with_name("rotated"))
    world.path.mkdir()
    assert not len(world.source.drain())
    assert not len(world.source.drain())
    world.path.rmdir()
    world.call("cuMemsetD8_v2", 1, 2, 3)
    assert len(world.source.drain()) == 1


def test_a_thousand_lines_are_read_in_one_drain(world: World) -> None:
    for number in range(1009):
        world.call("cuLaunchKernel", number)
    assert world.source.drain()["function"].tolist() == list(range(1009))
    assert len(world.source.drain()) == 0


def test_whoever_is_only_seen_by_tetragon_is_not_witnessed(world: World) -> None:
    """The core then takes calls for no proof of when work began and ended."""
    world.living.processes[456] = ProcessFacts(start_ns=BOOT_NS - 2 * NS_PER_S, cgroup_id=99)
    world.call("cuLaunchKernel", 1)
    table = ProcessTable(
        world.reader, [Device(uuid="GPU-1")], "boot", world.source, whole=not world.source.missing
    )
    (index,) = table.resolve(world.source.drain(), OFFSET_NS)["process"].tolist()
    assert not table.describe(index, Names(), OFFSET_NS).witnessed


@pytest.mark.parametrize(
    "text", ["tetragon", "tetragon:", "ebpf:", "ebpf:/x", "simulated:/x", "kprobes", "", ":/x"]
)
def test_a_source_that_is_none_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(ConfigError, match="none of ebpf, tetragon:FILE, simulated, none"):
        parse_source(text)


def test_sources_are_named_with_their_file() -> None:
    assert parse_source("tetragon:/var/run/cilium/tetragon/tetragon.log") == (
        SourceKind.TETRAGON,
        Path("/var/run/cilium/tetragon/tetragon.log"),
    )
    assert parse_source("ebpf") == (SourceKind.EBPF, None)
