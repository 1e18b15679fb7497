"""Libraries are found, probed once, and let go."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from gpuledger.agent.probes import Limits, ProbeSource
from gpuledger.agent.probes.bcc import BccLoader
from gpuledger.agent.probes.libbpf import LibbpfLoader
from gpuledger.agent.probes.libraries import LibraryScanner, library_file
from gpuledger.agent.probes.source import RELEASE_AFTER_SCANS
from gpuledger.contract.errors import BadRecord, Unsupported
from gpuledger.contract.operations import Operation
from tests.bpf.workbench import Bench, Running, compile_c, events_of, mounted, run, started
from tests.support.waiting import until

ROUNDS = 23
ATTACHED_LIBRARIES = 3


def attached_files(source: ProbeSource) -> set[tuple[int, int]]:
    return {(report.device, report.inode) for report in source.probes()}


def key(file: Path) -> tuple[int, int]:
    """What names a file; its inode alone may be another's on another file system."""
    return library_file(file).key


def loop(bench: Bench, rounds: int = ROUNDS, *, wait: bool = False) -> list[str]:
    return [str(bench.program("loop")), str(rounds), "1", *(["wait"] if wait else [])]


def launches(source: ProbeSource, pid: int) -> int:
    return int((events_of(source, pid)["operation"] == Operation.LAUNCH_KERNEL).sum())


def test_a_library_that_a_running_process_has_mapped_is_found(
    source: ProbeSource, bench: Bench, tmp_path: Path
) -> None:
    library = bench.copy_library(tmp_path)
    with Running(loop(bench, wait=True), tmp_path) as running:
        assert running.line() == "waiting"
        assert source.refresh() >= 1
        assert key(library) in attached_files(source)
        running.finish()
        assert launches(source, running.pid) == 2 * ROUNDS


def test_a_library_loaded_after_the_first_look_is_found_by_the_next(
    source: ProbeSource, bench: Bench, tmp_path: Path
) -> None:
    library = bench.copy_library(tmp_path)
    with Running([bench.program("late"), library, str(ROUNDS)], tmp_path) as running:
        assert running.line() == "ready"
        source.refresh()
        assert key(library) not in attached_files(source)
        running.go_on()
        assert running.line() == "loaded"
        source.refresh()
        assert key(library) in attached_files(source)
        running.finish()
        assert len(events_of(source, running.pid)) == ROUNDS


def test_a_process_that_maps_nothing_new_is_not_read_again(bench: Bench) -> None:
    scanner = LibraryScanner()
    with Running(loop(bench, wait=True), bench.directory) as running:
        assert running.line() == "waiting"
        found = [[one.file.key for one in scanner.scan() if one.pid == running.pid] for _ in range(2)]
    assert found == [[key(bench.library)], []]


def test_two_names_of_one_file_count_once(source: ProbeSource, bench: Bench, tmp_path: Path) -> None:
    library = bench.copy_library(tmp_path)
    other = tmp_path / "libcuda.so.999"
    other.hardlink_to(library)
    source.preattach(library)
    files = len(source.probes())
    source.preattach(other)
    source.preattach(Path(f"/proc/{os.getpid()}/root{other}"))
    assert len(source.probes()) == files
    pid, _ = run(loop(bench), tmp_path)
    assert launches(source, pid) == ROUNDS


def test_one_file_below_two_overlays_counts_once(bench: Bench, tmp_path: Path) -> None:
    bench.copy_library(tmp_path / "image")
    with overlay(tmp_path, "one") as one, overlay(tmp_path, "two") as two, started() as source:
        source.preattach(one / "libcuda.so.1")
        source.preattach(two / "libcuda.so.1")
        pid, out = run([bench.program("calls")], two)
        events = events_of(source, pid)
        losses = source.losses()
    rows = [line.split() for line in out.splitlines()]
    assert events["bytes"].tolist() == [int(row[1]) for row in rows]
    assert events["ordinal"].tolist() == [int(row[5]) for row in rows]
    assert losses.duplicate > 0
    assert losses.events == 0


def test_a_library_that_nobody_has_any_more_is_let_go(bench: Bench, tmp_path: Path) -> None:
    library = bench.copy_library(tmp_path)
    with started() as source:
        source.preattach(bench.library)
        with Running(loop(bench, wait=True), tmp_path) as running:
            assert running.line() == "waiting"
            for _ in range(RELEASE_AFTER_SCANS + 5):
                source.refresh()
            assert key(library) in attached_files(source)
        for _ in range(RELEASE_AFTER_SCANS + 5):
            source.refresh()
        assert key(library) not in attached_files(source)
        assert key(bench.library) in attached_files(source)


def test_a_file_that_was_refused_is_reported_as_long_as_somebody_has_it(tmp_path: Path) -> None:
    process = tmp_path / "proc" / "42"
    (process / "root").mkdir(parents=True)
    (process / "stat").write_text(f"42 (a) S {'0 ' * 18}100 1000 0\n")
    (process / "maps").write_text("7f10-7f20 r-xp 0 fe:00 7 /libcuda.so.1\n")
    text = process / "root" / "libcuda.so.1"
    text.write_text("not a library\n")
    with started(proc=tmp_path / "proc") as source:
        for _ in range(RELEASE_AFTER_SCANS + 5):
            assert source.refresh() == 0
        assert [report.inode for report in source.probes() if report.error] == [text.stat().st_ino]
        process.rename(tmp_path / "ended")
        for _ in range(RELEASE_AFTER_SCANS + 5):
            source.refresh()
        assert source.probes() == []


