"""Which exported functions of libcuda are probed, what each means and where its arguments lie.

Signatures: cuda.h (11.6 to 13.5). A size or handle is named by the number of its argument, from 1; 0 where
there is none.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from gpuledger.agent.probes.symbol import Effect, Entry, Space, Symbol
from gpuledger.contract.operations import Operation


def _with_twin(suffix: str, symbol: Symbol) -> list[Symbol]:
    """The function and its twin for the per-thread default stream, which has the same arguments."""
    values = {f.name: getattr(symbol, f.name) for f in fields(symbol)}
    return [symbol, Symbol(**{**values, "name": symbol.name + suffix})]


def _launches() -> list[Symbol]:
    op = Operation
    return [
        *_with_twin("_ptsz", Symbol("cuLaunchKernel", op.LAUNCH_KERNEL, Entry.LAUNCH)),
        *_with_twin("_ptsz", Symbol("cuLaunchKernelEx", op.LAUNCH_KERNEL, Entry.LAUNCH_CONFIG)),
        *_with_twin("_ptsz", Symbol("cuLaunchCooperativeKernel", op.LAUNCH_COOPERATIVE, Entry.LAUNCH)),
        Symbol("cuLaunchCooperativeKernelMultiDevice", op.LAUNCH_COOPERATIVE, Entry.LAUNCH_LIST),
        Symbol("cuLaunch", op.LAUNCH_KERNEL, function=1),
        Symbol("cuLaunchGrid", op.LAUNCH_KERNEL, function=1),
        Symbol("cuLaunchGridAsync", op.LAUNCH_KERNEL, function=1, stream=4),
        *_with_twin("_ptsz", Symbol("cuGraphLaunch", op.LAUNCH_GRAPH, function=1, stream=2)),
        *_with_twin("_ptsz", Symbol("cuGraphUpload", op.UPLOAD_GRAPH, function=1, stream=2)),
        *_with_twin("_ptsz", Symbol("cuLaunchHostFunc", op.LAUNCH_HOST_FUNCTION, function=2, stream=1)),
        *_with_twin("_ptsz", Symbol("cuLaunchHostFunc_v2", op.LAUNCH_HOST_FUNCTION, function=2, stream=1)),
        *_with_twin("_ptsz", Symbol("cuStreamAddCallback", op.LAUNCH_HOST_FUNCTION, function=2, stream=1)),
    ]


def _allocations() -> list[Symbol]:
    op, allocate = Operation, Effect.ALLOCATE
    device = Symbol("cuMemAlloc_v2", op.ALLOCATE_DEVICE, effect=allocate, bytes=2, pointer=1, resident=True)
    pitched = Symbol(
        "cuMemAllocPitch_v2", op.ALLOCATE_DEVICE, effect=Effect.ALLOCATE_PITCHED, pointer=1, resident=True
    )
    from_stream = Symbol(
        "cuMemAllocAsync", op.ALLOCATE_ASYNC, effect=allocate, bytes=2, pointer=1, stream=3, resident=True
    )
    from_pool = Symbol(
        "cuMemAllocFromPoolAsync",
        op.ALLOCATE_ASYNC,
        effect=allocate,
        bytes=2,
        pointer=1,
        stream=4,
        resident=True,
    )
    physical = Symbol(
        "cuMemCreate",
        op.ALLOCATE_PHYSICAL,
        effect=Effect.ALLOCATE_PHYSICAL,
        bytes=2,
        pointer=1,
        resident=True,
        space=Space.PHYSICAL,
    )
    host = Space.HOST
    return [
        device,
        pitched,
        Symbol("cuMemAllocManaged", op.ALLOCATE_MANAGED, effect=allocate, bytes=2, pointer=1),
        *_with_twin("_ptsz", from_stream),
        *_with_twin("_ptsz", from_pool),
        physical,
        Symbol("cuMemAllocHost_v2", op.ALLOCATE_HOST, effect=allocate, bytes=2, pointer=1, space=host),
        Symbol("cuMemHostAlloc", op.ALLOCATE_HOST, effect=allocate, bytes=2, pointer=1, space=host),
    ]


def _frees() -> list[Symbol]:
    op, free = Operation, Effect.FREE
    return [
        Symbol("cuMemFree_v2", op.FREE_DEVICE, effect=free, pointer=1),
        *_with_twin("_ptsz", Symbol("cuMemFreeAsync", op.FREE_ASYNC, effect=free, pointer=1, stream=2)),
        Symbol(
            "cuMemRetainAllocationHandle",
            op.OTHER,
            effect=Effect.RETAIN_PHYSICAL,
            pointer=1,
            space=Space.PHYSICAL,
        ),
        Symbol("cuMemRelease", op.FREE_PHYSICAL, effect=free, pointer=1, space=Space.PHYSICAL),
        Symbol("cuMemMap", op.MAP_MEMORY, effect=Effect.MAP, bytes=2, pointer=1, space=Space.PHYSICAL),
        Symbol("cuMemUnmap", op.FREE_PHYSICAL, effect=Effect.UNMAP, bytes=2, pointer=1, space=Space.PHYSICAL),
        Symbol("cuMemFreeHost", op.FREE_HOST, effect=free, pointer=1, space=Space.HOST),
    ]


def _copies() -> list[Symbol]:
    op = Operation
    directions = [
        ("cuMemcpyHtoD", "_v2", op.COPY_HOST_TO_DEVICE, op.COPY_HOST_TO_DEVICE_ASYNC),
        ("cuMemcpyDtoH", "_v2", op.COPY_DEVICE_TO_HOST, op.COPY_DEVICE_TO_HOST_ASYNC),
        ("cuMemcpyDtoD", "_v2", op.COPY_DEVICE_TO_DEVICE, op.COPY_DEVICE_TO_DEVICE_ASYNC),
        ("cuMemcpy", "", op.COPY_UNKNOWN, op.COPY_UNKNOWN_ASYNC),
    ]
    out: list[Symbol] = []
    for stem, version, blocking, queued in directions:
        out += _with_twin("_ptds", Symbol(f"{stem}{version}", blocking, bytes=3))
        out += _with_twin("_ptsz", Symbol(f"{stem}Async{version}", queued, bytes=3, stream=4))
    out += _with_twin("_ptds", Symbol("cuMemcpyPeer", op.COPY_PEER, bytes=5))
    out += _with_twin("_ptsz", Symbol("cuMemcpyPeerAsync", op.COPY_PEER_ASYNC, bytes=5, stream=6))
    for scale, bits in enumerate((8, 16, 32)):
        out += _with_twin("_ptds", Symbol(f"cuMemsetD{bits}_v2", op.SET_MEMORY, bytes=3, scale=scale))
        queued_set = Symbol(f"cuMemsetD{bits}Async", op.SET_MEMORY_ASYNC, bytes=3, scale=scale, stream=4)
        out += _with_twin("_ptsz", queued_set)
        rows = Symbol(f"cuMemsetD2D{bits}_v2", op.SET_MEMORY, bytes=4, scale=scale, rows=5)
        out += _with_twin("_ptds", rows)
        queued_rows = Symbol(
            f"cuMemsetD2D{bits}Async", op.SET_MEMORY_ASYNC, bytes=4, scale=scale, rows=5, stream=6
        )
        out += _with_twin("_ptsz", queued_rows)
    prefetch = Symbol("cuMemPrefetchAsync", op.COPY_UNKNOWN_ASYNC, bytes=2, stream=4)
    out += _with_twin("_ptsz", prefetch)
    prefetch_to = Symbol("cuMemPrefetchAsync_v2", op.COPY_UNKNOWN_ASYNC, bytes=2, stream=5)
    return out + _with_twin("_ptsz", prefetch_to)


def _array_copies() -> list[Symbol]:
    """Arrays lie on the device."""
    op = Operation
    blocking = [
        ("cuMemcpyHtoA_v2", op.COPY_HOST_TO_DEVICE, 4),
        ("cuMemcpyAtoH_v2", op.COPY_DEVICE_TO_HOST, 4),
        ("cuMemcpyDtoA_v2", op.COPY_DEVICE_TO_DEVICE, 4),
        ("cuMemcpyAtoD_v2", op.COPY_DEVICE_TO_DEVICE, 4),
        ("cuMemcpyAtoA_v2", op.COPY_DEVICE_TO_DEVICE, 5),
    ]
    queued = [
        ("cuMemcpyHtoAAsync_v2", op.COPY_HOST_TO_DEVICE_ASYNC),
        ("cuMemcpyAtoHAsync_v2", op.COPY_DEVICE_TO_HOST_ASYNC),
    ]
    out: list[Symbol] = []
    for name, operation, size in blocking:
        out += _with_twin("_ptds", Symbol(name, operation, bytes=size))
    for name, operation in queued:
        out += _with_twin("_ptsz", Symbol(name, operation, bytes=4, stream=5))
    return out


def _described_copies() -> list[Symbol]:
    """Copies of regions, and lists of copies."""
    op, region, batch = Operation, Entry.COPY_REGION, Entry.COPY_BATCH
    blocking = [
        ("cuMemcpy2D_v2", op.COPY_UNKNOWN, 2),
        ("cuMemcpy2DUnaligned_v2", op.COPY_UNKNOWN, 2),
        ("cuMemcpy3D_v2", op.COPY_UNKNOWN, 3),
        ("cuMemcpy3DPeer", op.COPY_PEER, 3),
    ]
    queued = [
        ("cuMemcpy2DAsync_v2", op.COPY_UNKNOWN_ASYNC, 2),
        ("cuMemcpy3DAsync_v2", op.COPY_UNKNOWN_ASYNC, 3),
        ("cuMemcpy3DPeerAsync", op.COPY_PEER_ASYNC, 3),
    ]
    out: list[Symbol] = []
    for name, operation, dimensions in blocking:
        out += _with_twin("_ptds", Symbol(name, operation, region, dimensions=dimensions))
    for name, operation, dimensions in queued:
        out += _with_twin("_ptsz", Symbol(name, operation, region, dimensions=dimensions, stream=2))
    lists = [
        ("cuMemcpyBatchAsync", op.COPY_UNKNOWN_ASYNC, batch, 3, 4, 9),
        ("cuMemcpyBatchAsync_v2", op.COPY_UNKNOWN_ASYNC, batch, 3, 4, 8),
        ("cuMemcpy3DBatchAsync", op.COPY_UNKNOWN_ASYNC, Entry.COPY_REGIONS, 2, 1, 5),
        ("cuMemcpy3DBatchAsync_v2", op.COPY_UNKNOWN_ASYNC, Entry.COPY_REGIONS, 2, 1, 4),
        ("cuMemcpy3DWithAttributesAsync", op.COPY_UNKNOWN_ASYNC, Entry.COPY_REGIONS, 1, 0, 3),
        ("cuMemPrefetchBatchAsync", op.COPY_UNKNOWN_ASYNC, batch, 2, 3, 8),
        ("cuMemDiscardBatchAsync", op.DISCARD_ASYNC, batch, 2, 3, 5),
        ("cuMemDiscardAndPrefetchBatchAsync", op.DISCARD_ASYNC, batch, 2, 3, 8),
    ]
    for name, operation, entry, sizes, count, stream in lists:
        out += _with_twin("_ptsz", Symbol(name, operation, entry, bytes=sizes, rows=count, stream=stream))
    plain = Symbol("cuMemcpyWithAttributesAsync", op.COPY_UNKNOWN_ASYNC, bytes=3, stream=5)
    decompress = Symbol(
        "cuMemBatchDecompressAsync", op.DECOMPRESS_ASYNC, batch, bytes=1, rows=2, stream=5, dimensions=1
    )
    fabric = Symbol("cuFabricCpyBatchAsync", op.COPY_PEER_ASYNC, stream=4)
    arrays = Symbol("cuMemMapArrayAsync", op.MAP_MEMORY, stream=3)
    return [*out, *(each for one in (plain, decompress, fabric, arrays) for each in _with_twin("_ptsz", one))]


def _waits() -> list[Symbol]:
    op = Operation
    return [
        *_with_twin("_ptsz", Symbol("cuStreamSynchronize", op.SYNCHRONIZE_STREAM, stream=1)),
        Symbol("cuCtxSynchronize", op.SYNCHRONIZE_CONTEXT),
        Symbol("cuCtxSynchronize_v2", op.SYNCHRONIZE_CONTEXT),
        Symbol("cuEventSynchronize", op.SYNCHRONIZE_EVENT),
        *_with_twin("_ptsz", Symbol("cuStreamQuery", op.QUERY_STREAM, effect=Effect.QUERY, stream=1)),
        Symbol("cuEventQuery", op.QUERY_EVENT, effect=Effect.QUERY),
        *(
            twin
            for name in ("cuEventRecord", "cuEventRecordWithFlags")
            for twin in _with_twin(
                "_ptsz", Symbol(name, op.RECORD_EVENT, effect=Effect.RECORD_EVENT, pointer=1, stream=2)
            )
        ),
        *_with_twin(
            "_ptsz",
            Symbol("cuStreamWaitEvent", op.WAIT_EVENT, effect=Effect.AWAIT_EVENT, pointer=2, stream=1),
        ),
        Symbol("cuCtxRecordEvent", op.RECORD_EVENT),
        Symbol("cuCtxWaitEvent", op.WAIT_EVENT),
        Symbol("cuGreenCtxRecordEvent", op.RECORD_EVENT),
        Symbol("cuGreenCtxWaitEvent", op.WAIT_EVENT),
    ]


def _captures() -> list[Symbol]:
    """Where streams begin and end to be recorded into graphs."""
    op, begin, end = Operation.CAPTURE, Effect.BEGIN_CAPTURE, Effect.END_CAPTURE
    names = ("cuStreamBeginCapture", "cuStreamBeginCapture_v2", "cuStreamBeginCaptureToGraph")
    found = [twin for name in names for twin in _with_twin("_ptsz", Symbol(name, op, effect=begin, stream=1))]
    for name in ("cuStreamBeginCaptureToCig", "cuStreamBeginRecaptureToGraph"):
        found.append(Symbol(name, op, effect=begin, stream=1))
    found += _with_twin("_ptsz", Symbol("cuStreamEndCapture", op, effect=end, stream=1))
    for name in ("cuStreamEndCaptureToCig", "cuStreamDestroy_v2"):
        found.append(Symbol(name, op, effect=end, stream=1))
    return found


def _values() -> list[Symbol]:
    """What streams write, and wait for, in memory and in other drivers' semaphores."""
    op = Operation
    stems = ["cuStreamBatchMemOp"]
    stems += [f"cuStream{does}Value{bits}" for does in ("Write", "Wait") for bits in (32, 64)]
    semaphores = ("cuSignalExternalSemaphoresAsync", "cuWaitExternalSemaphoresAsync")
    found = [Symbol(stem + version, op.STREAM_VALUE, stream=1) for stem in stems for version in ("", "_v2")]
    found += [Symbol(name, op.EXTERNAL_SEMAPHORE, stream=4) for name in semaphores]
    return [twin for symbol in found for twin in _with_twin("_ptsz", symbol)]


