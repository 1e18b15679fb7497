"""Loads the probes with bcc, which compiles them on this machine, in a process of its own.

bcc brings LLVM along, 100 MB that are used for a second. A child compiles and loads; it hands the descriptors
of programs and maps over, and is gone. The kernel keeps what a descriptor is open of, whoever loaded it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from gpuledger.agent.privileges import handed_on
from gpuledger.agent.probes.handed import Handed, receive
from gpuledger.agent.probes.headers import DEBIAN_BCC, ENVIRONMENT, prepare_kernel_headers
from gpuledger.agent.probes.loader import (
    MAIN_SOURCE,
    MULTI_KERNEL,
    SOURCE_PLACES,
    kernel_version,
)
from gpuledger.agent.probes.symbols import Limits
from gpuledger.contract.errors import Unsupported

_SURROUNDINGS: Final = "bcc.h"
_COMPILER: Final = "gpuledger.agent.probes.bcc_compile"
_COMPILE_S: Final = 120.0  # two seconds where the machine is free

_METHODS: Final = (
    (re.compile(r"bpf_map_lookup_elem\(&(\w+), "), r"\1.lookup("),
    (re.compile(r"bpf_map_update_elem\(&(\w+), (.+?), BPF_ANY\)"), r"\1.update(\2)"),
    (re.compile(r"bpf_map_update_elem\(&(\w+), (.+?), BPF_NOEXIST\)"), r"\1.insert(\2)"),
    (re.compile(r"bpf_map_delete_elem\(&(\w+), "), r"\1.delete("),
    (re.compile(r"bpf_map_push_elem\(&(\w+), "), r"\1.push("),
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


class BccLoader:
    """Compiles the probes on this machine with bcc. Needs root, bcc and kernel headers.

    ``multi`` as in `Loader`; by default what the kernel can. Raises Unsupported where something is missing or
    the kernel refuses the programs.
    """

    def __init__(self, limits: Limits, multi: bool | None = None) -> None:
        self.multi: Final = kernel_version() >= MULTI_KERNEL if multi is None else multi
        reason = bcc_problem()
        if reason is not None:
            raise Unsupported(reason)
        self._handed: Handed | None = self._compile(limits)

    def _compile(self, limits: Limits) -> Handed:
        ours, theirs = socket.socketpair()
        order = json.dumps({"limits": asdict(limits), "multi": self.multi})
        command = [sys.executable, "-m", _COMPILER, str(theirs.fileno()), order]
        with handed_on():
            compiler = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        with ours, compiler:
            theirs.close()
            ours.settimeout(_COMPILE_S)
            try:
                return receive(ours)
            except TimeoutError as error:
                raise Unsupported(f"bcc did not compile the probes in {_COMPILE_S:g} s") from error
            except EOFError as error:
                raise Unsupported(f"bcc's process ended with status {compiler.wait()}") from error
            finally:
                compiler.kill()

    def program(self, name: str) -> int:
        """See `Loader`."""
        return self._here().programs[name]

    def map(self, name: str) -> int:
        """See `Loader`."""
        return self._here().maps[name]

    def close(self) -> None:
        """See `Loader`."""
        if self._handed is not None:
            for fd in self._handed.descriptors():
                os.close(fd)
            self._handed = None

    def _here(self) -> Handed:
        if self._handed is None:
            raise Unsupported("the probes are unloaded")
        return self._handed
