"""The truth: what each process really used, read from the file that gpud alone writes.

Only checks may read it. A record is a point of a curve that is straight between points: cumulative busy
nanoseconds and SM-nanoseconds, about every 10 ms while they change.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RECORD = np.dtype(
    [
        ("monotonic_ns", "<u8"),
        ("boot_ns", "<u8"),
        ("serial", "<u8"),
        ("busy_ns", "<u8"),
        ("sm_ns", "<u8"),
        ("memory_bytes", "<u8"),
        ("device", "<u4"),
        ("pid", "<i4"),
        ("event", "<u4"),
        ("reserved", "<u4"),
    ]
)
EVENT_OPENED, EVENT_CLOSED = 1, 2
CATCH_UP_S = 240.0  # gpud writes every 10 ms; this covers a machine that is very busy
AT_WORK_NS = 150_000_000
"""A hog that was busy for so long has launched some, and filled its queue: it has work whether the machine
lets it run or not."""


class TruthError(Exception):
    """The truth does not reach that far, or knows no such device."""


@dataclass(frozen=True)
class Stay:
    """One process's stay on a device: from its first context there to its last."""

    pid: int
    device_uuid: str
    opened_boot_ns: int
    closed_boot_ns: int | None
    busy_ns: int
    sm_ns: int


