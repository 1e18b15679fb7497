"""Probes on the NVIDIA kernel driver's entry points, whose names differ between its branches.

515 to 535 enter through nvidia_frontend_*, 545 and later through nvidia_open and nvidia_unlocked_ioctl; there
nvidia_open exists in both, and behind the other in the older ones, so the frontend comes first. Names:
nv-frontend.c and nv.c of NVIDIA/open-gpu-kernel-modules, which both flavours of the driver ship as source.
"""

from __future__ import annotations

import os
import struct
import uuid
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.events import RawEvents
from gpuledger.agent.probes.ioctls import decode
from gpuledger.agent.probes.libbpf import DRIVER_OBJECT, BpfObject, object_path
from gpuledger.agent.probes.ring import MappedRing
from gpuledger.agent.probes.symbols import COMPAT, DRIVER_COUNTS, NATIVE
from gpuledger.contract.errors import Unsupported
from gpuledger.contract.operations import Operation

KALLSYMS: Final = Path("/proc/kallsyms")
_MODULES: Final = ("[nvidia]", "[nvidia_uvm]")

ENTRY_POINTS: Final = {
    Operation.IOCTL_OPEN: ("nvidia_frontend_open", "nvidia_open"),
    Operation.IOCTL_CLOSE: ("nvidia_frontend_close", "nvidia_close"),
    Operation.IOCTL_OTHER: ("nvidia_frontend_unlocked_ioctl", "nvidia_unlocked_ioctl"),
    Operation.IOCTL_UVM_OTHER: ("uvm_unlocked_ioctl_entry",),
    Operation.IOCTL_MMAP: ("nvidia_frontend_mmap", "nvidia_mmap"),
}
"""What is probed as which operation: the first of the names that the driver has."""
FRONTEND_IOCTL: Final = "nvidia_frontend_unlocked_ioctl"
COMPAT_IOCTL: Final = "nvidia_frontend_compat_ioctl"
"""Of 32-bit programs; later branches, and nvidia-uvm, have one function for both."""
REGISTER_GPU: Final = "uvm_api_register_gpu"
REPORT_ERROR: Final = "nv_report_error"
XID_TRACEPOINT: Final = "nvidia_dev_xid"
"""Fired by REPORT_ERROR; taken where that function can not be probed."""

RING_BYTES: Final = 1 << 20  # 11,915 calls: a process's start makes some thousands, its work none
_THREADS: Final = 16_384
_REGISTRATIONS: Final = 16_384
MAX_XIDS: Final = 256  # between two looks
_XID: Final = struct.Struct("=QQ16s")  # struct xid
ENTRY_SHIFT: Final = 16
_KEY: Final = struct.Struct("=I16s")  # struct registration of bpf/nvidia.bpf.c
_VALUE: Final = struct.Struct("=QQQ")  # struct registered


@dataclass(frozen=True, slots=True)
class GpuRegistration:
    """A process told the driver that it will use a device: which one, with no guess from its environment."""

    pid: int
    start_ns: int
    uuid: str
    """8-4-4-4-12 hexadecimal digits of the physical GPU, or of the MIG instance's GPU."""
    mig: bool
    time_ns: int


@dataclass(frozen=True, slots=True)
class DriverXid:
    """An error that the driver reported: NVIDIA's list of XID errors says what each code means."""

    time_ns: int
    """Boot clock."""
    code: int
    address: str
    """Of the GPU on the PCI bus, as the kernel writes it: 0000:17:00.0."""


