"""Compiles and loads the probes with bcc, hands them over through a socket, and ends.

``python -m gpuledger.agent.probes.bcc_compile FD ORDER``, as `gpuledger.agent.probes.bcc` starts it.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import socket
import sys
from typing import Any, Final

from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.bcc import source_text
from gpuledger.agent.probes.btf import kernel_offsets
from gpuledger.agent.probes.handed import Handed, send, send_problem
from gpuledger.agent.probes.headers import ENVIRONMENT, link_bcc, prepare_kernel_headers
from gpuledger.agent.probes.loader import TRACEPOINT_PROGRAMS, UPROBE_PROGRAMS
from gpuledger.agent.probes.symbols import Limits, c_preamble
from gpuledger.contract.errors import Unsupported

_CFLAGS: Final = ("-Wno-macro-redefined", "-Wno-unused-function", "-Wno-duplicate-decl-specifier")
"""Headers of another kernel version than the running one redefine a few macros of bcc's own."""


def compiled(limits: Limits, multi: bool) -> Handed:
    """The programs and maps in the kernel, open as long as this process. Raises Unsupported."""
    if link_bcc() is None:
        raise Unsupported("the Python package bcc can not be made importable")
    os.environ[ENVIRONMENT] = str(prepare_kernel_headers())
    bcc: Any = importlib.import_module("bcc")
    text = c_preamble(limits, kernel_offsets()) + source_text()
    try:
        bpf = bcc.BPF(text=text.encode(), cflags=list(_CFLAGS))
        attach = bpfsys.ATTACH_UPROBE_MULTI if multi else -1
        kinds = dict.fromkeys(UPROBE_PROGRAMS, (bcc.BPF.KPROBE, None, attach))
        kinds |= dict.fromkeys(TRACEPOINT_PROGRAMS, (bcc.BPF.RAW_TRACEPOINT, None, -1))
        programs = {name: int(bpf.load_func(name.encode(), *kind).fd) for name, kind in kinds.items()}
    except Exception as error:  # bcc raises plain Exception for every refusal
        raise Unsupported(f"the kernel or the compiler refuses the probes: {error}") from error
    return Handed(programs, _maps(bcc.lib, bpf.module))


def _maps(library: Any, module: int) -> dict[str, int]:
    # of libbcc's functions, but not among those that its Python package declares
    library.bpf_num_tables.restype, library.bpf_num_tables.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    library.bpf_table_name.restype = ctypes.c_char_p
    library.bpf_table_name.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    names = [library.bpf_table_name(module, number) for number in range(library.bpf_num_tables(module))]
    return {name.decode(): int(library.bpf_table_fd(module, name)) for name in names}


def main() -> None:
    """Send what was compiled, or why nothing was."""
    order = json.loads(sys.argv[2])
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        try:
            send(channel, compiled(Limits(**order["limits"]), bool(order["multi"])))
        except Unsupported as error:
            send_problem(channel, str(error))


if __name__ == "__main__":
    main()
