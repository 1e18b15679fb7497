"""Reading libraries, type information, header trees and /proc."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from gpuledger.agent.probes.attach import choose
from gpuledger.agent.probes.btf import field_offsets, kernel_offsets
from gpuledger.agent.probes.elf import exported_functions
from gpuledger.agent.probes.headers import link_tree
from gpuledger.agent.probes.libraries import (
    OLD_SCANS,
    YOUNG_SCANS,
    LibraryScanner,
    library_ranges,
    range_name,
)
from gpuledger.contract.errors import BadRecord


def library(path: Path, code: str) -> Path:
    source = path.with_suffix(".c")
    source.write_text(code)
    subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-o", path, source], check=True)
    return path


def test_exported_functions_are_found_at_their_place_in_the_file(tmp_path: Path) -> None:
    code = "int cuInit(int f) { return f + 0x12345; }\nstatic int hidden(void) { return 1; }\n"
    code += "int table[9] = {1};\nint other(void) { return hidden(); }\nint puts(const char *);\n"
    code += "int third(void) { return puts(0); }\n"
    path = library(tmp_path / "one.so", code)
    found = exported_functions(path)
    assert {"cuInit", "other", "third"} <= found.keys()
    assert not {"hidden", "table", "puts"} & found.keys()
    body = path.read_bytes()[found["cuInit"] : found["cuInit"] + 16]
    assert struct.pack("<I", 0x12345) in body


@pytest.mark.parametrize("name", ["libc.so.6", "libm.so.6"])
def test_a_library_is_read_as_pyelftools_reads_it(name: str) -> None:
    path = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if name in line)
    with Path(path).open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".dynsym")
        assert isinstance(table, SymbolTableSection)
        loads = [segment.header for segment in elf.iter_segments("PT_LOAD")]
        expected = {
            symbol.name: symbol["st_value"] - load.p_vaddr + load.p_offset
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF"
            for load in loads
            if load.p_vaddr <= symbol["st_value"] < load.p_vaddr + load.p_filesz
        }
    assert len(expected) > 500
    assert exported_functions(path) == expected


def test_a_library_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    whole = library(tmp_path / "one.so", "int cuInit(int f) { return f; }\n").read_bytes()
    cut = tmp_path / "cut.so"
    for size in range(0, len(whole), 97):
        cut.write_bytes(whole[:size])
        with pytest.raises(BadRecord, match=str(cut)):
            exported_functions(cut)


def test_a_library_with_numbers_that_make_no_sense_is_refused_or_read(tmp_path: Path) -> None:
    whole = library(tmp_path / "one.so", "int cuInit(int f) { return f; }\n").read_bytes()
    odd = tmp_path / "odd.so"
    for at in range(32, 64, 2):  # where its tables lie, and how large they are
        odd.write_bytes(whole[:at] + b"\xff\xff" + whole[at + 2 :])
        with contextlib.suppress(BadRecord):
            assert isinstance(exported_functions(odd), dict)


def test_a_file_that_is_no_elf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("#!/bin/sh\n")
    with pytest.raises(BadRecord, match=str(path)):
        exported_functions(path)


def test_two_names_at_one_place_are_probed_once() -> None:
    chosen, missing, aliased = choose({"cuInit": 64, "cuMemcpy": 128, "cuMemcpy_ptds": 128, "unknown": 7})
    assert [(symbol.name, offset) for symbol, offset in chosen] == [("cuMemcpy", 128), ("cuInit", 64)]
    assert aliased == (("cuMemcpy_ptds", "cuMemcpy"),)
    assert "cuLaunchKernel" in missing
    assert "cuMemcpy_ptds" not in missing


def btf(types: bytes, strings: bytes) -> bytes:
    return (
        struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings)) + types + strings
    )


def test_offsets_are_read_from_type_information() -> None:
    strings = b"\0int\0inner\0outer\0first\0second\0bit\0"
    at = {
        name: strings.index(b"\0" + name.encode() + b"\0") + 1
        for name in ("int", "inner", "outer", "first", "second", "bit")
    }
    integer = struct.pack("=IIII", at["int"], 1 << 24, 4, 32)
    inner = struct.pack("=III", at["inner"], 4 << 24 | 1, 4) + struct.pack("=III", at["first"], 1, 0)
    members = [(at["first"], 64), (at["second"], 24 << 24 | 320), (at["bit"], 1 << 24 | 13)]
    outer = struct.pack("=III", at["outer"], 1 << 31 | 4 << 24 | 3, 48)
    outer += b"".join(struct.pack("=III", name, 1, offset) for name, offset in members)
    found = field_offsets(
        btf(integer + inner + outer, strings), {"outer": {"first", "second", "bit", "absent"}}
    )
    assert found == {("outer", "first"): 8, ("outer", "second"): 40}


def test_what_is_no_type_information_gives_no_offsets(tmp_path: Path) -> None:
    assert kernel_offsets(tmp_path / "absent") == {}
    broken = tmp_path / "broken"
    broken.write_bytes(bytes(64))
    assert kernel_offsets(broken) == {}
    with pytest.raises(ValueError, match="shorter"):
        field_offsets(b"", {})


def test_header_packages_are_merged_without_copying(tmp_path: Path) -> None:
    common, flavour = tmp_path / "common", tmp_path / "flavour"
    for name in ("include/linux/a.h", "arch/x86/include/asm/b.h", "Makefile"):
        file = common / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("common")
    for name in ("include/generated/c.h", "arch/x86/include/generated/d.h", "Makefile"):
        file = flavour / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("flavour")
    merged = tmp_path / "merged"
    for _ in range(2):
        link_tree((common, flavour), merged)
        files = {
            str(Path(folder, name).relative_to(merged)): Path(folder, name).read_text()
            for folder, _, names in os.walk(merged, followlinks=True)
            for name in names
        }
        assert files == {
            "include/linux/a.h": "common",
            "arch/x86/include/asm/b.h": "common",
            "include/generated/c.h": "flavour",
            "arch/x86/include/generated/d.h": "flavour",
            "Makefile": "flavour",
        }


MAPS = b"""\
55d0c0000000-55d0c0001000 r--p 00000000 fe:00 11 /usr/bin/python3
00400000-00500000 r-xp 00000000 fe:00 77 /opt/a dir/libcuda.so.550.54.15
7f1000000000-7f1000001000 r--p 00000000 fe:00 77 /opt/a dir/libcuda.so.550.54.15
7f2000000000-7f2000001000 r-xp 00000000 00:2a 78 /usr/lib/libcuda.so.1 (deleted)
7f3000000000-7f3000001000 r-xp 00000000 fe:00 79 /usr/lib/libcudart.so.12
7f4000000000-7f4000001000 r-xp 00000000 fe:00 80 /srv/libcuda.so.d/readme
7f5000000000-7f5000001000 rw-p 00000000 00:00 0
"""


def test_libraries_are_found_in_the_maps_of_a_process_once_a_file() -> None:
    assert list(library_ranges(MAPS)) == [
        ("400000-500000", "/opt/a dir/libcuda.so.550.54.15"),
        ("7f2000000000-7f2000001000", "/usr/lib/libcuda.so.1"),
    ]
    assert range_name("00400000-7ffff000") == "400000-7ffff000"


class FakeProc:
    """A directory that looks like /proc for one process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.process = root / "42"
        (self.process / "root").mkdir(parents=True)
        (root / "cpuinfo").write_text("")

    def set(self, start: int, size: int, maps: bytes = b"") -> None:
        fields = ["S", *["0"] * 18, str(start), str(size), "0"]
        (self.process / "stat").write_text(f"42 (a) name) {' '.join(fields)}\n")
        (self.process / "maps").write_bytes(maps)

    def library(self, name: str) -> bytes:
        path = self.process / "root" / name
        path.write_bytes(b"")
        return f"7f10-7f20 r-xp 0 fe:00 7 /{name}\n".encode()


