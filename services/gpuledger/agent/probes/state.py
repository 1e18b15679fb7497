"""Reads and tidies the tables that the probes keep in the kernel."""

from __future__ import annotations

import os
import struct
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Final

from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.events import DeviceUuid, Losses, Resident
from gpuledger.agent.probes.loader import Loader
from gpuledger.agent.probes.symbols import CGROUP_PATH_BYTES, COUNTS, MAX_GONE_CGROUPS, RATE_SLOT_NS
from gpuledger.contract.clock import NS_PER_S

_LOSS_NAMES: Final = tuple(f.name for f in fields(Losses))
_PROCESS_ENDS, _NOT_READY, _TALLIED = (
    len(_LOSS_NAMES) + COUNTS.index(name) for name in ("process_ends", "not_ready", "tallied")
)

_PROCESS: Final = struct.Struct("=QQQqqqQQQQQq")  # struct process of bpf/cuda.bpf.c
_PROCESS_KEY: Final = struct.Struct("=I")
_NEVER: Final = 2**64 - 1
_UUID: Final = struct.Struct("=16sQQ")  # struct uuid
_RESIDENT_KEY: Final = struct.Struct("=Qq")
_SWEPT: Final = {"contexts": 16, "resident": 16, "allocations": 24, "mappings": 16, "captures": 24}
"""map -> bytes of its key, which begins with the token of its process; `KernelState.uuids` tidies its own"""
_OTHERS: Final = ("losses", "settled_ns", "processes", "late", "rates", "uuids", "gone_cgroups")
_GONE_CGROUP: Final = struct.Struct(f"=Q{CGROUP_PATH_BYTES}s")  # struct gone_cgroup


class KernelState:
    """A view of a loader's maps; owns nothing."""

    def __init__(self, loader: Loader) -> None:
        self._maps = {name: loader.map(name) for name in (*_OTHERS, *_SWEPT)}
        self._cpus = bpfsys.cpus_possible()

    def losses(self) -> Losses:
        """Cumulative, summed over the CPUs."""
        return Losses(*(self._counter(index) for index in range(len(_LOSS_NAMES))))

    def process_ends(self) -> int:
        """How many observed processes have ended, or replaced their program, so far."""
        return self._counter(_PROCESS_ENDS)

    def not_ready(self) -> int:
        """How many queries of streams and events were answered "not ready" so far, and made no record."""
        return self._counter(_NOT_READY)

    def tallied(self) -> int:
        """How many calls were tallied so far, and made no record."""
        return self._counter(_TALLIED)

    def set_tally_rate(self, calls_per_s: int | None) -> None:
        """From now on a process is tallied that calls more often, until it calls half as often; None: never,
        0: always."""
        above = below = _NEVER
        if calls_per_s is not None:
            above = calls_per_s * RATE_SLOT_NS // NS_PER_S
            below = above // 2
        bpfsys.map_update(self._maps["rates"], struct.pack("=I", 0), struct.pack("=QQ", above, below))

    def living(self) -> set[int]:
        """The tokens of the processes that are observed and alive."""
        return {token for _, token, _ in self._processes()}

    def _counter(self, index: int) -> int:
        values = bpfsys.map_lookup(self._maps["losses"], struct.pack("=I", index), 8 * self._cpus)
        return sum(struct.unpack(f"={self._cpus}Q", values)) if values else 0

    @contextmanager
    def attaching(self) -> Iterator[None]:
        """While the probes of a library are being attached: a call that began before the end of it may have
        an entry and no return, and is not lost for that."""
        self._settle(_NEVER)
        try:
            yield
        finally:
            self._settle(time.clock_gettime_ns(time.CLOCK_BOOTTIME))

    def _settle(self, since_ns: int) -> None:
        bpfsys.map_update(self._maps["settled_ns"], struct.pack("=I", 0), struct.pack("=Q", since_ns))

    def mark_late(self, pid: int) -> None:
        """The process had the library before its probes: it may have contexts that were not seen."""
        bpfsys.map_update(self._maps["late"], _PROCESS_KEY.pack(pid), struct.pack("=Q", 1))

    def resident(self) -> list[Resident]:
        """One entry for each living process and device on which it holds memory; ordinal -1 where unknown."""
        owners = {token: (pid, start_ns) for pid, token, start_ns in self._processes()}
        out = []
        for key in set(bpfsys.map_keys(self._maps["resident"], _RESIDENT_KEY.size)):
            token, ordinal = _RESIDENT_KEY.unpack(key)
            value = bpfsys.map_lookup(self._maps["resident"], key, 8)
            if token in owners and value is not None and any(value):
                pid, start_ns = owners[token]
                out.append(Resident(pid, start_ns, ordinal, struct.unpack("=q", value)[0]))
        return sorted(out, key=lambda r: (r.pid, r.ordinal))

    def uuids(self) -> list[DeviceUuid]:
        """What processes were told of their devices; of one that is gone it is said once, and removed."""
        keys = set(bpfsys.map_keys(self._maps["uuids"], _RESIDENT_KEY.size))
        alive = {token for _, token, _ in self._processes()} if keys else set()
        out = []
        for key in keys:
            token, ordinal = _RESIDENT_KEY.unpack(key)
            value = bpfsys.map_lookup(self._maps["uuids"], key, _UUID.size)
            if value is not None:
                said, start_ns, pid = _UUID.unpack(value)
                out.append(DeviceUuid(pid, start_ns, ordinal, str(uuid.UUID(bytes=said)), token in alive))
            if token not in alive:
                bpfsys.map_delete(self._maps["uuids"], key)
        return sorted(out, key=lambda u: (u.pid, u.ordinal))

    def gone_cgroups(self) -> list[tuple[int, str]]:
        """(id, path) of cgroups that were removed since the last call: the last `MAX_GONE_CGROUPS`."""
        out: list[tuple[int, str]] = []
        fd = self._maps["gone_cgroups"]
        while len(out) < MAX_GONE_CGROUPS and (raw := bpfsys.map_pop(fd, _GONE_CGROUP.size)) is not None:
            cgroup_id, path = _GONE_CGROUP.unpack(raw)
            out.append((cgroup_id, os.fsdecode(path.split(b"\0")[0])))
        return out

    def _processes(self) -> list[tuple[int, int, int]]:
        """(pid, token, start_ns) of each process that is observed and alive."""
        out = []
        for key in set(bpfsys.map_keys(self._maps["processes"], _PROCESS_KEY.size)):
            value = bpfsys.map_lookup(self._maps["processes"], key, _PROCESS.size)
            if value is not None:
                token, start_ns, *_ = _PROCESS.unpack(value)
                out.append((_PROCESS_KEY.unpack(key)[0], token, start_ns))
        return out

    def sweep(self) -> int:
        """Removes entries of processes that are gone; returns how many.

        The keys are read before the living tokens: a token is always made before the entries that bear it,
        so a token that is missing then is dead for good.
        """
        keys = {name: set(bpfsys.map_keys(self._maps[name], size)) for name, size in _SWEPT.items()}
        alive = {struct.pack("=Q", token) for _, token, _ in self._processes()}
        removed = 0
        for name, found in keys.items():
            for key in found:
                if key[:8] not in alive:
                    removed += bpfsys.map_delete(self._maps[name], key)
        self._sweep_late()
        return removed

    def _sweep_late(self) -> None:
        """A process may have ended between being found and being marked."""
        for key in set(bpfsys.map_keys(self._maps["late"], _PROCESS_KEY.size)):
            if not Path("/proc", str(_PROCESS_KEY.unpack(key)[0])).exists():
                bpfsys.map_delete(self._maps["late"], key)
