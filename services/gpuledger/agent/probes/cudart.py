"""Calls of the CUDA runtime by name (``--runtime``): counts beside what the driver's probes record, added to
none of it.

The runtime has many copies, one in each program's own libraries: each file is probed when a process that uses
the driver library is seen to have it. A statically linked copy has no names and is not seen.
"""

from __future__ import annotations

import os
import re
import struct
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.elf import exported_functions
from gpuledger.agent.probes.libbpf import BUILT, BpfObject, object_path
from gpuledger.agent.probes.libraries import LibraryFile, library_file, range_name
from gpuledger.agent.probes.loader import MULTI_KERNEL, kernel_version
from gpuledger.agent.procfs import process_start_ns, same_start
from gpuledger.contract.errors import BadRecord, Unsupported

SOURCE: Final = "cudart.bpf.c"
OBJECT: Final = "cudart.bpf.o"
OBJECT_BUILT: Final = BUILT.with_name(OBJECT)
FUNCTIONS: Final = (
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaLaunchCooperativeKernel",
    "cudaGraphLaunch",
    "cudaMalloc",
    "cudaMallocAsync",
    "cudaMallocManaged",
    "cudaMallocPitch",
    "cudaMallocHost",
    "cudaHostAlloc",
    "cudaFree",
    "cudaFreeAsync",
    "cudaFreeHost",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemcpy2D",
    "cudaMemcpy2DAsync",
    "cudaMemcpyPeer",
    "cudaMemcpyPeerAsync",
    "cudaMemset",
    "cudaMemsetAsync",
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
)
"""What is counted, in the order of the cookies (cuda_runtime_api.h). Polls and getters are not: they are made
all the time, and a trap costs more than it tells."""
TWINS: Final = ("", "_ptsz", "_ptds")  # of the per-thread default stream: counted as the same
MOST_COUNTS: Final = 65_536  # processes times functions; what finds no place is counted as lost
_LIBRARY: Final = re.compile(rb"/libcudart[^/]*\.so[^/]*$")  # auditwheel writes libcudart-1b2c3d4e.so.11.0
_DELETED: Final = b" (deleted)"
_KEY: Final = np.dtype([("start_ns", np.uint64), ("pid", np.uint32), ("number", np.uint32)])
_CALLS: Final = np.dtype([("calls", np.uint64)])


class RuntimeCalls(NamedTuple):
    """Calls of one function that a process made since it is probed."""

    pid: int
    start_ns: int
    function: str
    calls: int


