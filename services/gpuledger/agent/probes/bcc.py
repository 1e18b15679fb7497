"""Loads the probes with bcc, which compiles them on this machine."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from pathlib import Path
from typing import Any, Final

from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.btf import task_offsets
from gpuledger.agent.probes.headers import DEBIAN_BCC, ENVIRONMENT, link_bcc, prepare_kernel_headers
from gpuledger.agent.probes.loader import (
    MAIN_SOURCE,
    MULTI_KERNEL,
    SOURCE_PLACES,
    TRACEPOINT_PROGRAMS,
    UPROBE_PROGRAMS,
    kernel_version,
)
from gpuledger.agent.probes.symbols import Limits, c_preamble
from gpuledger.contract.errors import Unsupported

_SURROUNDINGS: Final = "bcc.h"

_CFLAGS: Final = ("-Wno-macro-redefined", "-Wno-unused-function", "-Wno-duplicate-decl-specifier")
"""Headers of another kernel version than the running one redefine a few macros of bcc's own."""

_METHODS: Final = (
    (re.compile(r"bpf_map_lookup_elem\(&(\w+), "), r"\1.lookup("),
    (re.compile(r"bpf_map_update_elem\(&(\w+), (.+?), BPF_ANY\)"), r"\1.update(\2)"),
    (re.compile(r"bpf_map_update_elem\(&(\w+), (.+?), BPF_NOEXIST\)"), r"\1.insert(\2)"),
    (re.compile(r"bpf_map_delete_elem\(&(\w+), "), r"\1.delete("),
    (re.compile(r"bpf_ringbuf_reserve\(&(\w+), (.+), 0\)"), r"\1.ringbuf_reserve(\2)"),
    (re.compile(r"bpf_ringbuf_submit\((\w+), "), r"events.ringbuf_submit(\1, "),
)
"""A helper's call on a map -> the method that bcc's rewriter wants in its place."""


def bcc_problem() -> str | None:
    """Why bcc can not be used here, None where nothing speaks against it."""
    if importlib.util.find_spec("bcc") is None and not DEBIAN_BCC.is_dir():
        return "the Python package bcc is missing: install python3-bpfcc"
    if prepare_kernel_headers() is None:
        return f"no kernel headers: install linux-headers-cloud-amd64 or the like, or set {ENVIRONMENT}"
    return None


def source_text(places: tuple[Path, ...] = SOURCE_PLACES) -> str:
    """The C source of the probes as bcc takes it, with its own includes put in place: bcc rewrites only what
    is in the main text.

    Raises Unsupported where the installation lacks it.
    """
    for place in places:
        if (place / MAIN_SOURCE).is_file():
            text = _with_includes(place, _SURROUNDINGS) + _with_includes(place, MAIN_SOURCE)
            for helper, method in _METHODS:
                text = helper.sub(method, text)
            return text
    raise Unsupported(f"{MAIN_SOURCE} is in none of {', '.join(map(str, places))}")


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
        reason = bcc_problem()
        if reason is not None or link_bcc() is None:
            raise Unsupported(reason or "the Python package bcc can not be made importable")
        os.environ[ENVIRONMENT] = str(prepare_kernel_headers())
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
