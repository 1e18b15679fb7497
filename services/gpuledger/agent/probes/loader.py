"""Loads the compiled probes into the kernel. Attaching them and reading their maps is done elsewhere."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path
from typing import Any, Final, Protocol

from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.btf import task_offsets
from gpuledger.agent.probes.headers import ENVIRONMENT, link_bcc, prepare_kernel_headers
from gpuledger.agent.probes.symbols import Limits, c_preamble
from gpuledger.contract.errors import Unsupported

_HERE: Final = Path(__file__).resolve()
_PLACES: Final = (_HERE.parents[2] / "_bpf", _HERE.parents[4] / "bpf")
"""Inside the installed distribution, or at the top of a checkout."""

UPROBE_PROGRAMS: Final = ("enter_call", "enter_launch", "enter_launch_config", "leave")
TRACEPOINT_PROGRAMS: Final = {"on_exit": "sched_process_exit", "on_exec": "sched_process_exec"}

MAIN_SOURCE: Final = "cuda.bpf.c"

MULTI_KERNEL: Final = (6, 6)  # the first with BPF_TRACE_UPROBE_MULTI

_CFLAGS: Final = ("-Wno-macro-redefined", "-Wno-unused-function", "-Wno-duplicate-decl-specifier")
"""Headers of another kernel version than the running one redefine a few macros of bcc's own."""


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


def source_text() -> str:
    """The C source of the probes, its own includes put in place: bcc rewrites only what is in the main text.

    Raises Unsupported where the installation lacks it.
    """
    for place in _PLACES:
        if (place / MAIN_SOURCE).is_file():
            return _with_includes(place, MAIN_SOURCE)
    raise Unsupported(f"{MAIN_SOURCE} is in none of {', '.join(map(str, _PLACES))}")


def _with_includes(place: Path, name: str) -> str:
    lines = (place / name).read_text().splitlines(keepends=True)
    return "".join(
        _with_includes(place, line.split('"')[1]) if line.startswith('#include "') else line for line in lines
    )


def _give_back_memory() -> None:
    """The compiler leaves some 25 MB of freed heap behind, which glibc keeps unless it is asked."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class BccLoader:
    """Compiles the probes on this machine with bcc. Needs root, bcc and kernel headers.

    ``multi`` as in `Loader`; by default what the kernel can. Raises Unsupported where something is missing or
    the kernel refuses the programs.
    """

    def __init__(self, limits: Limits, multi: bool | None = None) -> None:
        self.multi: Final = kernel_version() >= MULTI_KERNEL if multi is None else multi
        if link_bcc() is None or importlib.util.find_spec("bcc") is None:
            raise Unsupported("the Python package bcc is missing: install python3-bpfcc")
        headers = prepare_kernel_headers()
        if headers is None:
            raise Unsupported(f"no kernel headers: install linux-headers, or set {ENVIRONMENT}")
        os.environ[ENVIRONMENT] = str(headers)
        bcc: Any = importlib.import_module("bcc")
        text = c_preamble(limits, task_offsets()) + source_text()
        attach = bpfsys.ATTACH_UPROBE_MULTI if self.multi else -1
        try:
            self._bpf: Any = bcc.BPF(text=text.encode(), cflags=list(_CFLAGS))
            self._lib: Any = bcc.lib
            self._programs = {name: self._load(name, bcc.BPF.KPROBE, attach) for name in UPROBE_PROGRAMS}
            for name in TRACEPOINT_PROGRAMS:
                self._programs[name] = self._load(name, bcc.BPF.RAW_TRACEPOINT)
            self._bpf.free_bcc_memory()
            _give_back_memory()
        except Exception as error:  # bcc raises plain Exception for every refusal
            raise Unsupported(f"the kernel or the compiler refuses the probes: {error}") from error

    def _load(self, name: str, kind: int, attach: int = -1) -> int:
        return int(self._bpf.load_func(name.encode(), kind, None, attach).fd)

    def program(self, name: str) -> int:
        """See `Loader`."""
        return int(self._programs[name])

    def map(self, name: str) -> int:
        """See `Loader`."""
        fd = int(self._lib.bpf_table_fd(self._bpf.module, name.encode()))
        if fd < 0:
            raise KeyError(name)
        return fd

    def close(self) -> None:
        """See `Loader`."""
        if self._bpf is not None:
            self._bpf.cleanup()
            self._bpf = None
