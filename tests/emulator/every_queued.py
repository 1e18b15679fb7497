"""The calls of `every` that are queued to a stream and are neither launches nor plain copies."""

from __future__ import annotations

import ctypes
from ctypes import addressof, byref, c_uint64

from tests.emulator.every_thread import BAD_CALLS, HOST_FUNCTION, OK_CALLS, STALE, Arguments, N, Thread, cuda


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


def captures(t: Thread) -> None:
    """Captures that begin and end, with nothing in them; streams that end."""
    out, stream = addressof(t.out), t.stream
    graph = c_uint64()
    cuda().cuGraphCreate(byref(graph), 0)
    ends: list[tuple[str, Arguments]] = [("cuStreamEndCapture", [out]), ("cuStreamEndCapture_ptsz", [out])]
    into = [graph.value, 0, 0, 0, 0]
    pairs: list[tuple[str, Arguments, tuple[str, Arguments]]] = [
        ("cuStreamBeginCapture", [], ends[0]),
        ("cuStreamBeginCapture_ptsz", [], ends[1]),
        ("cuStreamBeginCapture_v2", [0], ends[0]),
        ("cuStreamBeginCapture_v2_ptsz", [0], ends[1]),
        ("cuStreamBeginCaptureToGraph", into, ends[0]),
        ("cuStreamBeginCaptureToGraph_ptsz", into, ends[1]),
        ("cuStreamBeginCaptureToCig", [STALE], ("cuStreamEndCaptureToCig", [])),
        ("cuStreamBeginRecaptureToGraph", [0, graph.value, 0, 0], ends[0]),
    ]
    for begin, tail, (end, end_tail) in pairs:
        for _ in range(OK_CALLS):
            t.call(begin, [stream, *tail], True)
            t.call(end, [stream, *end_tail], True)
        for _ in range(BAD_CALLS):
            t.call(begin, [0, *tail], False)
            t.call(end, [stream, *end_tail], False)
    for _ in range(OK_CALLS):
        made = c_uint64()
        cuda().cuStreamCreate(byref(made), 0)
        t.call("cuStreamDestroy_v2", [made.value], True)
    for _ in range(BAD_CALLS):
        t.call("cuStreamDestroy_v2", [0], False)
