"""How the probes get into the kernel, and what is said where they can not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuledger.agent.probes import Limits, LoaderKind
from gpuledger.agent.probes.libbpf import BUILT, LibbpfLoader
from gpuledger.agent.probes.loader import TRACEPOINT_PROGRAMS, UPROBE_PROGRAMS
from gpuledger.agent.probes.loading import load
from gpuledger.agent.probes.symbols import table_digest
from gpuledger.contract.errors import Unsupported
from tests.bpf.workbench import LOADERS

MOST_CHECKED = 1_000_000  # instructions of a program (BPF_COMPLEXITY_LIMIT_INSNS)

WITHOUT_COMPILER = """
import sys
from gpuledger.agent.probes import ProbeSource
source = ProbeSource()
source.start()
mapped = open("/proc/self/maps").read()
source.close()
assert "libbpf.so" in mapped
assert "LLVM" not in mapped and "libclang" not in mapped and "libbcc" not in mapped, "a compiler is mapped"
assert "bcc" not in sys.modules
print("ok")
"""


def test_auto_takes_libbpf_where_it_can() -> None:
    loader = load(LoaderKind.AUTO, Limits(ring_bytes=4096))
    loader.close()
    assert isinstance(loader, LibbpfLoader)


def test_with_libbpf_no_compiler_is_started_or_mapped(tmp_path: Path) -> None:
    """With an empty PATH nothing could be started."""
    environment = {**os.environ, "PATH": str(tmp_path), "BCC_KERNEL_SOURCE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "ok\n", done.stderr


def test_sizes_of_maps_are_those_that_were_asked_for() -> None:
    limits = Limits(ring_bytes=8192, threads=101, processes=103, contexts=107, allocations=109)
    loader = LibbpfLoader(limits)
    try:
        for name, entries in limits.map_entries().items():
            said = Path(f"/proc/self/fdinfo/{loader.map(name)}").read_text()
            assert f"max_entries:\t{entries}\n" in said, name
    finally:
        loader.close()


@pytest.mark.parametrize("kind", LOADERS)
def test_no_program_is_near_what_the_kernel_agrees_to_check(kind: LoaderKind) -> None:
    """Another compiler or another kernel may need some times as much for the same source."""
    loader = load(kind, Limits(ring_bytes=4096))
    try:
        for name in (*UPROBE_PROGRAMS, *TRACEPOINT_PROGRAMS):
            said = Path(f"/proc/self/fdinfo/{loader.program(name)}").read_text()
            found = re.search(r"verified_insns:\t(\d+)", said)
            assert found is not None
            assert 0 < int(found[1]) < MOST_CHECKED / 4, name
    finally:
        loader.close()


def test_both_ways_every_program_and_map_has_a_descriptor() -> None:
    loader = LibbpfLoader(Limits(ring_bytes=4096))
    fds = [loader.program(name) for name in (*UPROBE_PROGRAMS, *TRACEPOINT_PROGRAMS)]
    assert all(str(Path(f"/proc/self/fd/{fd}").readlink()) == "anon_inode:bpf-prog" for fd in fds)
    with pytest.raises(KeyError):
        loader.map("nothing")
    loader.close()
    loader.close()
    assert not any(Path(f"/proc/self/fd/{fd}").exists() for fd in fds)


def test_an_object_of_another_table_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "cuda.bpf.o"
    other.write_bytes(BUILT.read_bytes().replace(table_digest().encode(), b"0" * 64))
    with pytest.raises(Unsupported, match="another version"):
        LibbpfLoader(Limits(), path=other)


def test_an_object_that_is_none_is_refused_with_libbpfs_reason(tmp_path: Path) -> None:
    broken = tmp_path / "cuda.bpf.o"
    broken.write_bytes(table_digest().encode())
    with pytest.raises(Unsupported, match="no object of probes"):
        LibbpfLoader(Limits(), path=broken)


def test_what_the_kernel_refuses_is_told() -> None:
    with pytest.raises(Unsupported, match="refuses"):
        LibbpfLoader(Limits(threads=0))