def test_a_process_is_looked_at_again_when_its_size_has_changed(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    scanner = LibraryScanner(tmp_path)
    proc.set(start=100, size=1000)
    assert scanner.scan() == []
    line = proc.library("libcuda.so.1")
    proc.set(start=100, size=1000, maps=line)
    assert scanner.scan() == []
    proc.set(start=100, size=2000, maps=line)
    [mapping] = scanner.scan()
    assert mapping.pid == 42
    assert mapping.file.path == f"{tmp_path}/42/root/libcuda.so.1"
    assert scanner.files_in_use() == {mapping.file.key}


def test_a_pid_that_is_used_again_is_a_new_process(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    scanner = LibraryScanner(tmp_path)
    line = proc.library("libcuda.so.1")
    proc.set(start=100, size=1000, maps=line)
    assert len(scanner.scan()) == 1
    proc.set(start=200, size=1000, maps=line)
    assert len(scanner.scan()) == 1


def test_a_process_that_ended_uses_nothing(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    scanner = LibraryScanner(tmp_path)
    proc.set(start=100, size=1000, maps=proc.library("libcuda.so.1"))
    scanner.scan()
    (proc.process / "stat").unlink()
    assert scanner.scan() == []
    assert scanner.files_in_use() == set()


def test_a_process_that_is_dead_and_not_reaped_uses_nothing(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    scanner = LibraryScanner(tmp_path)
    proc.set(start=100, size=1000, maps=proc.library("libcuda.so.1"))
    assert len(scanner.scan()) == 1
    proc.set(start=100, size=0)
    scanner.scan()
    assert scanner.files_in_use() == set()


def test_an_old_process_that_loads_the_library_is_found_after_some_scans_and_its_end_at_once(
    tmp_path: Path,
) -> None:
    proc = FakeProc(tmp_path)
    scanner = LibraryScanner(tmp_path)
    proc.set(start=100, size=1000)
    for _ in range(YOUNG_SCANS + 1):
        assert scanner.scan() == []
    proc.set(start=100, size=2000, maps=proc.library("libcuda.so.1"))
    found = [scanner.scan() for _ in range(OLD_SCANS)]
    assert sum(map(len, found)) == 1
    (proc.process / "stat").unlink()
    (proc.process / "maps").unlink()
    proc.process.rename(tmp_path / "gone")
    scanner.scan()
    assert scanner.files_in_use() == set()


def test_a_scan_of_everything_finds_what_an_old_process_has_loaded_at_once(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    scanner = LibraryScanner(tmp_path)
    proc.set(start=100, size=1000)
    for _ in range(YOUNG_SCANS + 1):
        assert scanner.scan() == []
    proc.set(start=100, size=2000, maps=proc.library("libcuda.so.1"))
    assert len(scanner.scan(everything=True)) == 1


def test_of_old_processes_a_scan_reads_some(tmp_path: Path) -> None:
    scanner = LibraryScanner(tmp_path)
    pids = range(1, 10 * OLD_SCANS + 1)
    for pid in pids:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) S {'0 ' * 18}100 1000 0\n")
        (tmp_path / str(pid) / "maps").write_bytes(b"")
    for _ in range(YOUNG_SCANS + OLD_SCANS):
        scanner.scan()
    due = [known.due for known in scanner._looked.values()]
    assert {due.count(scan) for scan in set(due)} == {10}


def test_kernel_threads_are_not_looked_at(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    proc.set(start=100, size=0, maps=proc.library("libcuda.so.1"))
    assert LibraryScanner(tmp_path).scan() == []