@contextmanager
def overlay(below: Path, name: str) -> Iterator[Path]:
    """A container's view of an image: an overlay of its own over the same lower directory."""
    place = below / name
    for part in ("upper", "work", "merged"):
        (place / part).mkdir(parents=True)
    options = f"lowerdir={below}/image,upperdir={place}/upper,workdir={place}/work"
    with mounted(place / "merged", "-t", "overlay", "overlay", "-o", options) as merged:
        yield merged


def test_what_a_library_does_not_export_is_reported(source: ProbeSource, tmp_path: Path) -> None:
    code = tmp_path / "small.c"
    code.write_text(
        "int cuInit(unsigned f) { return (int)f; }\n"
        "int cuMemcpy(void) { return 1; }\n"
        'int cuMemcpy_ptds(void) __attribute__((alias("cuMemcpy")));\n'
    )
    library = tmp_path / "libcuda.so.1"
    compile_c([str(code)], library, ["-fPIC", "-shared"])
    source.preattach(library)
    [report] = [r for r in source.probes() if r.path == str(library)]
    assert set(report.attached) == {"cuInit", "cuMemcpy"}
    assert report.aliased == (("cuMemcpy_ptds", "cuMemcpy"),)
    assert "cuLaunchKernel" in report.missing
    assert report.inode == library.stat().st_ino


def test_a_file_that_is_no_library_is_refused_and_leaves_nothing(source: ProbeSource, tmp_path: Path) -> None:
    before, files = descriptors(), len(source.probes())
    text = tmp_path / "libcuda.so.1"
    text.write_text("not a library\n")
    with pytest.raises(BadRecord):
        source.preattach(text)
    with pytest.raises(FileNotFoundError):
        source.preattach(tmp_path / "absent.so")
    assert len(source.probes()) == files
    assert descriptors() == before


@pytest.mark.parametrize("load", [LibbpfLoader, BccLoader])
def test_kernels_without_multi_links_count_the_same(
    load: type[LibbpfLoader] | type[BccLoader], bench: Bench, tmp_path: Path
) -> None:
    code = tmp_path / "small.c"
    code.write_text("int cuInit(unsigned f) { return (int)f; }\n")
    library = tmp_path / "libcuda.so.1"
    compile_c([str(code)], library, ["-fPIC", "-shared"])
    before = descriptors()
    with started(load=partial(load, multi=False)) as source:
        source.preattach(library)
        with Running([bench.program("late"), library, str(ROUNDS)], tmp_path) as running:
            running.go_on()
            running.finish()
            events = events_of(source, running.pid)
    assert events["operation"].tolist() == [Operation.INITIALISE] * ROUNDS
    assert descriptors() == before


def test_a_mapped_file_that_is_no_library_is_reported_and_not_tried_again(
    source: ProbeSource, tmp_path: Path
) -> None:
    false = tmp_path / "libcuda.so.1"
    false.write_bytes(bytes(8192))
    protection = mmap.PROT_READ | mmap.PROT_EXEC
    with false.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, protection):
        source.refresh()
        source.refresh()
    [report] = [r for r in source.probes() if (r.device, r.inode) == key(false)]
    assert report.attached == ()
    assert "ELF" in report.error


def test_closing_detaches_and_leaves_no_descriptor(bench: Bench, tmp_path: Path) -> None:
    library = bench.copy_library(tmp_path)
    before = descriptors()
    with started() as source:
        source.preattach(library)
        pid, out = run([bench.program("calls")], tmp_path)
        assert len(events_of(source, pid)) == len(out.splitlines())
        library.unlink()  # what it was attached through is gone
        assert descriptors() != before
    source.close()
    assert descriptors() == before
    with pytest.raises(Unsupported):
        source.drain()


def descriptors() -> dict[str, int]:
    """What this process has open in the kernel's BPF and perf machinery: kind -> how many."""
    out: dict[str, int] = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue
        if "bpf" in target or "perf" in target:
            out[target] = out.get(target, 0) + 1
    return out


@pytest.mark.parametrize("program", ["loop", "bursts"])
def test_attaching_to_a_library_in_the_midst_of_calls_loses_none(
    bench: Bench, tmp_path: Path, program: str
) -> None:
    """A call that began before its return was probed is none of those that were promised, also where the
    next call comes from the same place."""
    with ExitStack() as stack:
        source = stack.enter_context(started(limits=Limits(ring_bytes=1 << 24)))
        for number in range(ATTACHED_LIBRARIES):
            place = tmp_path / str(number)
            library = bench.copy_library(place)
            endless = [str(bench.program(program)), str(2**31 - 1), "1", "wait"]
            running = stack.enter_context(Running(endless, place))
            assert running.line() == "waiting"
            attach_midway(source, running, library)
            running.process.kill()
            running.process.wait()
        found = source.losses()  # a machine that lets this test wait may fill the ring meanwhile
        assert (found.return_without_entry, found.unreturned, found.threads_full) == (0, 0, 0)


def attach_midway(source: ProbeSource, running: Running, library: Path) -> None:
    """Once the process, which waits, calls without pause; until it is seen: what a call leaves behind shows
    at the next one."""

    def ticks() -> int:
        return sum(map(int, Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))

    begun = ticks()
    running.go_on()
    until(lambda: ticks() > begun + 1, pause_s=0.005)
    source.preattach(library)
    until(lambda: len(events_of(source, running.pid)) > 0)
