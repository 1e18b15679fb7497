"""``python program.py``: a small CUDA program that does what it is told, a word a line, and says what it did.

Driver API by ctypes, no other package. It prints ``ready`` once the library is loaded and nothing was called:
probes may be set then. Words: ``count`` (a known number of calls, prime, some of which fail, on two threads),
``load`` (keeps the device busy with one kernel after another), ``cost`` (one cheap call very often),
``addresses`` (whether cuGetProcAddress hands out the exported functions), ``end``. Each answers in JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time
from collections import Counter
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.gpu.amounts import (
    ADDS,
    ALLOCATIONS,
    BLOCK_THREADS,
    CHEAP_CALLS,
    COPIES_IN,
    COPIES_OUT,
    COPY_BYTES,
    HELD_BYTES,
    LOAD_AHEAD,
    LOAD_BLOCKS,
    LOAD_KERNEL_NS,
    LOAD_S,
    REFUSED,
    SPIN_NS,
    SPINS,
    SYNCHRONISES,
    THREADS,
    TOO_MUCH,
    VECTOR,
)
from tests.gpu.kernels import ADD, PTX, SPIN, want

cuda = ctypes.CDLL("libcuda.so.1")


class Refused(Exception):
    """A call did not do what it should."""


class Calls:
    """Calls by name, counted: (successes, failures)."""

    def __init__(self) -> None:
        self.ok: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, name: str, *arguments: Any, fails: bool = False) -> None:
        result = getattr(cuda, name)(*arguments)
        if (result != 0) != fails:
            raise Refused(f"{name} returned {result}")
        with self._lock:
            (self.failed if fails else self.ok)[name] += 1


class Device:
    """Device 0 with a context, the two kernels and three vectors."""

    def __init__(self, call: Calls) -> None:
        self.call = call
        device, self.context, module = c_int(), c_void_p(), c_void_p()
        call("cuInit", 0)
        call("cuDeviceGet", byref(device), 0)
        uuid = ctypes.create_string_buffer(16)
        call("cuDeviceGetUuid_v2", uuid, device)
        self.uuid = uuid.raw.hex()
        call("cuDevicePrimaryCtxRetain", byref(self.context), device)
        call("cuCtxSetCurrent", self.context)
        self.spin_function, self.add_function = c_void_p(), c_void_p()
        call("cuModuleLoadData", byref(module), PTX)
        call("cuModuleGetFunction", byref(self.spin_function), module, SPIN)
        call("cuModuleGetFunction", byref(self.add_function), module, ADD)

    def spin(self, duration_ns: int, blocks: int, fails: bool = False) -> None:
        """Launch a kernel that takes that long on each multiprocessor."""
        parameter = want(duration_ns)
        parameters = (c_void_p * 1)(ctypes.addressof(parameter))
        self._launch(self.spin_function, 0 if fails else blocks, parameters, fails)

    def add(self, vectors: list[c_uint64]) -> None:
        """Launch one addition of two vectors."""
        count = c_uint(VECTOR)
        parts = [*vectors, count]
        parameters = (c_void_p * 4)(*(ctypes.addressof(part) for part in parts))
        self._launch(self.add_function, -(-VECTOR // BLOCK_THREADS), parameters, False)

    def _launch(self, function: c_void_p, blocks: int, parameters: Any, fails: bool) -> None:
        shape = (blocks, 1, 1, BLOCK_THREADS, 1, 1, 0)
        self.call("cuLaunchKernel", function, *shape, None, parameters, None, fails=fails)

    def allocate(self, size: int, fails: bool = False) -> c_uint64:
        """Device memory."""
        address = c_uint64()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(size), fails=fails)
        return address


def count(device: Device) -> bool:
    """One thread's calls; whether the sum of the vectors came out right."""
    call = device.call
    call("cuCtxSetCurrent", device.context)
    blocks = [device.allocate(COPY_BYTES) for _ in range(ALLOCATIONS)]
    for _ in range(REFUSED):
        device.allocate(TOO_MUCH, fails=True)
        device.spin(SPIN_NS, 1, fails=True)
    left = (ctypes.c_float * VECTOR)(*range(VECTOR))
    total = (ctypes.c_float * VECTOR)()
    for number in range(COPIES_IN):
        call("cuMemcpyHtoD_v2", blocks[number % 2], left, c_size_t(COPY_BYTES))
    for _ in range(ADDS):
        device.add(blocks[:3])
    for _ in range(SPINS):
        device.spin(SPIN_NS, 1)
    for _ in range(SYNCHRONISES):
        call("cuCtxSynchronize")
    for _ in range(COPIES_OUT):
        call("cuMemcpyDtoH_v2", total, blocks[2], c_size_t(COPY_BYTES))
    for block in blocks:
        call("cuMemFree_v2", block)
    return all(total[index] == 2.0 * index for index in range(VECTOR))


def counted(device: Device) -> dict[str, Any]:
    """All threads' calls."""
    right: list[bool] = []
    failures: list[str] = []

    def work() -> None:
        try:
            right.append(count(device))
        except Refused as error:
            failures.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise Refused(failures[0])
    return {"added_right": all(right), "ok": dict(device.call.ok), "failed": dict(device.call.failed)}


def load(device: Device) -> dict[str, Any]:
    """Busy all the time, a few kernels ahead; holds memory meanwhile."""
    held = device.allocate(HELD_BYTES)
    began = time.monotonic()
    while time.monotonic() - began < LOAD_S:
        for _ in range(LOAD_AHEAD):
            device.spin(LOAD_KERNEL_NS, LOAD_BLOCKS)
        device.call("cuCtxSynchronize")
    seconds = time.monotonic() - began
    device.call("cuMemFree_v2", held)
    return {"seconds": seconds}


def cost() -> dict[str, Any]:
    """CPU time of a call that has nothing to wait for."""
    function = cuda.cuCtxSynchronize
    began = time.thread_time_ns()
    for _ in range(CHEAP_CALLS):
        function()
    return {"ns_per_call": (time.thread_time_ns() - began) / CHEAP_CALLS}


def addresses(names: list[str]) -> dict[str, Any]:
    """Of each exported function: whether cuGetProcAddress, asked as the runtime asks, gives a probed one."""
    exported = {
        name: ctypes.cast(getattr(cuda, name), c_void_p).value for name in names if hasattr(cuda, name)
    }
    known = set(exported.values())
    same, other, none = [], [], []
    version = c_int()
    cuda.cuDriverGetVersion(byref(version))
    for name in exported:
        base, flags = name, 0
        for suffix in ("_ptsz", "_ptds"):
            if base.endswith(suffix):
                base, flags = base.removesuffix(suffix), 2  # CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
        base = base.partition("_v")[0]
        found, status = c_void_p(), c_int()
        cuda.cuGetProcAddress_v2(base.encode(), byref(found), version, c_uint64(flags), byref(status))
        (none if not found.value else same if found.value in known else other).append(name)
    return {"same": len(same), "other": other, "none": none, "driver_version": version.value}


def answer(device: Device, word: str, names: list[str]) -> dict[str, Any]:
    """Do what the word says."""
    if word == "count":
        return counted(device)
    if word == "load":
        return load(device)
    return cost() if word == "cost" else addresses(names)


def main() -> None:
    """See the module."""
    print("ready", flush=True)
    device: Device | None = None
    for line in sys.stdin:
        word, *names = line.split()
        if word == "end":
            return
        device = device or Device(Calls())
        print(json.dumps({"uuid": device.uuid, **answer(device, word, names)}), flush=True)


if __name__ == "__main__":
    main()