@dataclass(frozen=True, slots=True)
class DriverReport:
    """Functions of the driver that are probed, and what it lacks."""

    attached: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DriverLosses:
    """Cumulative counts of what the driver's probes left out; order as in `symbols.DRIVER_COUNTS`."""

    ring_full: int = 0
    threads_full: int = 0
    return_without_entry: int = 0
    registrations_full: int = 0
    unreturned: int = 0
    """Entries whose return was missed, noticed at a later call of the same thread."""

    def plus(self, other: DriverLosses) -> DriverLosses:
        """The sums."""
        return DriverLosses(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def probes_of(chosen: dict[Operation, str], functions: set[str]) -> list[tuple[str, int]]:
    """(function, cookie) of what is probed at entry and return: which operation, and of which calls."""
    found = [(name, int(operation)) for operation, name in chosen.items()]
    if chosen.get(Operation.IOCTL_OTHER) != FRONTEND_IOCTL or COMPAT_IOCTL not in functions:
        return found
    native, compat = (int(Operation.IOCTL_OTHER) | entry << ENTRY_SHIFT for entry in (NATIVE, COMPAT))
    of_both = [(name, native if name == FRONTEND_IOCTL else cookie) for name, cookie in found]
    return [*of_both, (COMPAT_IOCTL, compat)]


def driver_functions(lines: Iterable[str]) -> set[str]:
    """Names of the functions of the NVIDIA modules in text like /proc/kallsyms."""
    found = set()
    for line in lines:
        if line.endswith(_MODULES):
            _, kind, name, *_ = line.split()
            if kind in "tT":
                found.add(name)
    return found


def choose_functions(functions: set[str]) -> tuple[dict[Operation, str], tuple[str, ...]]:
    """(function to probe for each operation, what none of the names was found for)."""
    chosen: dict[Operation, str] = {}
    missing: list[str] = []
    for operation, names in ENTRY_POINTS.items():
        name = next((name for name in names if name in functions), None)
        if name is None:
            missing.append("/".join(names))
        else:
            chosen[operation] = name
    return chosen, tuple(missing)


class DriverProbes:
    """Owns the programs, their links and their ring until `close`. Not thread-safe."""

    def __init__(self) -> None:
        self._object: BpfObject | None = None
        self._ring: MappedRing | None = None
        self._links: list[int] = []
        self._cpus = bpfsys.cpus_possible()

    def start(self, kallsyms: Path = KALLSYMS) -> DriverReport:
        """Attaches to what the loaded driver has. Raises Unsupported where there is no driver, no kprobes, or
        the programs can not be loaded."""
        with kallsyms.open() as file:
            functions = driver_functions(line.rstrip() for line in file)
        chosen, missing = choose_functions(functions)
        if not chosen:
            raise Unsupported("no NVIDIA driver is loaded, or /proc/kallsyms does not tell its functions")
        path = object_path(DRIVER_OBJECT)
        if path is None:
            raise Unsupported(f"the probes were not compiled ahead: no {DRIVER_OBJECT} (make bpf)")
        sizes = {"events": RING_BYTES, "driver_calls": _THREADS, "registrations": _REGISTRATIONS}
        sizes["xids"] = MAX_XIDS
        self._object = BpfObject(path, sizes, {})
        try:
            self._ring = MappedRing(self._object.map("events"), RING_BYTES)
            probes = probes_of(chosen, functions)
            for name, cookie in probes:
                self._attach("enter_driver", name, cookie, at_return=False)
                self._attach("leave_driver", name, cookie, at_return=True)
            attached = tuple(name for name, _ in probes)
            if REGISTER_GPU in functions:
                self._attach("register_gpu", REGISTER_GPU, 0, at_return=False)
                attached += (REGISTER_GPU,)
            else:
                missing += (REGISTER_GPU,)
            probed = self._attach_errors(functions)
            attached, missing = (*attached, *probed), missing if probed else (*missing, REPORT_ERROR)
        except OSError as error:
            self.close()
            raise Unsupported(f"the kernel has no kprobes on the driver: {error}") from error
        except BaseException:
            self.close()
            raise
        return DriverReport(attached, missing)

    def _attach(self, program: str, function: str, cookie: int, at_return: bool) -> None:
        fd = self._started().program(program)
        self._links.append(bpfsys.attach_kprobe(fd, function, cookie, at_return))

    def _attach_errors(self, functions: set[str]) -> tuple[str, ...]:
        """What errors are seen by; nothing where the driver has neither.

        The tracepoint keeps the module from being unloaded, so it is held as long as nvidia-uvm is there,
        which goes first.
        """
        if REPORT_ERROR in functions:
            self._attach("on_error", REPORT_ERROR, 0, at_return=False)
            return (REPORT_ERROR,)
        if not functions.intersection(ENTRY_POINTS[Operation.IOCTL_UVM_OTHER]):
            return ()
        try:
            fd = self._started().program("on_xid")
            self._links.append(bpfsys.attach_raw_tracepoint(fd, XID_TRACEPOINT))
        except FileNotFoundError:
            return ()
        return (XID_TRACEPOINT,)

    def drain(self) -> RawEvents:
        """Calls that returned since the last drain: ``function`` is the ioctl's number, ``stream`` the minor
        number of the device node, ``result`` an errno."""
        if self._ring is None or self._ring.reader is None:
            raise Unsupported("the probes on the driver are not started")
        return decode(self._ring.reader.drain())

    def losses(self) -> DriverLosses:
        """Summed over the CPUs; never falls."""
        fd = self._started().map("losses")
        totals = []
        for index in range(len(DRIVER_COUNTS)):
            values = bpfsys.map_lookup(fd, struct.pack("=I", index), 8 * self._cpus)
            totals.append(sum(struct.unpack(f"={self._cpus}Q", values)) if values else 0)
        return DriverLosses(*totals)

    def xids(self) -> list[DriverXid]:
        """Errors since the last call, at most `MAX_XIDS` of them, the latest."""
        fd = self._started().map("xids")
        out: list[DriverXid] = []
        while len(out) < MAX_XIDS and (raw := bpfsys.map_pop(fd, _XID.size)) is not None:
            time_ns, code, address = _XID.unpack(raw)
            out.append(DriverXid(time_ns, code, address.split(b"\0")[0].decode("ascii", "replace")))
        return out

    def registrations(self) -> list[GpuRegistration]:
        """Which devices processes have registered; of one that is gone it is told once, and removed."""
        fd = self._started().map("registrations")
        out = []
        for key in set(bpfsys.map_keys(fd, _KEY.size)):
            pid, raw = _KEY.unpack(key)
            value = bpfsys.map_lookup(fd, key, _VALUE.size)
            if not Path("/proc", str(pid)).exists():
                bpfsys.map_delete(fd, key)
            if value is not None:
                time_ns, start_ns, partition = _VALUE.unpack(value)
                named = str(uuid.UUID(bytes=raw))
                out.append(GpuRegistration(pid, start_ns, named, partition != 0, time_ns))
        return sorted(out, key=lambda found: (found.pid, found.uuid))

    def close(self) -> None:
        """Detaches everything. May be called twice."""
        for link in self._links:
            os.close(link)
        self._links.clear()
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        if self._object is not None:
            self._object.close()
            self._object = None

    def _started(self) -> BpfObject:
        if self._object is None:
            raise Unsupported("the probes on the driver are not started")
        return self._object