class Truth:
    """A snapshot of the truth file; times are CLOCK_BOOTTIME nanoseconds, ends exclusive.

    A value at an instant between two records is interpolated, so the ends of an interval are good to about
    10 ms x the share of the device; whole stays are exact.
    """

    def __init__(self, path: Path, device_uuids: Sequence[str], complete: bool = False) -> None:
        """Read `path`; `complete` when gpud has ended, so that nothing more will come."""
        whole = path.stat().st_size // RECORD.itemsize
        self.records: NDArray[np.void] = np.fromfile(path, RECORD, count=whole)
        self.device_uuids = list(device_uuids)
        self.complete = complete
        ticks = self.records[self.records["serial"] == 0]["boot_ns"]
        self.recorded_through_boot_ns = int(ticks.max()) if len(ticks) else 0

    def busy_ns(self, pid: int, device_uuid: str, start_boot_ns: int, end_boot_ns: int) -> int:
        """Device time that process `pid` used in [start, end), over all its stays. Raises TruthError."""
        return self._process(pid, device_uuid, "busy_ns", start_boot_ns, end_boot_ns)

    def sm_ns(self, pid: int, device_uuid: str, start_boot_ns: int, end_boot_ns: int) -> int:
        """Busy time x active multiprocessors of process `pid` in [start, end). Raises TruthError."""
        return self._process(pid, device_uuid, "sm_ns", start_boot_ns, end_boot_ns)

    def device_busy_ns(self, device_uuid: str, start_boot_ns: int, end_boot_ns: int) -> int:
        """Time that the device was busy in [start, end), context switches included. Raises TruthError."""
        return self._sum(self._of(device_uuid, 0), "busy_ns", start_boot_ns, end_boot_ns)

    def device_busy_bounds_ns(
        self, device_uuid: str, start_boot_ns: int, end_boot_ns: int
    ) -> tuple[int, int]:
        """(at least, at most) so long the device was busy in [start, end), by the records next to its ends:
        they hold however far apart a busy machine let gpud write. Raises TruthError."""
        rows = self._of(device_uuid, 0)
        self._reaches(end_boot_ns)
        times, busy_ns = rows["boot_ns"].astype(np.int64), rows["busy_ns"].astype(np.int64)
        after_start, after_end = np.searchsorted(times, [start_boot_ns, end_boot_ns], "left")
        before_start, before_end = np.searchsorted(times, [start_boot_ns, end_boot_ns], "right") - 1
        least = busy_ns[before_end] - busy_ns[after_start] if before_end > after_start else 0
        return int(least), int(busy_ns[after_end] - busy_ns[max(before_start, 0)])

    def device_sm_ns(self, device_uuid: str, start_boot_ns: int, end_boot_ns: int) -> int:
        """Busy time x active multiprocessors of the device in [start, end). Raises TruthError."""
        return self._sum(self._of(device_uuid, 0), "sm_ns", start_boot_ns, end_boot_ns)

    def pids(self, device_uuid: str) -> list[int]:
        """Every process that ever had a context on the device."""
        return sorted({stay.pid for stay in self.stays(device_uuid)})

    def stays(self, device_uuid: str) -> list[Stay]:
        """All stays on the device in order of opening, with their totals so far."""
        index = self._index(device_uuid)
        found = []
        on_device = self.records[(self.records["device"] == index) & (self.records["serial"] != 0)]
        for serial in np.unique(on_device["serial"]):
            rows = on_device[on_device["serial"] == serial]
            closed = rows[rows["event"] == EVENT_CLOSED]["boot_ns"]
            found.append(
                Stay(
                    pid=int(rows["pid"][0]),
                    device_uuid=device_uuid,
                    opened_boot_ns=int(rows["boot_ns"].min()),
                    closed_boot_ns=int(closed[0]) if len(closed) else None,
                    busy_ns=int(rows["busy_ns"].max()),
                    sm_ns=int(rows["sm_ns"].max()),
                )
            )
        return found

    def at_work(self, device_uuid: str) -> set[int]:
        """The processes that were busy on the device for `AT_WORK_NS`."""
        return {stay.pid for stay in self.stays(device_uuid) if stay.busy_ns > AT_WORK_NS}

    def _index(self, device_uuid: str) -> int:
        try:
            return self.device_uuids.index(device_uuid)
        except ValueError:
            raise TruthError(f"no device {device_uuid}; there are {self.device_uuids}") from None

    def _of(self, device_uuid: str, pid: int) -> NDArray[np.void]:
        index = self._index(device_uuid)
        rows: NDArray[np.void] = self.records[
            (self.records["device"] == index) & (self.records["pid"] == pid)
        ]
        return rows

    def _process(self, pid: int, device_uuid: str, column: str, start_boot_ns: int, end_boot_ns: int) -> int:
        if pid <= 0:
            raise TruthError(f"{pid} is no process")
        return self._sum(self._of(device_uuid, pid), column, start_boot_ns, end_boot_ns)

    def _reaches(self, end_boot_ns: int) -> None:
        if end_boot_ns > self.recorded_through_boot_ns and not self.complete:
            missing_ns = end_boot_ns - self.recorded_through_boot_ns
            raise TruthError(f"the truth ends {missing_ns} ns before the end that was asked for")

    def _sum(self, rows: NDArray[np.void], column: str, start_boot_ns: int, end_boot_ns: int) -> int:
        self._reaches(end_boot_ns)
        total = 0.0
        for serial in np.unique(rows["serial"]):
            stay = rows[rows["serial"] == serial]
            first_ns = int(stay["boot_ns"][0])  # offsets keep the interpolation exact in doubles
            times = (stay["boot_ns"] - np.uint64(first_ns)).astype(np.float64)
            ends = [start_boot_ns - first_ns, end_boot_ns - first_ns]
            before, after = np.interp(ends, times, stay[column].astype(np.float64))
            total += float(after - before)
        return round(total)


def read_truth(path: Path, device_uuids: Sequence[str], running: bool) -> Truth:
    """The truth up to now: waits until gpud has written what lies before this instant. Raises TruthError."""
    if not running:
        return Truth(path, device_uuids, complete=True)
    now_boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    deadline = time.monotonic() + CATCH_UP_S
    while True:
        truth = Truth(path, device_uuids)
        if truth.recorded_through_boot_ns >= now_boot_ns:
            return truth
        if time.monotonic() > deadline:
            raise TruthError(f"gpud has written nothing for {CATCH_UP_S} s: {path}")
        time.sleep(0.005)
