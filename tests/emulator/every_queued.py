"""The calls of `every` that are queued to a stream and are neither launches nor plain copies."""

from __future__ import annotations

import ctypes

from tests.emulator.every_thread import HOST_FUNCTION, STALE, Arguments, N, Thread


def queued_copies(t: Thread) -> None:
    """Lists of copies, of prefetches, of what is decompressed."""
    stream, sizes = t.stream, t.words({0: 101, 1: 103, 2: 107}, 3)
    # CUDA_MEMCPY3D_BATCH_OP: two operands of five words, the kind first, the extent, flags
    words = {
        at + place: value
        for at in (0, 14, 28)
        for place, value in {0: 1, 5: 1, 10: 101, 11: 7, 12: 3}.items()
    }
    regions, size = t.words(words, 42), 101 * 7 * 3
    lists: list[tuple[str, Arguments, Arguments, int]] = [
        ("cuMemcpy3DBatchAsync", [3, regions, 0, 0], [0, regions, 0, 0], 3 * size),
        ("cuMemcpy3DBatchAsync_v2", [3, regions, 0], [0, regions, 0], 3 * size),
        ("cuMemcpy3DWithAttributesAsync", [regions, 0], [0, 0], size),
        ("cuMemcpyWithAttributesAsync", [t.block, t.block, N, 0], [0, t.block, N, 0], N),
        ("cuMemPrefetchBatchAsync", [0, sizes, 3, 0, 0, 0, 0], [0, sizes, 0, 0, 0, 0, 0], 311),
        ("cuMemDiscardAndPrefetchBatchAsync", [0, sizes, 3, 0, 0, 0, 0], [0, sizes, 0, 0, 0, 0, 0], 311),
        ("cuMemDiscardBatchAsync", [0, sizes, 3, 0], [0, sizes, 0, 0], 311),
        ("cuMemBatchDecompressAsync", [t.words({1: 1009, 9: 2003}, 16), 2, 0, 0], [0, 2, 0, 0], 3012),
        ("cuFabricCpyBatchAsync", [3, sizes, 0], [0, sizes, 0], 0),
        ("cuMemMapArrayAsync", [sizes, 3], [sizes, 0], 0),
    ]
    for name, good, bad, bytes_ in lists:
        t.times(name, [*good, stream], [*bad, stream], bytes_, suffix="_ptsz")


def queued(t: Thread) -> None:
    """Graphs that are uploaded, functions of the host, values, semaphores, events of contexts."""
    stream = t.stream
    function = ctypes.cast(HOST_FUNCTION, ctypes.c_void_p).value or 0
    t.times("cuGraphUpload", [STALE, stream], [0, stream], suffix="_ptsz")
    for name in ("cuLaunchHostFunc_v2", "cuStreamAddCallback"):
        t.times(name, [stream, function, 0, 0], [stream, 0, 0, 0], suffix="_ptsz")
    for version in ("", "_v2"):
        t.times(f"cuStreamBatchMemOp{version}", [stream, 3, STALE, 0], [stream, 0, STALE, 0], suffix="_ptsz")
        for kind in ("WriteValue32", "WriteValue64", "WaitValue32", "WaitValue64"):
            good, bad = [stream, t.block, 7, 0], [stream, STALE, 7, 0]
            t.times(f"cuStream{kind}{version}", good, bad, suffix="_ptsz")
    for name in ("cuSignalExternalSemaphoresAsync", "cuWaitExternalSemaphoresAsync"):
        t.times(name, [STALE, 0, 1, stream], [STALE, 0, 0, stream], suffix="_ptsz")
    for name in ("cuCtxRecordEvent", "cuCtxWaitEvent", "cuGreenCtxRecordEvent", "cuGreenCtxWaitEvent"):
        t.times(name, [t.home, t.event], [0, t.event])
