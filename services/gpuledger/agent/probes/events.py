"""What the probes hand over: one record a CUDA call, tallies of processes that call very often, and the
counts of what had to be left out."""

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
        ("span_ns", "<u8"),
        ("count", "<u8"),
        ("pid", "<u4"),
        ("tid", "<u4"),
        ("result", "<i4"),
        ("operation", "<u2"),
        ("ordinal", "<i2"),
    ]
)
"""One call of a process into the CUDA driver, recorded when it returned (96 bytes, ``struct event`` of
bpf/event.h); or a tally of calls, or a run of outstanding work.

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
- ``count`` 1 (a source without tallies may leave it 0) and ``span_ns`` 0

A *tally* (``span_ns`` above 0, ``count`` 1 or more) speaks of ``count`` calls alike in process, cgroup,
operation, function, result and ordinal that returned in (time_ns - span_ns, time_ns]: ``duration_ns``,
``bytes`` and ``launched_threads`` are sums, ``tid`` is 0. ``function`` 0 may stand for several.

A *run* (``span_ns`` above 0, ``count`` 0) says of a tallied process that in (time_ns - span_ns, time_ns] it
had work outstanding on a device for ``duration_ns``, in ``function`` bursts of ``launched_threads`` launches
in all (0: not known); for ``bytes`` ns of them a wait saw the end. The same run may be told several times,
each time longer or the same.
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
    """Calls that found no room in the ring and none in the tallies: their process was not known."""
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
    tallies_full: int = 0
    """Calls that were to be tallied and found no room in the table."""

    @property
    def events(self) -> int:
        """Calls of which no event came out."""
        lost = self.ring_full + self.threads_full + self.return_without_entry + self.unreturned
        return lost + self.tallies_full


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
