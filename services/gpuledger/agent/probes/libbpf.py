"""Loads the probes from an object that was compiled ahead, through libbpf.so.1 by ctypes.

Nothing of a compiler, LLVM or kernel headers is needed on the node; the kernel must tell its BTF
(CONFIG_DEBUG_INFO_BTF, which every distribution kernel since 5.15 has).
API: https://docs.ebpf.io/ebpf-library/libbpf/userspace/ (libbpf 1.0 and later).
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.btf import VMLINUX
from gpuledger.agent.probes.loader import (
    CHECKOUT,
    INSTALLED,
    MULTI_KERNEL,
    UPROBE_PROGRAMS,
    kernel_version,
)
from gpuledger.agent.probes.symbols import Limits, table_digest
from gpuledger.contract.errors import Unsupported

LIBRARY: Final = "libbpf.so.1"
OBJECT: Final = "cuda.bpf.o"
DRIVER_OBJECT: Final = "nvidia.bpf.o"
BUILT: Final = CHECKOUT / "build" / "bpf" / OBJECT
DRIVER_BUILT: Final = BUILT.with_name(DRIVER_OBJECT)

_SAID_CHARACTERS: Final = 4000  # the end of the verifier's log, where its reason stands
_LINE_BYTES: Final = 1 << 16
_WARNING: Final = 0

_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_SIGNATURES: Final = {
    "bpf_object__open_mem": (ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]),
    "bpf_object__load": (ctypes.c_int, [ctypes.c_void_p]),
    "bpf_object__close": (None, [ctypes.c_void_p]),
    "bpf_object__find_program_by_name": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]),
    "bpf_object__find_map_by_name": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]),
    "bpf_program__set_expected_attach_type": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    "bpf_program__fd": (ctypes.c_int, [ctypes.c_void_p]),
    "bpf_map__set_max_entries": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint32]),
    "bpf_map__fd": (ctypes.c_int, [ctypes.c_void_p]),
    "libbpf_set_print": (ctypes.c_void_p, [_PRINT]),
}


def object_path(name: str = OBJECT) -> Path | None:
    """Where an object of this installation is, None where none was built."""
    return next((path for path in (INSTALLED / name, BUILT.with_name(name)) if path.is_file()), None)


def libbpf_problem() -> str | None:
    """Why libbpf can not be used here, None where nothing speaks against it."""
    if object_path() is None:
        return f"the probes were not compiled ahead: no {OBJECT} (make bpf)"
    if not VMLINUX.is_file():
        return f"the kernel tells no BTF ({VMLINUX} is not there)"
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return f"{LIBRARY} is missing: install libbpf1"
    return None


class _Library:
    """libbpf.so.1 with its signatures, and what it complains of while it is listened to."""

    def __init__(self) -> None:
        try:
            self.api = ctypes.CDLL(LIBRARY, use_errno=True)
        except OSError as error:
            raise Unsupported(f"{LIBRARY} is missing: install libbpf1") from error
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self.api, name)
            function.restype, function.argtypes = result, arguments
        self._format = ctypes.CDLL(None).vsnprintf
        self._format.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p]
        self._said: list[str] = []
        self._listener = _PRINT(self._listen)
        self.api.libbpf_set_print(self._listener)

    def _listen(self, level: int, text: bytes, arguments: int) -> int:
        if level == _WARNING:
            line = ctypes.create_string_buffer(_LINE_BYTES)
            self._format(line, _LINE_BYTES, text, arguments)
            self._said.append(line.value.decode(errors="replace"))
        return 0

    def take_complaints(self) -> str:
        """What was said since the last time, its end."""
        said, self._said = "".join(self._said), []
        return said[-_SAID_CHARACTERS:].strip()


@functools.cache
def _library() -> _Library:
    """One for the process: libbpf keeps a single listener, and calls it as long as it is loaded."""
    return _Library()


class BpfObject:
    """Programs and maps of one object in the kernel; owns their descriptors until `close`.

    ``entries`` are sizes of maps by name, ``attach_types`` expected attach types of programs where they need
    one. Raises Unsupported where something is missing, the object is of another version than this code, or
    the kernel refuses the programs.
    """

    def __init__(self, path: Path, entries: Mapping[str, int], attach_types: Mapping[str, int]) -> None:
        image = path.read_bytes()
        if table_digest().encode() not in image:
            raise Unsupported(f"{path} was compiled for another version of the probes: build it again")
        self._library = _library()
        self._api = self._library.api
        self._object: int | None = self._api.bpf_object__open_mem(image, len(image), None)
        if not self._object:
            raise self._refusal(f"{path} is no object of probes")
        try:
            for name, count in entries.items():
                if self._api.bpf_map__set_max_entries(self._find_map(name), count):
                    raise self._refusal(f"map {name} can not have {count} entries")
            for name, attach_type in attach_types.items():
                self._api.bpf_program__set_expected_attach_type(self._find_program(name), attach_type)
            if self._api.bpf_object__load(self._object):
                raise self._refusal("the kernel refuses the probes")
        except BaseException:
            self.close()
            raise

    def _refusal(self, what: str) -> Unsupported:
        code = ctypes.get_errno()
        return Unsupported(f"{what}: {os.strerror(code)}\n{self._library.take_complaints()}".strip())

    def _find_program(self, name: str) -> int:
        found: int | None = self._api.bpf_object__find_program_by_name(self._object, name.encode())
        if not found:
            raise KeyError(name)
        return found

    def _find_map(self, name: str) -> int:
        found: int | None = self._api.bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise KeyError(name)
        return found

    def program(self, name: str) -> int:
        """The descriptor of a program. Raises KeyError."""
        return int(self._api.bpf_program__fd(self._find_program(name)))

    def map(self, name: str) -> int:
        """The descriptor of a map. Raises KeyError."""
        return int(self._api.bpf_map__fd(self._find_map(name)))

    def close(self) -> None:
        """Unloads what nothing is attached to any more. May be called twice."""
        if self._object:
            self._api.bpf_object__close(self._object)
            self._object = None


class LibbpfLoader(BpfObject):
    """`Loader` of the object compiled ahead. Needs root (or CAP_BPF and CAP_PERFMON), libbpf.so.1 and BTF.

    ``multi`` as in `Loader`; by default what the kernel can. Raises Unsupported.
    """

    def __init__(self, limits: Limits, multi: bool | None = None, path: Path | None = None) -> None:
        self.multi: Final = kernel_version() >= MULTI_KERNEL if multi is None else multi
        place = path or object_path()
        if place is None:
            raise Unsupported(f"the probes were not compiled ahead: no {OBJECT} (make bpf)")
        attach_types = dict.fromkeys(UPROBE_PROGRAMS, bpfsys.ATTACH_UPROBE_MULTI) if self.multi else {}
        super().__init__(place, limits.map_entries(), attach_types)
