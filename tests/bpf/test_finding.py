"""Processes are found wherever their library lies, and whatever became of its file."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from gpuledger.agent.probes import ProbeSource, RawEvents
from gpuledger.agent.probes.libraries import library_file
from gpuledger.agent.probes.places import LIBRARY_PLACES
from gpuledger.agent.probes.source import RELEASE_AFTER_SCANS
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import WAIT_S, Bench, Running, events_of, started

ROUNDS = 23


def loop(bench: Bench, *words: str) -> list[str]:
    return [str(bench.program("loop")), str(ROUNDS), "1", *words]


def launches(source: ProbeSource, pid: int) -> int:
    return int((events_of(source, pid)["operation"] == Operation.LAUNCH_KERNEL).sum())


def elsewhere(script: str, bench: Bench, *words: str) -> list[str]:
    """The command of a process in a mount namespace of its own; ``script`` makes /mnt hold its library."""
    run = "mount --make-rprivate / && " + script + ' && LD_LIBRARY_PATH=/mnt exec "$@"'
    return ["unshare", "--mount", "sh", "-ec", run, "sh", *loop(bench, *words)]


def test_a_library_that_was_deleted_while_in_use_is_found(
    source: ProbeSource, bench: Bench, tmp_path: Path
) -> None:
    library = bench.copy_library(tmp_path)
    with Running(loop(bench, "wait"), tmp_path) as running:
        assert running.line() == "waiting"
        library.unlink()
        assert source.refresh() >= 1
        running.finish()
        assert launches(source, running.pid) == 2 * ROUNDS


def test_of_a_library_that_was_replaced_both_files_are_found(
    source: ProbeSource, bench: Bench, tmp_path: Path
) -> None:
    """An upgrade of the driver: what runs keeps the old file, what starts takes the new one."""
    library = bench.copy_library(tmp_path)
    with Running(loop(bench, "wait"), tmp_path) as old:
        assert old.line() == "waiting"
        bench.copy_library(tmp_path / "new").replace(library)
        with Running(loop(bench, "wait"), tmp_path) as new:
            assert new.line() == "waiting"
            assert source.refresh() >= 2
            old.finish()
            new.finish()
            seen = events_of(source, old.pid, new.pid)
    rows = seen[seen["operation"] == Operation.LAUNCH_KERNEL]
    assert [int((rows["pid"] == pid).sum()) for pid in (old.pid, new.pid)] == [2 * ROUNDS] * 2


def test_a_library_that_only_another_mount_namespace_has_is_found(
    source: ProbeSource, bench: Bench, tmp_path: Path
) -> None:
    script = f"mount -t tmpfs none /mnt && cp {bench.library} /mnt/"
    with Running(elsewhere(script, bench, "wait"), tmp_path) as running:
        assert running.line() == "waiting"
        assert source.refresh() >= 1
        running.finish()
        assert launches(source, running.pid) == 2 * ROUNDS


def test_a_container_that_lives_for_a_moment_is_seen_whole_where_it_has_the_node_s_library(
    source: ProbeSource, bench: Bench, tmp_path: Path
) -> None:
    """As the container toolkit mounts it: another name, another namespace, the same file."""
    there = "/mnt/libcuda.so.1"
    script = f"mount -t tmpfs none /mnt && touch {there} && mount --bind {bench.library} {there}"
    with Running(elsewhere(script, bench), tmp_path) as running:
        running.finish()
        assert launches(source, running.pid) == ROUNDS


def test_the_node_s_own_library_is_probed_before_anybody_has_it_and_while_it_lies_there(
    bench: Bench, tmp_path: Path
) -> None:
    node = tmp_path / "node"
    place = node / LIBRARY_PLACES[0]
    library = bench.copy_library(place.parent)
    library.rename(place.with_name("libcuda.so.535.1"))
    place.symlink_to("libcuda.so.535.1")
    with started(proc=tmp_path, node_root=node) as source:  # it finds no process by itself
        assert source.refresh() == 1
        for _ in range(RELEASE_AFTER_SCANS + 2):
            assert source.refresh() == 0
        with Running(loop(bench), place.parent) as running:
            running.finish()
            assert launches(source, running.pid) == ROUNDS
        place.unlink()  # the driver is replaced by another
        bench.copy_library(place.parent)
        assert source.refresh() == 1
        assert len(source.probes()) == 2
        for _ in range(RELEASE_AFTER_SCANS + 2):
            source.refresh()
        assert [report.inode for report in source.probes()] == [place.stat().st_ino]


COUNTING = """
import ctypes, select, sys, time
driver = ctypes.CDLL(sys.argv[1])
number = 0
while not select.select([sys.stdin], [], [], 0.001)[0]:
    number += 1
    driver.cuMemcpyHtoD_v2(ctypes.c_ulonglong(0), None, ctypes.c_size_t(number))
print(number)
"""
"""Numbers its copies by their bytes, until it is told to end."""


def followed(source: ProbeSource, pid: int) -> RawEvents:
    """The first calls of the process that are seen, with no look at the machine's processes."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        assert source.follow(0.1)
        seen = events_of(source, pid)
        if len(seen):
            return seen
    raise AssertionError("the process was not found")


def test_of_a_process_with_a_library_of_its_own_every_call_is_seen_once_from_some_point_on(
    source: ProbeSource, bench: Bench, tmp_path: Path
) -> None:
    script = f"mount -t tmpfs none /mnt && cp {bench.library} /mnt/"
    command = [*elsewhere(script, bench)[:6], sys.executable, "-c", COUNTING, "/mnt/libcuda.so.1"]
    with Running(command, tmp_path) as running:
        first = followed(source, running.pid)
        calls = int(running.finish())
        seen = np.concatenate([first, events_of(source, running.pid)])["bytes"]
    assert seen.tolist() == list(range(int(seen[0]), calls + 1))


def test_to_follow_ends_with_a_file_that_is_probed_and_says_so_until_it_is_asked_which(
    source: ProbeSource, bench: Bench, tmp_path: Path
) -> None:
    source.refresh()
    source.probes()
    library = bench.copy_library(tmp_path)
    with Running(loop(bench, "wait"), tmp_path) as running:
        assert running.line() == "waiting"
        assert source.follow(WAIT_S)  # for as long the test would wait
        assert source.probes_changed
        assert library_file(library).key in {(report.device, report.inode) for report in source.probes()}
        assert not source.probes_changed
        running.finish()


def test_a_library_that_a_process_loads_late_is_found_when_it_does(
    source: ProbeSource, bench: Bench, tmp_path: Path
) -> None:
    library = bench.copy_library(tmp_path)
    with Running([bench.program("late"), library, str(ROUNDS)], tmp_path) as running:
        assert running.line() == "ready"
        source.follow(0.01)
        running.go_on()
        assert running.line() == "loaded"
        probed = {(report.device, report.inode) for report in source.probes()}
        assert library_file(library).key not in probed
        source.follow(0.01)
        running.finish()
        assert len(events_of(source, running.pid)) == ROUNDS
