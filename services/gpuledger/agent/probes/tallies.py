"""Reads what the kernel adds up of processes that call very often: bpf/tally.h and bpf/busy.h.

The sums in the kernel only grow. What a reading gives is the difference to the one before it, so nothing is
lost between a read and a reset, and a process may be read at any time: while it calls, when it has gone
quiet, and after its end. What ended processes leave is removed here, once it has been read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.events import RAW_EVENT, RawEvents
from gpuledger.agent.probes.symbols import LONG_BURST_NS, RUN_NS
from gpuledger.contract.operations import FREES

_BUSY_RUNS: Final = 2  # bpf/busy.h

_TALLY_KEY: Final = np.dtype(
    [
        ("token", "<u8"),
        ("function", "<u8"),
        ("cgroup_id", "<u8"),
        ("result", "<i4"),
        ("operation", "<u2"),
        ("ordinal", "<i2"),
    ]
)
_TALLY: Final = np.dtype(
    [
        ("count", "<u8"),
        ("duration_ns", "<u8"),
        ("bytes", "<u8"),
        ("launched_threads", "<u8"),
        ("first_ns", "<u8"),
        ("last_ns", "<u8"),
        ("start_ns", "<u8"),
        ("pid", "<u8"),
    ]
)
_BUSY_KEY: Final = np.dtype([("token", "<u8"), ("ordinal", "<i8")])
_BUSY: Final = np.dtype(
    [
        ("lock", "<u8"),
        ("state", "<u8"),
        ("opened_ns", "<u8"),
        ("opened_launches", "<u8"),
        ("run_ns", "<u8"),
        ("run_end_ns", "<u8"),
        ("run_work_ns", "<u8"),
        ("run_witnessed_ns", "<u8"),
        ("run_launches", "<u8"),
        ("run_bursts", "<u8"),
        ("sampled", "<u8"),
        ("cgroup_id", "<u8"),
        ("start_ns", "<u8"),
        ("pid", "<u8"),
    ]
)
_SUMS: Final = ("count", "duration_ns", "bytes", "launched_threads")
_FREES: Final = np.array(sorted(FREES))
_NONE: Final[RawEvents] = np.empty(0, RAW_EVENT)


class _Readings:
    """The last reading of each tally, by its key; one never read before is all zero."""

    def __init__(self) -> None:
        self._rows: dict[bytes, int] = {}
        self._free: list[int] = []
        self._values = np.zeros(64, _TALLY)

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> list[bytes]:
        return list(self._rows)

    def take(self, keys: list[bytes], values: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """What was read before of these keys; ``values`` is what is read now."""
        for key in keys:
            if key not in self._rows:
                self._rows[key] = self._free.pop() if self._free else len(self._rows)
        if len(self._rows) > len(self._values):
            room = np.zeros(2 * len(self._rows), _TALLY)
            room[: len(self._values)] = self._values
            self._values = room
        places = np.array([self._rows[key] for key in keys], np.intp)
        before: npt.NDArray[np.void] = self._values[places]
        self._values[places] = values
        return before

    def forget(self, key: bytes) -> None:
        place = self._rows.pop(key, None)
        if place is not None:
            self._values[place] = np.zeros((), _TALLY)
            self._free.append(place)


class TallyReader:
    """The one reader of the tables ``tallies`` and ``outstanding``, whose descriptors it borrows. Not
    thread-safe.

    ``tallied`` gives the cumulative count of calls that were tallied, ``ends`` that of processes that ended,
    and ``living`` the tokens of those that did not.
    """

    def __init__(
        self,
        tallies: int,
        outstanding: int,
        tallied: Callable[[], int],
        ends: Callable[[], int],
        living: Callable[[], set[int]],
    ) -> None:
        self._tallies, self._outstanding = tallies, outstanding
        self._tallied, self._ends, self._living = tallied, ends, living
        self._seen_tallied = self._seen_ends = 0
        self._before = _Readings()
        self._busy_keys: set[bytes] = set()

    def read(self) -> RawEvents:
        """Tallies of the calls since the last reading, and runs that nothing has ended in the kernel yet."""
        tallied, ends = self._tallied(), self._ends()
        if tallied == self._seen_tallied and not self._busy_keys and not len(self._before):
            return _NONE
        living = self._living() if ends != self._seen_ends else None
        rows = [self._read_tallies()] if tallied != self._seen_tallied else []
        rows.append(self._read_runs())
        self._seen_tallied, self._seen_ends = tallied, ends
        if living is not None:
            self._bury(living)
        return np.concatenate(rows)

    def _read_tallies(self) -> RawEvents:
        keys, values = bpfsys.map_batch(self._tallies, _TALLY_KEY, _TALLY)
        before = self._before.take([key.tobytes() for key in keys], values)
        changed = values["count"] != before["count"]
        keys, values, before = keys[changed], values[changed], before[changed]
        rows = np.zeros(len(keys), RAW_EVENT)
        for name in ("function", "cgroup_id", "result", "operation", "ordinal"):
            rows[name] = keys[name]
        for name in _SUMS:
            rows[name] = values[name] - before[name]
        for name in ("start_ns", "pid"):
            rows[name] = values[name]
        since = np.where(before["count"] == 0, values["first_ns"], before["last_ns"])
        _, process = np.unique(keys["token"], return_inverse=True)
        last = np.zeros(len(keys), np.uint64)
        np.maximum.at(last, process, values["last_ns"])
        # one time for all of a process, frees first: which allocation came before which free is not known,
        # and memory must not seem to pile up that never was there at once
        rows["time_ns"] = last[process]
        rows["span_ns"] = np.maximum(rows["time_ns"].astype(np.int64) - since.astype(np.int64), 1)
        ordered: RawEvents = rows[np.argsort(~np.isin(rows["operation"], _FREES), kind="stable")]
        return ordered

    def _read_runs(self) -> RawEvents:
        """Of each tallied process and device the long burst that goes on, up to this instant, and the run of
        short ones that nothing has followed for a while."""
        keys, values = bpfsys.map_batch(self._outstanding, _BUSY_KEY, _BUSY)
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._busy_keys = {key.tobytes() for key in keys}
        # one that was read while it changed is told the next time
        here = (values["state"] == _BUSY_RUNS) & (values["lock"] == 0)
        long = here & (values["opened_ns"] > 0) & (values["opened_ns"] + LONG_BURST_NS < now_ns)
        over = here & (values["run_bursts"] > 0) & (values["run_end_ns"] + RUN_NS < now_ns)
        open_ = _rows(keys[long], values[long])
        open_["time_ns"] = now_ns
        open_["span_ns"] = open_["duration_ns"] = now_ns - values["opened_ns"][long]
        open_["function"] = 1
        run = _rows(keys[over], values[over])
        run["time_ns"] = values["run_end_ns"][over]
        run["span_ns"] = values["run_end_ns"][over] - values["run_ns"][over]
        run["duration_ns"], run["bytes"] = values["run_work_ns"][over], values["run_witnessed_ns"][over]
        run["launched_threads"], run["function"] = values["run_launches"][over], values["run_bursts"][over]
        return np.concatenate((open_, run))

    def _bury(self, living: set[int]) -> None:
        """Removes what was read of processes that had ended before it was read."""
        for fd, known in ((self._tallies, self._before.keys()), (self._outstanding, list(self._busy_keys))):
            for key in known:
                if int.from_bytes(key[:8], "little") not in living:
                    bpfsys.map_delete(fd, key)
                    self._before.forget(key)
                    self._busy_keys.discard(key)


def _rows(keys: npt.NDArray[np.void], values: npt.NDArray[np.void]) -> RawEvents:
    rows = np.zeros(len(keys), RAW_EVENT)
    rows["ordinal"] = keys["ordinal"]
    for name in ("cgroup_id", "start_ns", "pid"):
        rows[name] = values[name]
    return rows
