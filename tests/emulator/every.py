"""``python -m tests.emulator.every THREADS``: calls every probed function, and says what it called.

Each function is called `OK_CALLS` times with success and `BAD_CALLS` times without (both prime), on each
thread; creations are followed by their opposite. It prints ``waiting`` and begins after a line on stdin; then
one JSON object: for each thread id rows in the order of the calls (name, whether it succeeded, bytes,
launched threads). It ends after another line. Needs nothing but Python.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from collections.abc import Callable
from ctypes import addressof, c_uint64

from tests.emulator.every_queued import captures, queued, queued_copies
from tests.emulator.every_thread import (
    ARRAY,
    BAD_CALLS,
    BLOCK,
    DEVICE_LOCATION,
    FUNCTION,
    GRID,
    HOST_FUNCTION,
    NOWHERE,
    OK_CALLS,
    STALE,
    THREADS,
    UNIFIED,
    Arguments,
    N,
    Row,
    Thread,
    cuda,
)


def launches(t: Thread) -> None:
    """Kernels, graphs, host functions."""
    nothing = (0, *GRID[1:])
    for name, tail in (("cuLaunchKernel", [t.stream, 0, 0]), ("cuLaunchCooperativeKernel", [t.stream, 0])):
        good, bad = [FUNCTION, *GRID, *BLOCK, 0, *tail], [FUNCTION, *nothing, *BLOCK, 0, *tail]
        t.times(name, good, bad, threads=THREADS, suffix="_ptsz")
    # CUlaunchConfig: seven 32-bit words, then at 32 bytes the stream
    config = t.ints([*GRID, *BLOCK, 0, 0, t.stream & 0xFFFFFFFF, t.stream >> 32, 0, 0, 0, 0])
    t.times(
        "cuLaunchKernelEx", [config, FUNCTION, 0, 0], [0, FUNCTION, 0, 0], threads=THREADS, suffix="_ptsz"
    )
    # CUDA_LAUNCH_PARAMS: function, seven 32-bit words, at 40 bytes the stream, the parameters
    one = [FUNCTION, 0, *GRID, *BLOCK, 0, 0, t.stream & 0xFFFFFFFF, t.stream >> 32, 0, 0]
    many = [t.ints([*one, *one]), 2, 0]
    t.times("cuLaunchCooperativeKernelMultiDevice", many, [0, 2, 0], threads=2 * THREADS)
    t.times("cuLaunch", [FUNCTION], [0])
    t.times("cuLaunchGrid", [FUNCTION, 7, 11], [FUNCTION, 0, 11])
    t.times("cuLaunchGridAsync", [FUNCTION, 7, 11, t.stream], [FUNCTION, 0, 11, t.stream])
    function = ctypes.cast(HOST_FUNCTION, ctypes.c_void_p).value or 0
    t.times("cuLaunchHostFunc", [t.stream, function, 0], [t.stream, 0, 0], suffix="_ptsz")
    graph, instance = c_uint64(), c_uint64()
    cuda().cuGraphCreate(ctypes.byref(graph), 0)
    cuda().cuGraphInstantiateWithFlags(ctypes.byref(instance), graph, c_uint64(0))
    t.times("cuGraphLaunch", [instance.value, t.stream], [0, t.stream], suffix="_ptsz")


def copies(t: Thread) -> None:
    """Plain, peer and array copies, fills, prefetches."""
    block, host, stream, home = t.block, addressof(t.host), t.stream, t.home
    ends: list[tuple[str, str, int, int, str]] = [
        ("cuMemcpyHtoD", "_v2", block, host, "first"),
        ("cuMemcpyDtoH", "_v2", host, block, "second"),
        ("cuMemcpyDtoD", "_v2", block, block, "first"),
        ("cuMemcpy", "", block, block, "first"),
    ]
    for stem, version, to, source, refused in ends:
        bad = [0 if refused == "first" else to, 0 if refused == "second" else source]
        if version:
            bad = [STALE if value == 0 else value for value in bad]
        t.times(f"{stem}{version}", [to, source, N], [*bad, N], N, suffix="_ptds")
        t.times(f"{stem}Async{version}", [to, source, N, stream], [*bad, N, stream], N, suffix="_ptsz")
    t.times("cuMemcpyPeer", [block, home, block, home, N], [0, home, block, home, N], N, suffix="_ptds")
    good, bad = [block, home, block, home, N, stream], [0, home, block, home, N, stream]
    t.times("cuMemcpyPeerAsync", good, bad, N, suffix="_ptsz")
    for bits in (8, 16, 32):
        size = N * bits // 8
        t.times(f"cuMemsetD{bits}_v2", [block, 7, N], [STALE, 7, N], size, suffix="_ptds")
        good, bad = [block, 7, N, stream], [STALE, 7, N, stream]
        t.times(f"cuMemsetD{bits}Async", good, bad, size, suffix="_ptsz")
        rows, bad = [block, 4096, 7, 101, 13], [STALE, 4096, 7, 101, 13]
        size = 101 * 13 * bits // 8
        t.times(f"cuMemsetD2D{bits}_v2", rows, bad, size, suffix="_ptds")
        t.times(f"cuMemsetD2D{bits}Async", [*rows, stream], [*bad, stream], size, suffix="_ptsz")
    t.times("cuMemPrefetchAsync", [block, N, 0, stream], [STALE, N, 0, stream], N, suffix="_ptsz")
    good, bad = [block, N, DEVICE_LOCATION, 0, stream], [STALE, N, DEVICE_LOCATION, 0, stream]
    t.times("cuMemPrefetchAsync_v2", good, bad, N, suffix="_ptsz")
    t.times("cuMemcpyHtoA_v2", [ARRAY, 3, host, N], [0, 3, host, N], N, suffix="_ptds")
    t.times("cuMemcpyAtoH_v2", [host, ARRAY, 3, N], [host, 0, 3, N], N, suffix="_ptds")
    t.times("cuMemcpyDtoA_v2", [ARRAY, 3, block, N], [0, 3, block, N], N, suffix="_ptds")
    t.times("cuMemcpyAtoD_v2", [block, ARRAY, 3, N], [block, 0, 3, N], N, suffix="_ptds")
    t.times("cuMemcpyAtoA_v2", [ARRAY, 3, ARRAY, 5, N], [0, 3, ARRAY, 5, N], N, suffix="_ptds")
    t.times("cuMemcpyHtoAAsync_v2", [ARRAY, 3, host, N, stream], [0, 3, host, N, stream], N, suffix="_ptsz")
    t.times("cuMemcpyAtoHAsync_v2", [host, ARRAY, 3, N, stream], [host, 0, 3, N, stream], N, suffix="_ptsz")


def described_copies(t: Thread) -> None:
    """Copies of regions, and lists of copies."""
    stream = t.stream
    flat = t.words({2: UNIFIED, 9: UNIFIED, 14: 101, 15: 7}, 16)
    deep = t.words({4: UNIFIED, 15: UNIFIED, 22: 101, 23: 7, 24: 3}, 25)
    for name in ("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2"):
        t.times(name, [flat], [0], 101 * 7, suffix="_ptds")
    t.times("cuMemcpy2DAsync_v2", [flat, stream], [0, stream], 101 * 7, suffix="_ptsz")
    for name in ("cuMemcpy3D", "cuMemcpy3DPeer"):
        version = "" if name.endswith("Peer") else "_v2"
        t.times(f"{name}{version}", [deep], [0], 101 * 7 * 3, suffix="_ptds")
        t.times(f"{name}Async{version}", [deep, stream], [0, stream], 101 * 7 * 3, suffix="_ptsz")
    places, sizes = t.words(dict.fromkeys(range(3), t.block), 3), t.words({0: 101, 1: 103, 2: 107}, 3)
    good, bad = [places, places, sizes, 3, 0, 0, 0], [places, places, sizes, 0, 0, 0, 0]
    t.times("cuMemcpyBatchAsync", [*good, 0, stream], [*bad, 0, stream], 311, suffix="_ptsz")
    t.times("cuMemcpyBatchAsync_v2", [*good, stream], [*bad, stream], 311, suffix="_ptsz")


def waits(t: Thread) -> None:
    """Waiting, asking, events. Nothing is outstanding when it is asked for, so that each answer is final."""
    gone = c_uint64()
    cuda().cuStreamCreate(ctypes.byref(gone), 0)
    cuda().cuStreamDestroy_v2(gone)
    stale = gone.value
    t.times("cuStreamSynchronize", [t.stream], [stale], suffix="_ptsz")
    for name in ("cuEventRecord", "cuEventRecordWithFlags"):
        t.times(name, [t.event, t.stream, 0], [0, t.stream, 0], suffix="_ptsz")
    t.times("cuEventSynchronize", [t.event], [0])
    t.times("cuEventQuery", [t.event], [0])
    t.times("cuStreamQuery", [t.stream], [stale], suffix="_ptsz")
    t.times("cuStreamWaitEvent", [t.stream, t.event, 0], [t.stream, 0, 0], suffix="_ptsz")
    t.times("cuCtxSynchronize_v2", [t.home], [0])
    for _ in range(OK_CALLS):
        t.call("cuCtxSynchronize", [], True)
    t.call("cuCtxSetCurrent", [0], True)
    for _ in range(BAD_CALLS):
        t.call("cuCtxSynchronize", [], False)
    t.call("cuCtxSetCurrent", [t.home], True)


def blocks(t: Thread, device: int) -> None:
    """Memory of every kind, taken and given back."""
    out, stream = addressof(t.out), t.stream
    pool = c_uint64()
    cuda().cuDeviceGetDefaultMemPool(ctypes.byref(pool), device)
    properties = t.ints([1, 0, DEVICE_LOCATION, device, 0, 0, 0, 0])
    pitch = addressof(t.second)
    good: Arguments
    bad: Arguments
    pairs: list[tuple[str, Arguments, Arguments, int, str, Callable[[int], Arguments], Arguments]] = []

    def pair(take: str, good: Arguments, bad: Arguments, size: int, give: str, tail: Arguments = ()) -> None:
        refused = [0, *tail] if give in ("cuMemRelease", "cuMemFreeHost") else [STALE, *tail]
        pairs.append((take, good, bad, size, give, lambda address: [address, *tail], refused))

    pair("cuMemAlloc_v2", [out, N], [out, 0], N, "cuMemFree_v2")
    pair("cuMemAllocPitch_v2", [out, pitch, 1009, 101, 4], [out, pitch, 1009, 101, 5], 103424, "cuMemFree_v2")
    pair("cuMemAllocManaged", [out, N, 1], [out, N, 9], N, "cuMemFree_v2")
    for twin in ("", "_ptsz"):
        free = f"cuMemFreeAsync{twin}"
        pair(f"cuMemAllocAsync{twin}", [out, N, stream], [out, 0, stream], N, free, [stream])
        good, bad = [out, N, pool.value, stream], [out, N, 0, stream]
        pair(f"cuMemAllocFromPoolAsync{twin}", good, bad, N, free, [stream])
    pair("cuMemCreate", [out, N, properties, 0], [out, N, 0, 0], N, "cuMemRelease")
    pair("cuMemAllocHost_v2", [out, N], [out, 0], N, "cuMemFreeHost")
    pair("cuMemHostAlloc", [out, N, 0], [out, 0, 0], N, "cuMemFreeHost")
    for take, good, bad, size, give, giving, refused in pairs:
        held = [t.call(take, good, True, size) for _ in range(OK_CALLS)]
        for _ in range(BAD_CALLS):
            t.call(take, bad, False)
            t.call(give, refused, False)
        for address in held:
            t.call(give, giving(address), True)
    for _ in range(OK_CALLS):
        handle = t.call("cuMemCreate", [out, N, properties, 0], True, N)
        t.call("cuMemRetainAllocationHandle", [out, handle], True)
        t.call("cuMemRelease", [handle], True)
        t.call("cuMemRelease", [handle], True)
    for _ in range(BAD_CALLS):
        t.call("cuMemRetainAllocationHandle", [out, STALE], False)
    cuda().cuMemAddressReserve(ctypes.byref(pool), c_uint64(OK_CALLS * N), 0, 0, c_uint64(0))
    for number in range(OK_CALLS):
        place = pool.value + number * N
        handle = t.call("cuMemCreate", [out, N, properties, 0], True, N)
        t.call("cuMemMap", [place, N, 0, handle, 0], True, N)
        t.call("cuMemRelease", [handle], True)
        t.call("cuMemUnmap", [place, N], True)
    for _ in range(BAD_CALLS):
        t.call("cuMemMap", [pool.value, N, 0, STALE, 0], False)
        t.call("cuMemUnmap", [pool.value, N], False)


def contexts(t: Thread, device: int) -> None:
    """Contexts made, stacked and destroyed; what a device is called."""
    out = addressof(t.out)
    forms: list[tuple[str, int, Callable[[int], Arguments]]] = [
        ("cuCtxCreate_v2", 11, lambda d: [out, 0, d]),
        ("cuCtxCreate_v3", 13, lambda d: [out, 0, 0, 0, d]),
        ("cuCtxCreate_v4", 7, lambda d: [out, 0, 0, d]),
    ]
    for name, count, arguments in forms:
        for _ in range(count):
            context = t.call(name, arguments(device), True)
            t.call("cuCtxDestroy_v2", [context], True)
        for _ in range(BAD_CALLS):
            t.call(name, arguments(NOWHERE), False)
    for _ in range(BAD_CALLS):
        t.call("cuCtxDestroy_v2", [0], False)
    t.call("cuCtxSetCurrent", [t.home], True)
    t.times("cuCtxPushCurrent_v2", [t.home], [addressof(t.host)])
    for _ in range(OK_CALLS):
        t.call("cuCtxPopCurrent_v2", [out], True)
    t.call("cuCtxSetCurrent", [0], True)
    for _ in range(BAD_CALLS):
        t.call("cuCtxPopCurrent_v2", [out], False)
    t.call("cuCtxSetCurrent", [t.home], True)
    for _ in range(OK_CALLS):
        green = t.call("cuGreenCtxCreate", [out, STALE, device, 1], True)
        t.call("cuCtxFromGreenCtx", [out, green], True)
        t.call("cuGreenCtxDestroy", [green], True)
    for _ in range(BAD_CALLS):
        t.call("cuGreenCtxCreate", [out, STALE, NOWHERE, 1], False)
        t.call("cuCtxFromGreenCtx", [out, 0], False)
        t.call("cuGreenCtxDestroy", [0], False)
    for name in ("cuDeviceGetUuid", "cuDeviceGetUuid_v2"):
        t.times(name, [addressof(t.host), device], [addressof(t.host), NOWHERE])


def end(t: Thread, device: int) -> None:
    """What was retained is released, but for once: other threads still need it."""
    for name, count in (("cuDevicePrimaryCtxRelease", 3), ("cuDevicePrimaryCtxRelease_v2", 7)):
        for _ in range(count):
            t.call(name, [device], True)
        for _ in range(BAD_CALLS):
            t.call(name, [NOWHERE], False)
    for name in ("cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"):
        t.times(name, [device + 1], [NOWHERE])  # of a device of which nobody has anything


def work(said: dict[int, list[Row]], device: int) -> None:
    """All calls of one thread."""
    thread = Thread()
    thread.begin(device)
    launches(thread)
    copies(thread)
    described_copies(thread)
    queued_copies(thread)
    queued(thread)
    captures(thread)
    waits(thread)
    blocks(thread, device)
    contexts(thread, device)
    end(thread, device)
    said[threading.get_native_id()] = thread.rows


def main() -> None:
    """See the module."""
    print("waiting", flush=True)
    sys.stdin.readline()
    said: dict[int, list[Row]] = {}
    threads = [threading.Thread(target=work, args=(said, 0)) for _ in range(int(sys.argv[1]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(said), flush=True)
    sys.stdin.readline()
    if len(said) != len(threads):
        raise SystemExit("a thread failed")


if __name__ == "__main__":
    main()
