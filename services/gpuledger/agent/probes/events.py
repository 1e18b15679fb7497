"""What the probes hand over: one record a CUDA call, and the counts of what they had to leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

RAW_EVENT: Final = np.dtype(
    [
        ("time_ns", "<u8"),
        ("duration_ns", "<u8"),
        ("cgroup_id", "<u8"),
        ("bytes", "<u8"),
        ("launched_threads", "<u8"),
        ("function", "<u8"),
        ("stream", "<u8"),
        ("start_ns", "<u8"),
        ("pid", "<u4"),
        ("tid", "<u4"),
        ("result", "<i4"),
        ("operation", "<u2"),
        ("ordinal", "<i2"),
    ]
)
"""One call of a process into the CUDA driver, recorded when it returned (80 bytes, ``struct event`` of
bpf/cuda.bpf.c).

- ``time_ns`` boot clock at the return, ``duration_ns`` since the entry
- ``cgroup_id`` inode of the cgroup v2 directory at the return
- ``bytes`` what the call moved, allocated or gave back; 0 where it failed, and for a free of memory that was
  not resident on a device (managed) or whose allocation nobody saw
- ``launched_threads`` grid x block of a kernel launch; 0 where it failed
- ``function`` the kernel's (or graph's) handle, 0 where there is none; ``stream`` the stream's handle
- ``start_ns`` boot clock at the start of the process, 0 where the kernel tells no BTF; with ``pid`` it
  names a process for good
- ``pid``, ``tid`` in the first pid namespace
- ``result`` the CUresult, 0 for success
- ``operation`` a code of `gpuledger.contract.operations.Operation`
- ``ordinal`` the device as the process counts its devices, -1 where not known
"""

RawEvents = npt.NDArray[np.void]
"""An array of `RAW_EVENT`."""

UNKNOWN_ORDINAL: Final = -1


@dataclass(frozen=True, slots=True)
class Losses:
    """Cumulative counts since the probes were loaded, summed over the CPUs; they never fall.

    Field order is the order of the kernel's array ``losses`` (`symbols.c_preamble`).
    """

    ring_full: int = 0
    """Calls that found no room in the ring: drained too seldom."""
    threads_full: int = 0
    """Calls of threads that found no room in the table of threads."""
    return_without_entry: int = 0
    """Returns whose entry was missed."""
    unreturned: int = 0
    """Entries whose return was missed, noticed at a later call of the same thread."""
    processes_full: int = 0
    """Calls whose process found no room: their events come out, their device may be unknown."""
    contexts_full: int = 0
    """Contexts or (process, device) totals that found no room."""
    allocations_full: int = 0
    """Allocations that found no room: their free will carry 0 bytes."""
    duplicate: int = 0
    """Probes that fired a second time for one call, through another name of one library; nothing is lost."""

    @property
    def events(self) -> int:
        """Calls of which no event came out."""
        return self.ring_full + self.threads_full + self.return_without_entry + self.unreturned


@dataclass(frozen=True, slots=True)
class Resident:
    """Device memory that one process holds on one device: explicit allocations, without managed memory."""

    pid: int
    start_ns: int
    ordinal: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DeviceUuid:
    """What a process was told when it asked for a device's UUID."""

    pid: int
    start_ns: int
    ordinal: int
    uuid: str
    """8-4-4-4-12 hexadecimal digits without GPU- or MIG-: the bytes do not say which it is."""
    alive: bool = True
    """Whether the program that was told still runs."""