def _contexts() -> list[Symbol]:
    op, create = Operation, Effect.CREATE_CONTEXT
    return [
        Symbol("cuInit", op.INITIALISE),
        Symbol("cuCtxCreate_v2", op.CREATE_CONTEXT, effect=create, pointer=1, device=3),
        Symbol("cuCtxCreate_v3", op.CREATE_CONTEXT, effect=create, pointer=1, device=5),
        Symbol("cuCtxCreate_v4", op.CREATE_CONTEXT, effect=create, pointer=1, device=4),
        Symbol(
            "cuDevicePrimaryCtxRetain",
            op.RETAIN_PRIMARY_CONTEXT,
            effect=Effect.RETAIN_PRIMARY,
            pointer=1,
            device=2,
        ),
        Symbol("cuCtxSetCurrent", op.SELECT_CONTEXT, effect=Effect.SELECT_CONTEXT, pointer=1),
        Symbol("cuCtxPushCurrent_v2", op.PUSH_CONTEXT, effect=Effect.PUSH_CONTEXT, pointer=1),
        Symbol("cuCtxPopCurrent_v2", op.POP_CONTEXT, effect=Effect.POP_CONTEXT),
        Symbol("cuCtxDestroy_v2", op.DESTROY_CONTEXT, effect=Effect.DESTROY_CONTEXT, pointer=1),
        Symbol("cuGreenCtxCreate", op.CREATE_CONTEXT, effect=Effect.CREATE_GREEN, pointer=1, device=3),
        Symbol("cuCtxFromGreenCtx", op.OTHER, effect=Effect.CONVERT_CONTEXT, pointer=1, function=2),
        Symbol("cuGreenCtxDestroy", op.DESTROY_CONTEXT, effect=Effect.DESTROY_GREEN, pointer=1),
        *(
            Symbol(f"cuDevicePrimaryCtx{does}{version}", operation, effect=effect, device=1)
            for does, operation, effect in (
                ("Release", op.RELEASE_PRIMARY_CONTEXT, Effect.RELEASE_PRIMARY),
                ("Reset", op.DESTROY_CONTEXT, Effect.RESET_PRIMARY),
            )
            for version in ("", "_v2")
        ),
        Symbol("cuDeviceGetUuid", op.OTHER, effect=Effect.READ_UUID, pointer=1, device=2),
        Symbol("cuDeviceGetUuid_v2", op.OTHER, effect=Effect.READ_UUID, pointer=1, device=2),
    ]


SYMBOLS: Final[tuple[Symbol, ...]] = (
    *_launches(),
    *_allocations(),
    *_frees(),
    *_copies(),
    *_array_copies(),
    *_described_copies(),
    *_waits(),
    *_captures(),
    *_values(),
    *_contexts(),
)
"""Every probed function. Getters such as cuCtxGetCurrent are left out: the runtime calls them at nearly each
of its own calls, where the trap of a probe would cost more than the answer tells."""
