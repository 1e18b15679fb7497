"""How the table of probed functions reaches the kernel side.

The same table makes the attach cookie of each probe and the constants that the C side reads it with, so the
two can not drift apart.
"""

from __future__ import annotations

import hashlib
import mmap
from dataclasses import dataclass, fields
from typing import Final

from gpuledger.agent.probes.driver_api import SYMBOLS
from gpuledger.agent.probes.events import Losses
from gpuledger.agent.probes.symbol import (
    ENTRY_PROGRAMS,
    RETURN_PROGRAM,
    SILENT,
    Effect,
    Entry,
    Space,
    Symbol,
)
from gpuledger.contract.operations import LAUNCHES, SYNCHRONIZING, Operation

__all__ = [
    "COUNTS",
    "DRIVER_COUNTS",
    "ENTRY_PROGRAMS",
    "RETURN_PROGRAM",
    "SILENT",
    "SYMBOLS",
    "Effect",
    "Entry",
    "Limits",
    "Symbol",
    "c_preamble",
    "cookie",
    "table_digest",
]

_COOKIE_FIELDS: Final = (
    ("operation", 16),
    ("effect", 5),
    ("bytes", 3),
    ("scale", 2),
    ("rows", 3),
    ("pointer", 3),
    ("stream", 4),
    ("device", 3),
    ("function", 3),
    ("resident", 1),
    ("space", 2),
    ("dimensions", 2),
    ("per_thread", 1),
)
"""(field of `Symbol`, bits), from bit 0 upwards. The rest of the 64 bits is the number of the symbol."""

_SYMBOL_SHIFT: Final = sum(bits for _, bits in _COOKIE_FIELDS)

COUNTS: Final = ("process_ends", "not_ready", "tallied")
"""What is counted behind the losses, and is none."""

DRIVER_COUNTS: Final = (
    "ring_full",
    "threads_full",
    "return_without_entry",
    "registrations_full",
    "unreturned",
)
"""What bpf/nvidia.bpf.c counts as lost, in order."""
NATIVE: Final = 1
COMPAT: Final = 2
"""Which calls a function of the driver is the entry of, those of 64-bit or of 32-bit programs; 0: of all."""

PAGE_BYTES: Final = mmap.PAGESIZE  # the unit in which the kernel sizes ring buffers
CUDA_ERROR_NOT_READY: Final = 600  # cuda.h
MAX_UNMAPPED: Final = 128  # that one call unmaps; more of them are held until the process ends
MAX_LISTED_COPIES: Final = 1024  # whose bytes are summed, some 15 ns each; the rest of a longer batch is not
MAX_LISTED_REGIONS: Final = 256  # the same of regions; the kernel checks each turn of that loop
RATE_SLOT_NS: Final = 100_000_000  # a burst of a tenth of a second is worth a change
RUN_NS: Final = 1_000_000  # up to so long neighbouring short bursts are joined
LONG_BURST_NS: Final = 250_000  # a burst, or a pause, of which each is told; 4,000 records a second at most
LOCK_TRIES: Final = 64  # some 20 ns each; what they protect takes less than 0.2 us
MIN_BLOCKED_NS: Final = 4_000  # as attribution sees it: a call that returns sooner did not wait
MIN_BLOCKED_PART: Final = 10  # of the interval; a shorter wait says the work may have been done long before
MAX_TALLIES_OF_PROCESS: Final = 1024  # functions and results of one process that are told apart
CGROUP_PATH_BYTES: Final = 1024  # TRACE_CGROUP_PATH_LEN: the tracepoints of cgroups tell no more
MAX_GONE_CGROUPS: Final = 1024  # 1 MiB; a node that loses 20 containers a second fills it in a minute
UNIFIED_HIERARCHY: Final = 0  # the number of cgroup v2, as in /proc/PID/cgroup
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
    """160,000 events: 1.6 s of 100,000 calls a second between two drains. A power of two."""
    threads: int = 65_536
    processes: int = 16_384
    contexts: int = 65_536
    allocations: int = 1 << 20
    mappings: int = 1 << 18
    tallies: int = 65_536

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
            "uuids": self.contexts,
            "allocations": self.allocations,
            "mappings": self.mappings,
            "tallies": self.tallies,
            "captures": self.contexts,
            "outstanding": self.contexts,
        }


