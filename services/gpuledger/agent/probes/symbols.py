"""Which exported functions of libcuda are probed, what each means and where its arguments lie.

Signatures: cuda.h (11.6 to 13.0). A size or handle is named by the number of its argument, from 1; 0 where
there is none. The same table makes the attach cookie of each probe and the constants that the C side reads
it with, so the two can not drift apart.
"""

from __future__ import annotations

import hashlib
import mmap
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Final

from gpuledger.agent.probes.events import Losses
from gpuledger.contract.operations import Operation


class Effect(IntEnum):
    """What a successful call changes in the state that the kernel side keeps."""

    NONE = 0
    ALLOCATE = 1
    ALLOCATE_PITCHED = 2
    ALLOCATE_PHYSICAL = 3
    FREE = 4
    CREATE_CONTEXT = 5
    RETAIN_CONTEXT = 6
    SELECT_CONTEXT = 7
    PUSH_CONTEXT = 8
    POP_CONTEXT = 9
    DESTROY_CONTEXT = 10


class Space(IntEnum):
    """Where an allocation's handle is unique; handles of different spaces may be equal numbers."""

    DEVICE = 0
    PHYSICAL = 1
    HOST = 2


class Entry(IntEnum):
    """The program that runs at the entry of a function."""

    CALL = 0
    LAUNCH = 1
    LAUNCH_CONFIG = 2


ENTRY_PROGRAMS: Final = {
    Entry.CALL: "enter_call",
    Entry.LAUNCH: "enter_launch",
    Entry.LAUNCH_CONFIG: "enter_launch_config",
}
RETURN_PROGRAM: Final = "leave"


@dataclass(frozen=True, slots=True)
class Symbol:
    """One exported function: numbers are argument numbers, ``scale`` the shift from elements to bytes."""

    name: str
    operation: Operation
    entry: Entry = Entry.CALL
    effect: Effect = Effect.NONE
    bytes: int = 0
    scale: int = 0
    pointer: int = 0
    stream: int = 0
    device: int = 0
    function: int = 0
    resident: bool = False
    space: Space = Space.DEVICE


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
        *_with_twin("_ptsz", Symbol("cuGraphLaunch", op.LAUNCH_GRAPH, function=1, stream=2)),
        *_with_twin("_ptsz", Symbol("cuLaunchHostFunc", op.LAUNCH_HOST_FUNCTION, function=2, stream=1)),
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
        Symbol("cuMemRelease", op.FREE_PHYSICAL, effect=free, pointer=1, space=Space.PHYSICAL),
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
    return out


def _waits() -> list[Symbol]:
    op = Operation
    return [
        *_with_twin("_ptsz", Symbol("cuStreamSynchronize", op.SYNCHRONIZE_STREAM, stream=1)),
        Symbol("cuCtxSynchronize", op.SYNCHRONIZE_CONTEXT),
        Symbol("cuCtxSynchronize_v2", op.SYNCHRONIZE_CONTEXT),
        Symbol("cuEventSynchronize", op.SYNCHRONIZE_EVENT),
    ]


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
            effect=Effect.RETAIN_CONTEXT,
            pointer=1,
            device=2,
        ),
        Symbol("cuCtxSetCurrent", op.SELECT_CONTEXT, effect=Effect.SELECT_CONTEXT, pointer=1),
        Symbol("cuCtxPushCurrent_v2", op.PUSH_CONTEXT, effect=Effect.PUSH_CONTEXT, pointer=1),
        Symbol("cuCtxPopCurrent_v2", op.POP_CONTEXT, effect=Effect.POP_CONTEXT),
        Symbol("cuCtxDestroy_v2", op.DESTROY_CONTEXT, effect=Effect.DESTROY_CONTEXT, pointer=1),
        Symbol("cuDevicePrimaryCtxRelease_v2", op.RELEASE_PRIMARY_CONTEXT, device=1),
    ]


SYMBOLS: Final[tuple[Symbol, ...]] = (
    *_launches(),
    *_allocations(),
    *_frees(),
    *_copies(),
    *_waits(),
    *_contexts(),
)
"""Every probed function. Event queries and records are left out: they are polled in tight loops, where the
trap of a probe would cost more than the answer tells."""

