"""One thread of `every`: its calls, what it says of them, and what it holds."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from ctypes import addressof, c_uint64
from typing import Any

OK_CALLS, BAD_CALLS = 11, 2
BLOCK_BYTES = 1 << 20
N = 4099
STALE = 12345
"""No address of anything."""
NOWHERE = 99
"""No device."""
ARRAY = 0x55
FUNCTION = 0x100
GRID, BLOCK = (5, 3, 2), (7, 2, 1)
THREADS = 5 * 3 * 2 * 7 * 2
UNIFIED = 4  # CU_MEMORYTYPE_UNIFIED
DEVICE_LOCATION = 1  # CU_MEM_LOCATION_TYPE_DEVICE
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)

Row = tuple[str, bool, int, int]
Arguments = Sequence[int]


@functools.cache
def cuda() -> ctypes.CDLL:
    """The library, loaded by whoever calls it and by nobody who only reads the numbers above."""
    return ctypes.CDLL("libcuda.so.1")


class Thread:
    """One thread's calls, and what it holds. Every argument travels as 64 bits, in a place of its own."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.kept: list[Any] = []
        self.out = c_uint64()
        self.second = c_uint64()
        self.host = ctypes.create_string_buffer(BLOCK_BYTES)

    def call(self, name: str, arguments: Arguments, succeeds: bool, size: int = 0, threads: int = 0) -> int:
        """Call once, note it, and return what is in ``out``. Raises RuntimeError on another result."""
        result = getattr(cuda(), name)(*(c_uint64(argument) for argument in arguments))
        if (result == 0) != succeeds:
            raise RuntimeError(f"{name} returned {result}")
        self.rows.append((name, succeeds, size if succeeds else 0, threads if succeeds else 0))
        return self.out.value

    def times(
        self, name: str, good: Arguments, bad: Arguments, size: int = 0, threads: int = 0, suffix: str = ""
    ) -> None:
        """Call the function, and the twin with ``suffix``, as often as each is to be called."""
        for full in {name: None, name + suffix: None}:
            for _ in range(OK_CALLS):
                self.call(full, good, True, size, threads)
            for _ in range(BAD_CALLS):
                self.call(full, bad, False)

    def words(self, values: dict[int, int], count: int) -> int:
        """Address of a structure of 64-bit words."""
        block = (c_uint64 * count)()
        for place, value in values.items():
            block[place] = value
        self.kept.append(block)
        return addressof(block)

    def ints(self, values: Sequence[int]) -> int:
        """Address of a structure of 32-bit words."""
        block = (ctypes.c_uint32 * len(values))(*values)
        self.kept.append(block)
        return addressof(block)

    def begin(self, device: int) -> None:
        """A context, a stream, an event and a block of memory."""
        out = addressof(self.out)
        self.times("cuInit", [0], [1])
        self.times("cuDevicePrimaryCtxRetain", [out, device], [out, NOWHERE])
        self.home = self.out.value
        self.times("cuCtxSetCurrent", [self.home], [addressof(self.host)])
        for name in ("cuStreamCreate", "cuEventCreate"):
            if getattr(cuda(), name)(ctypes.c_void_p(out), 0):
                raise RuntimeError(name)
            self.kept.append(self.out.value)
        self.event, self.stream = self.kept.pop(), self.kept.pop()
        self.block = self.call("cuMemAlloc_v2", [out, BLOCK_BYTES], True, BLOCK_BYTES)
