"""Device memory that each process holds on each device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpuledger.agent.events import Events, OperationSet
from gpuledger.contract.operations import ALLOCATIONS, FREES

CONTEXT_BYTES = 1 << 30  # the driver counts a context's own 0.3 to 0.6 GB, which no allocation shows
MAX_RESIDENT_BYTES = 1 << 50  # of a process on a device: no node has a PiB, whatever a process says
_ALLOCATIONS = OperationSet(ALLOCATIONS)
_CHANGES = OperationSet(ALLOCATIONS | FREES)


class ResidentMemory:
    """Bytes by (process, device): from allocations and frees, or from the driver where it counts far more
    (allocations made before the probes were there)."""

    def __init__(self) -> None:
        self._traced: dict[tuple[int, int], int] = {}
        self._changed_ns: dict[tuple[int, int], int] = {}
        self._driver: dict[tuple[int, int], tuple[int, int]] = {}

    def apply(self, events: Events) -> None:
        """Advance by a chunk of events that is ordered by time; failed calls change nothing."""
        rows = events.take(np.flatnonzero(_CHANGES.of(events["operation"])))
        rows = rows[(rows["result"] == 0) & (rows["bytes"] > 0) & (rows["device"] >= 0)]
        if not len(rows):
            return
        size = np.minimum(rows["bytes"], MAX_RESIDENT_BYTES)
        sign = np.where(_ALLOCATIONS.of(rows["operation"]), size, -size)
        packed = rows["process"] * (1 << 16) + rows["device"]
        unique, inverse = np.unique(packed, return_inverse=True)
        change = np.zeros(len(unique), np.int64)
        np.add.at(change, inverse, sign)
        newest = np.zeros(len(unique), np.int64)
        np.maximum.at(newest, inverse, rows["time_ns"])
        for slot, value in enumerate(unique):
            key = (int(value) >> 16, int(value) & 0xFFFF)
            self._traced[key] = _held(self._traced.get(key, 0) + int(change[slot]))
            self._changed_ns[key] = int(newest[slot])

    def set_traced(self, exact: Mapping[tuple[int, int], int]) -> None:
        """Replace what was summed from events by the kernel's own totals, after events were lost."""
        self._traced = {key: _held(size) for key, size in exact.items()}

    def set_driver(self, device: int, at_ns: int, found: Mapping[int, int]) -> None:
        """What the driver counts for each process on the device at ``at_ns`` (agent time)."""
        self._driver = {key: value for key, value in self._driver.items() if key[1] != device}
        self._driver.update({(process, device): (at_ns, size) for process, size in found.items()})

    def items(self) -> list[tuple[tuple[int, int], int]]:
        """((process, device), bytes) where there are any, in order."""
        found = {key: size for key, size in self._traced.items() if size}
        for key, (at_ns, size) in self._driver.items():
            fresh = at_ns >= self._changed_ns.get(key, 0)
            if fresh and size > found.get(key, 0) + (CONTEXT_BYTES if key in found else 0):
                found[key] = size
        return sorted(found.items())

    def end(self, process: int) -> None:
        """A process that ended holds nothing."""
        for table in (self._traced, self._changed_ns, self._driver):
            for key in [key for key in table if key[0] == process]:
                del table[key]

    def move(self, places: Mapping[int, int]) -> None:
        """The node's devices are others: position before -> position now, of those that stay."""
        self._traced = {(p, places[d]): size for (p, d), size in self._traced.items() if d in places}
        self._changed_ns = {(p, places[d]): at for (p, d), at in self._changed_ns.items() if d in places}
        self._driver = {(p, places[d]): said for (p, d), said in self._driver.items() if d in places}

    def shift(self, ns: int) -> None:
        """Go over to another epoch's time."""
        self._changed_ns = {key: at + ns for key, at in self._changed_ns.items()}
        self._driver = {key: (at + ns, size) for key, (at, size) in self._driver.items()}


def _held(size: int) -> int:
    return min(max(size, 0), MAX_RESIDENT_BYTES)