class RuntimeProbes:
    """Owns the program, its links and its counts until `close`. Not thread-safe."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._object: BpfObject | None = None
        self._multi = kernel_version() >= MULTI_KERNEL
        self._links: dict[tuple[int, int], list[int]] = {}
        self._users: dict[tuple[int, int], set[int]] = {}  # of files that were found, not named: their pids
        self._over: Counter[str] = Counter()  # of processes that have ended
        self.totals: dict[str, int] = {}
        """Calls by function since the start, of all processes, as `calls` was asked last."""
        self._cpus = bpfsys.cpus_possible()

    def start(self) -> None:
        """Loads the program. Raises Unsupported where it was not compiled ahead, or is refused."""
        path = object_path(OBJECT)
        if path is None:
            raise Unsupported(f"--runtime needs probes that were compiled ahead: no {OBJECT} (make bpf)")
        types = {"enter_runtime": bpfsys.ATTACH_UPROBE_MULTI} if self._multi else {}
        self._object = BpfObject(path, {"runtime_calls": MOST_COUNTS}, types)

    @property
    def libraries(self) -> int:
        """How many files are probed."""
        return sum(map(bool, self._links.values()))

    def look(self, pids: Collection[int]) -> int:
        """Probes the runtime libraries that these processes have; returns how many files are new. What is
        gone again, or is refused, is left out."""
        found = 0
        for pid in pids:
            for file in _mapped(self._proc / str(pid)):
                if file.key not in self._links:
                    try:
                        self.attach(file.path)
                    except (OSError, BadRecord):
                        self._links[file.key] = []  # once is enough to know
                    self._users[file.key] = set()
                    found += bool(self._links[file.key])
                if file.key in self._users:
                    self._users[file.key].add(pid)
        return found

    def release(self) -> None:
        """Lets go of the files that were found and that no living process has: a link holds on to the mount
        that its file lies on."""
        for key, pids in list(self._users.items()):
            pids &= {pid for pid in pids if (self._proc / str(pid)).exists()}
            if not pids:
                del self._users[key]
                for link in self._links.pop(key):
                    os.close(link)

    def attach(self, path: str | Path) -> None:
        """Probes a file, also before any process has it. Raises OSError, BadRecord."""
        file = library_file(path)
        if self._links.get(file.key):
            return
        places = _places(exported_functions(path))
        program = self._started().program("enter_runtime")
        if not self._multi:
            links = [bpfsys.attach_uprobe(program, str(path), at, number, False) for at, number in places]
        else:
            links = [bpfsys.attach_uprobes(program, str(path), places, False)] if places else []
        self._links[file.key] = links

    def calls(self) -> list[RuntimeCalls]:
        """What each process has called; of one that has ended once, after which only `totals` has it."""
        fd = self._started().map("runtime_calls")
        keys, counts = bpfsys.map_batch(fd, _KEY, _CALLS)
        started: dict[int, int | None] = {}
        found = []
        sums: Counter[str] = Counter()
        for key, (calls,) in zip(keys, counts.tolist(), strict=True):
            start_ns, pid, number = key.tolist()
            if pid not in started:
                started[pid] = process_start_ns(pid, self._proc)
            found.append(RuntimeCalls(pid, start_ns, FUNCTIONS[number], calls))
            sums[FUNCTIONS[number]] += calls
            now = started[pid]
            if now is None or not same_start(start_ns, now):
                self._over[FUNCTIONS[number]] += calls
                sums[FUNCTIONS[number]] -= calls
                bpfsys.map_delete(fd, key.tobytes())
        self.totals = {name: sums[name] + self._over[name] for name in FUNCTIONS}
        return sorted(found)

    def lost(self) -> int:
        """Calls that found no place among the counts."""
        values = bpfsys.map_lookup(self._started().map("runtime_lost"), struct.pack("=I", 0), 8 * self._cpus)
        return sum(struct.unpack(f"={self._cpus}Q", values)) if values else 0

    def close(self) -> None:
        """Detaches everything. May be called twice."""
        for links in self._links.values():
            for link in links:
                os.close(link)
        self._links.clear()
        self._users.clear()
        if self._object is not None:
            self._object.close()
            self._object = None

    def _started(self) -> BpfObject:
        if self._object is None:
            raise Unsupported("the probes on the CUDA runtime are not started")
        return self._object


def _places(exported: dict[str, int]) -> list[tuple[int, int]]:
    """(offset, number of the function) of all that the library exports; one offset is probed once."""
    numbers: dict[int, int] = {}
    for number, function in enumerate(FUNCTIONS):
        for twin in TWINS:
            if (offset := exported.get(function + twin)) is not None:
                numbers.setdefault(offset, number)
    return sorted(numbers.items())


def _mapped(process: Path) -> Iterator[LibraryFile]:
    """The runtime libraries that a process has mapped; none of one that is gone."""
    try:
        lines = (process / "maps").read_bytes().splitlines()
    except OSError:
        return
    seen = set()
    for line in lines:
        if b"/libcudart" not in line:
            continue
        parts = line.split(None, 5)
        name = parts[-1].removesuffix(_DELETED)
        if len(parts) < 6 or not _LIBRARY.search(name) or tuple(parts[3:5]) in seen:
            continue
        seen.add(tuple(parts[3:5]))
        for path in (
            process / "map_files" / range_name(parts[0].decode()),
            Path(f"{process}/root{os.fsdecode(name)}"),
        ):
            try:
                yield library_file(path)
                break
            except OSError:
                continue
