"""What a loaded set of probes costs the process that loaded it: no compiler stays in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger.agent.probes import LoaderKind
from tests.bpf.workbench import Bench, Running, started

COMPILER = ("LLVM", "clang", "libbcc")


def mapped() -> str:
    return Path("/proc/self/maps").read_text()


def test_bcc_s_compiler_is_not_in_the_agents_process() -> None:
    before = mapped()
    with started(loader=LoaderKind.BCC) as source:
        text = mapped()
        assert source.losses().events == 0
    assert not [name for name in COMPILER if name in text and name not in before]


def test_what_bcc_loaded_is_gone_when_it_is_closed() -> None:
    def programs() -> int:
        links = (entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
        return sum("bpf" in str(link.readlink()) for link in links)

    before = programs()
    with started(loader=LoaderKind.BCC):
        assert programs() > before
    assert programs() == before


@pytest.mark.parametrize("loader", [LoaderKind.BCC, LoaderKind.LIBBPF])
def test_calls_are_seen_though_whoever_compiled_the_probes_is_gone(bench: Bench, loader: LoaderKind) -> None:
    with started(bench.library, loader=loader) as source:
        with Running([bench.program("bursts"), "3"], bench.directory) as running:
            assert running.line() == "waiting"
            running.go_on()
            running.process.wait()
        seen = source.drain()
        assert (seen["pid"] == running.pid).sum() >= 3 * 65