_COOKIE_FIELDS: Final = (
    ("operation", 16),
    ("effect", 4),
    ("bytes", 3),
    ("scale", 2),
    ("pointer", 3),
    ("stream", 3),
    ("device", 3),
    ("function", 3),
    ("resident", 1),
    ("space", 2),
)
"""(field of `Symbol`, bits), from bit 0 upwards. The rest of the 64 bits is the number of the symbol."""

_SYMBOL_SHIFT: Final = sum(bits for _, bits in _COOKIE_FIELDS)

PAGE_BYTES: Final = mmap.PAGESIZE  # the unit in which the kernel sizes ring buffers
TOKEN_PID_BITS: Final = 8  # 256 pids may begin in one nanosecond; 2^56 ns of boot clock are 2.2 years


def cookie(symbol: Symbol) -> int:
    """The 64-bit attach cookie: all that the kernel side has to know of ``symbol``, and its number."""
    value, shift = 0, 0
    for name, bits in _COOKIE_FIELDS:
        part = int(getattr(symbol, name))
        if part >> bits:
            raise ValueError(f"{symbol.name}: {name}={part} does not fit in {bits} bits")
        value |= part << shift
        shift += bits
    return value | SYMBOLS.index(symbol) << _SYMBOL_SHIFT


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of the kernel-side tables. All but the ring are allocated as they fill."""

    ring_bytes: int = 16 << 20
    """190,000 events: 1.9 s of 100,000 calls a second between two drains. A power of two."""
    threads: int = 65_536
    processes: int = 16_384
    contexts: int = 65_536
    allocations: int = 1 << 20

    def __post_init__(self) -> None:
        if self.ring_bytes < PAGE_BYTES or self.ring_bytes & (self.ring_bytes - 1):
            raise ValueError(f"ring_bytes must be a power of two of at least {PAGE_BYTES}: {self.ring_bytes}")

    def map_entries(self) -> dict[str, int]:
        """Name of each map whose size is a limit -> its entries, for the ring its bytes."""
        return {
            "events": self.ring_bytes,
            "threads": self.threads,
            "processes": self.processes,
            "late": self.processes,
            "contexts": self.contexts,
            "resident": self.contexts,
            "allocations": self.allocations,
        }


def c_preamble(limits: Limits, offsets: dict[str, int]) -> str:
    """The ``#define`` lines in front of bpf/cuda.bpf.c.

    ``offsets`` are byte offsets of kernel structures by macro name, as `btf.task_offsets` reads them; empty
    where the kernel tells none.
    """
    defines: dict[str, int] = {
        "RING_PAGES": limits.ring_bytes // PAGE_BYTES,
        "MAX_THREADS": limits.threads,
        "MAX_PROCESSES": limits.processes,
        "MAX_CONTEXTS": limits.contexts,
        "MAX_ALLOCATIONS": limits.allocations,
        "MAX_NESTED_CALLS": 4,
        "MAX_CONTEXT_STACK": 8,
        "TOKEN_PID_BITS": TOKEN_PID_BITS,
    }
    shift = 0
    for name, bits in _COOKIE_FIELDS:
        defines[f"COOKIE_{name.upper()}_SHIFT"] = shift
        defines[f"COOKIE_{name.upper()}_BITS"] = bits
        shift += bits
    defines |= {f"EFFECT_{e.name}": e.value for e in Effect}
    defines |= {f"SPACE_{s.name}": s.value for s in Space}
    loss_names = [f.name for f in fields(Losses)]
    defines |= {f"LOSS_{name.upper()}": index for index, name in enumerate(loss_names)}
    defines["COUNT_PROCESS_ENDS"] = len(loss_names)
    defines["LOSS_COUNT"] = len(loss_names) + 1
    defines |= offsets
    return "".join(f"#define {name} {value}\n" for name, value in defines.items())


def table_digest() -> str:
    """Names this version of table, cookies and counters: an object compiled for another one is refused."""
    table = [(symbol.name, cookie(symbol), int(symbol.entry)) for symbol in SYMBOLS]
    return hashlib.sha256(f"{c_preamble(Limits(), {})}{table}".encode()).hexdigest()