def c_preamble(limits: Limits, offsets: dict[str, int]) -> str:
    """The ``#define`` lines in front of bpf/cuda.bpf.c.

    ``offsets`` are byte offsets of kernel structures by macro name, as `btf.kernel_offsets` reads them; empty
    where the kernel tells none.
    """
    defines: dict[str, int] = {
        "RING_PAGES": limits.ring_bytes // PAGE_BYTES,
        "MAX_THREADS": limits.threads,
        "MAX_PROCESSES": limits.processes,
        "MAX_CONTEXTS": limits.contexts,
        "MAX_ALLOCATIONS": limits.allocations,
        "MAX_TALLIES": limits.tallies,
        "MAX_TALLIES_OF_PROCESS": MAX_TALLIES_OF_PROCESS,
        "RATE_SLOT_NS": RATE_SLOT_NS,
        "RUN_NS": RUN_NS,
        "LONG_BURST_NS": LONG_BURST_NS,
        "LOCK_TRIES": LOCK_TRIES,
        "MIN_BLOCKED_NS": MIN_BLOCKED_NS,
        "MIN_BLOCKED_PART": MIN_BLOCKED_PART,
        "LAUNCHES_MASK": sum(1 << code for code in LAUNCHES),
        "SYNCHRONIZING_MASK": sum(1 << code for code in SYNCHRONIZING),
        "MAX_NESTED_CALLS": 4,
        "MAX_CONTEXT_STACK": 8,
        "MAX_LISTED_LAUNCHES": 16,
        "MAX_UNMAPPED": MAX_UNMAPPED,
        "MAX_MAPPINGS": limits.mappings,
        "MAX_LISTED_COPIES": MAX_LISTED_COPIES,
        "MAX_LISTED_REGIONS": MAX_LISTED_REGIONS,
        "CGROUP_PATH_BYTES": CGROUP_PATH_BYTES,
        "MAX_GONE_CGROUPS": MAX_GONE_CGROUPS,
        "UNIFIED_HIERARCHY": UNIFIED_HIERARCHY,
        "NOT_READY": CUDA_ERROR_NOT_READY,
        "TOKEN_PID_BITS": TOKEN_PID_BITS,
    }
    shift = 0
    for name, bits in _COOKIE_FIELDS:
        defines[f"COOKIE_{name.upper()}_SHIFT"] = shift
        defines[f"COOKIE_{name.upper()}_BITS"] = bits
        shift += bits
    defines |= {f"EFFECT_{e.name}": e.value for e in Effect}
    defines |= {f"SPACE_{s.name}": s.value for s in Space}
    named = ("COPY_", "IOCTL_", "CAPTURE", "ALLOCATE_DEVICE")
    defines |= {f"OPERATION_{o.name}": o.value for o in Operation if o.name.startswith(named)}
    loss_names = [f.name for f in fields(Losses)]
    defines |= {f"LOSS_{name.upper()}": index for index, name in enumerate(loss_names)}
    for index, name in enumerate(COUNTS, len(loss_names)):
        defines[f"COUNT_{name.upper()}"] = index
    for index, name in enumerate(DRIVER_COUNTS):
        defines[f"DRIVER_{name.upper()}"] = index
    defines["DRIVER_COUNT"] = len(DRIVER_COUNTS)
    defines |= {"ENTRY_OF_ALL": 0, "ENTRY_OF_NATIVE": NATIVE, "ENTRY_OF_COMPAT": COMPAT}
    defines["LOSS_COUNT"] = len(loss_names) + len(COUNTS)
    defines |= offsets
    return "".join(f"#define {name} {value}\n" for name, value in defines.items())


def table_digest() -> str:
    """Names this version of table, cookies and counters: an object compiled for another one is refused."""
    table = [(symbol.name, cookie(symbol), int(symbol.entry)) for symbol in SYMBOLS]
    return hashlib.sha256(f"{c_preamble(Limits(), {})}{table}".encode()).hexdigest()
