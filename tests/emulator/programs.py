"""Run Python against the emulated libraries, in a process of its own.

A library is bound to the model that it first met, and LD_LIBRARY_PATH is read when a process starts, so
neither pynvml nor a ctypes view of libcuda belongs into the process of the tests.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

from tests.emulator.control import Emulator, EmulatorError

CUDA_PRELUDE = """
import ctypes, json, os, time
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")

class Kernel(ctypes.Structure):
    _fields_ = [("magic", c_uint32), ("sms", c_uint32), ("duration_ns", c_uint64),
                ("occupancy_ppm", c_uint32), ("tensor_ppm", c_uint32), ("dram_ppm", c_uint32),
                ("reserved", c_uint32)]

def ok(result):
    assert result == 0, result

def launch(duration_us, stream=None):
    kernel = Kernel(magic=0x4C4E524B, duration_ns=int(duration_us * 1000))
    parameters = (c_void_p * 1)(ctypes.addressof(kernel))
    ok(cuda.cuLaunchKernel(c_void_p(0x100), 256, 1, 1, 256, 1, 1, 0, c_void_p(stream), parameters, None))

def context(ordinal=0):
    ok(cuda.cuInit(0))
    made = c_void_p()
    ok(cuda.cuDevicePrimaryCtxRetain(byref(made), ordinal))
    ok(cuda.cuCtxSetCurrent(made))
    return made

def allocate(size):
    address = c_uint64()
    return cuda.cuMemAlloc_v2(byref(address), c_size_t(size)), address
"""

NVML_PRELUDE = """
import json, time
import pynvml as nvml
nvml.nvmlInit()
"""


def run_python(
    emulator: Emulator,
    prelude: str,
    code: str,
    visible_devices: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Any:
    """Run `prelude` and `code` and return what `code` left in `answer` (as JSON). Raises EmulatorError."""
    program = f"{prelude}\n{textwrap.dedent(code)}\nprint(json.dumps(answer))"
    command = [sys.executable, "-c", program]
    process = emulator.spawn_command(command, visible_devices=visible_devices, env=env)
    text, _ = process.communicate()
    if process.returncode:
        raise EmulatorError(f"the program failed with status {process.returncode}:\n{program}")
    return json.loads(text)
