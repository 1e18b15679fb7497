"""The kernel's records of executable mappings, from which processes with a libcuda are known at once."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent.probes.finder import Finder
from gpuledger.agent.probes.mappings import MappingWatch
from tests.bpf.workbench import ROOMY_PAGES
from tests.support.waiting import PATIENCE_S, until


@pytest.fixture
def watch() -> Iterator[MappingWatch]:
    opened = MappingWatch(ring_pages=ROOMY_PAGES)
    yield opened
    opened.close()


@pytest.fixture
def small() -> Iterator[MappingWatch]:
    """Its rings hold some thirty mappings, those of all processes of the machine."""
    opened = MappingWatch(ring_pages=1)
    yield opened
    opened.close()


def map_file(path: Path, protection: int = mmap.PROT_READ | mmap.PROT_EXEC) -> None:
    if not path.exists():
        path.write_bytes(bytes(mmap.PAGESIZE))
    with path.open("rb") as file:
        mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE, protection).close()


def test_whoever_maps_a_libcuda_to_run_it_is_told(watch: MappingWatch, tmp_path: Path) -> None:
    map_file(tmp_path / "libcuda.so.570.86.15")
    assert any(os.getpid() in pids for pids in watch.watch(PATIENCE_S))


def test_however_late_it_is_what_is_there_is_told(watch: MappingWatch, tmp_path: Path) -> None:
    """Its time may be over before it has begun, where the machine let it wait."""
    map_file(tmp_path / "libcuda.so.1")
    assert any(os.getpid() in pids for pids in watch.watch(0.0))


def test_other_files_and_files_that_are_only_read_are_not_told(watch: MappingWatch, tmp_path: Path) -> None:
    map_file(tmp_path / "libcuda.so.1", mmap.PROT_READ)
    map_file(tmp_path / "libcudart.so.12")
    assert os.getpid() not in watch.take()


def test_what_comes_too_fast_is_counted_and_what_follows_is_told(small: MappingWatch, tmp_path: Path) -> None:
    for _ in range(1000):
        map_file(tmp_path / "other.so")
    small.take()
    assert small.may_lack

    def told() -> bool:  # others may fill a ring again, and what was lost is said on the CPU that lost it
        map_file(tmp_path / "libcuda.so.1")
        return os.getpid() in small.take() and small.lost > 0

    until(told)


def test_what_a_full_ring_had_no_room_for_is_found_in_the_same_look(tmp_path: Path) -> None:
    finder, library, other = Finder(), tmp_path / "libcuda.so.1", tmp_path / "other.so"
    library.write_bytes(bytes(mmap.PAGESIZE))
    finder.start()
    try:
        finder.look()
        for _ in range(1000):
            map_file(other)
        with library.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        found = finder.look()
        mapped.close()
    finally:
        finder.close()
    assert library.stat().st_ino in [one.file.inode for one in found if one.pid == os.getpid()]


def test_a_ring_is_read_on_beyond_its_end(watch: MappingWatch, tmp_path: Path) -> None:
    library, other = tmp_path / "libcuda.so.1", tmp_path / "other.so"
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})  # all that it maps is in one ring
    try:
        for _ in range(30 * ROOMY_PAGES):
            map_file(other)
            assert os.getpid() not in watch.take()
            map_file(library)
            assert os.getpid() in watch.take()
    finally:
        os.sched_setaffinity(0, cpus)
    assert watch.lost == 0


def test_it_can_be_closed_twice(watch: MappingWatch) -> None:
    watch.close()
