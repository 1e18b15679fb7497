"""Loads the probes into the kernel: what the two ways of doing it have in common, and which one is taken.

Attaching them and reading their maps is done elsewhere.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from gpuledger.agent.probes.symbols import ENTRY_PROGRAMS, RETURN_PROGRAM

_HERE: Final = Path(__file__).resolve()
CHECKOUT: Final = _HERE.parents[4]
INSTALLED: Final = _HERE.parents[2] / "_bpf"
SOURCE_PLACES: Final = (INSTALLED, CHECKOUT / "bpf")
"""Inside the installed distribution, or at the top of a checkout."""

MAIN_SOURCE: Final = "cuda.bpf.c"
DRIVER_SOURCE: Final = "nvidia.bpf.c"

UPROBE_PROGRAMS: Final = (*ENTRY_PROGRAMS.values(), RETURN_PROGRAM)
TRACEPOINT_PROGRAMS: Final = {
    "on_exit": "sched_process_exit",
    "on_exec": "sched_process_exec",
    "on_rmdir": "cgroup_rmdir",
}

MULTI_KERNEL: Final = (6, 6)  # the first with BPF_TRACE_UPROBE_MULTI


class LoaderKind(StrEnum):
    """How the programs get into the kernel."""

    AUTO = "auto"
    """libbpf where it can, else bcc."""
    LIBBPF = "libbpf"
    """An object compiled ahead; needs libbpf.so.1 and the kernel's BTF."""
    BCC = "bcc"
    """Compiled on this machine; needs bcc, its LLVM and kernel headers."""


def kernel_version() -> tuple[int, int]:
    """Major and minor version of the running kernel."""
    major, minor, *_ = os.uname().release.split("-")[0].split(".")
    return int(major), int(minor)


class Loader(Protocol):
    """Programs and maps in the kernel. Owns their descriptors, which `close` alone closes."""

    @property
    def multi(self) -> bool:
        """Whether the programs for functions were loaded for multi links, else for perf links."""

    def program(self, name: str) -> int:
        """The descriptor of a program of bpf/cuda.bpf.c."""

    def map(self, name: str) -> int:
        """The descriptor of a map of bpf/cuda.bpf.c."""

    def close(self) -> None:
        """Unloads what nothing is attached to any more. May be called twice."""
