"""Tells at once which processes have mapped a libcuda, from the kernel's own records of executable mappings.

perf_event_open(2): an event that counts nothing, one for each CPU, whose ring gets a PERF_RECORD_MMAP2 of
every executable mapping that a process makes there, as profilers have it. Where none was made for a while
the first one wakes; from then on the rings are looked at by the clock, so that processes which begin all the
time cost no more wake-ups than a few, and a calm node none. Layout: include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import mmap
import os
import select
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpuledger.agent.probes import bpfsys
from gpuledger.agent.probes.libraries import LIBRARY, LIBRARY_PREFIX

RING_PAGES: Final = 8  # 240 mappings a CPU, two dozen starts of processes; a power of two
MUCH_PART: Final = 4  # where a ring was filled to such a part it is looked at oftener
WAKE_BYTES: Final = 1  # the first record wakes whoever polls
GATHER_S: Final = 0.05  # a process that loads a library of its own opens its device later than that
GATHER_LOOKS: Final = 4  # in that time, then
_ONLINE: Final = Path("/sys/devices/system/cpu/online")

_SOFTWARE, _DUMMY = 1, 9  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
_MMAP, _WATERMARK, _MMAP2 = 1 << 8, 1 << 14, 1 << 23  # bits of the attribute
_FLAGS: Final = _MMAP | _WATERMARK | _MMAP2
_ATTRIBUTE: Final = struct.Struct("=IIQQQQQI")  # up to the bytes from which on whoever polls is woken
_LARGEST_RECORD: Final = 4096 + 128  # a path, and what stands before and behind it
_RECORD_MMAP2, _RECORD_LOST = 10, 2
_HEADER: Final = struct.Struct("=IHH")  # type, misc, size
_PID: Final = struct.Struct("=I")  # behind the header
_LOST: Final = struct.Struct("=QQ")  # id, how many; behind the header
_NAME_AT: Final = 72  # in a PERF_RECORD_MMAP2
_POSITIONS_AT: Final = 1024  # data_head and data_tail, in the first page


class MappingWatch:
    """The rings of all CPUs that are online now; owns them until `close`. Not thread-safe.

    Raises OSError where the kernel has no such events or does not allow them.
    """

    def __init__(self, ring_pages: int = RING_PAGES) -> None:
        self.lost = 0
        """How many mappings came too fast to be told, so far."""
        self.may_lack = False
        """Whether a ring was full when it was read, set until somebody clears it: what it had no room for is
        among the lost only once something follows there."""
        self._rings: list[_Ring] = []
        self._coming = False  # whether the last look found any
        self._much = False  # and much in one ring
        self._poll = select.epoll()
        try:
            for cpu in _cpus(_ONLINE.read_text()):
                ring = _Ring(cpu, ring_pages)
                self._rings.append(ring)
                self._poll.register(ring.fd, select.EPOLLIN)
        except BaseException:
            self.close()
            raise

    def watch(self, seconds: float, often: bool = False) -> Iterator[set[int]]:
        """Lets so much time pass, and gives the pids of processes that map a libcuda as soon as they do; each
        `GATHER_S` while processes map anything, or where it is to be ``often``, and at the end, those of
        none. However late it is, it looks once."""
        end, left = time.monotonic() + seconds, seconds
        while True:
            if often or self._coming or self._poll.poll(max(left, 0.0)):
                self._gather(min(end - time.monotonic(), GATHER_S))
            yield self.take()
            left = end - time.monotonic()
            if left <= 0:
                return

    def _gather(self, seconds: float) -> None:
        looks = GATHER_LOOKS if self._much else 1
        for _ in range(looks):
            if seconds <= 0 or any(ring.holds_much for ring in self._rings):
                return
            time.sleep(seconds / looks)

    def take(self) -> set[int]:
        """Pids of the processes that have mapped a libcuda since the last call; they may be gone by now."""
        pids: set[int] = set()
        self._coming = self._much = False
        for ring in self._rings:
            head, tail = ring.positions
            if head == tail:
                continue  # as nearly always
            self._coming = True
            self._much |= ring.holds_much
            data, perhaps_lost = ring.drain()
            self.may_lack |= ring.was_full
            if not perhaps_lost and LIBRARY_PREFIX not in data:
                continue  # then its records need not be told apart
            for kind, record in _records(data):
                if kind == _RECORD_MMAP2 and LIBRARY.search(record[_NAME_AT:].rstrip(b"\0")):
                    pids.add(_PID.unpack_from(record, _HEADER.size)[0])
                elif kind == _RECORD_LOST:
                    self.lost += _LOST.unpack_from(record, _HEADER.size)[1]
        return pids

    def close(self) -> None:
        """Gives everything back. May be called twice."""
        self._poll.close()
        for ring in self._rings:
            ring.close()
        self._rings.clear()


class _Ring:
    """What one CPU tells. The kernel writes at the head; what lies before the tail is its to write again."""

    def __init__(self, cpu: int, pages: int) -> None:
        self._size = pages * mmap.PAGESIZE
        attribute = (_SOFTWARE, bpfsys.PERF_ATTRIBUTE_BYTES, _DUMMY, 0, 0, 0, _FLAGS, WAKE_BYTES)
        self.fd = bpfsys.open_perf_event(_ATTRIBUTE.pack(*attribute), cpu)
        try:
            self._pages = mmap.mmap(self.fd, mmap.PAGESIZE + self._size)
        except BaseException:
            os.close(self.fd)
            raise
        self.positions = memoryview(self._pages)[_POSITIONS_AT : _POSITIONS_AT + 16].cast("Q")
        self.was_full = False

    @property
    def holds_much(self) -> bool:
        """Whether it should be read before more comes."""
        head, tail = self.positions
        return MUCH_PART * (head - tail) > self._size

    def drain(self) -> tuple[bytes, bool]:
        """(the records since the last time, whole and in order; whether one of them may say that some were
        lost: it is written when there is room again)."""
        head, tail = self.positions
        length = head - tail
        first = mmap.PAGESIZE + tail % self._size
        data = self._pages[first : first + length]
        data += self._pages[mmap.PAGESIZE : mmap.PAGESIZE + length - len(data)]
        self.positions[1] = head
        full, self.was_full = self.was_full, length + _LARGEST_RECORD > self._size
        return data, full or self.was_full

    def close(self) -> None:
        self.positions.release()
        self._pages.close()
        os.close(self.fd)


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, the whole record) of each."""
    at = 0
    while at < len(data):
        kind, _, size = _HEADER.unpack_from(data, at)
        yield kind, data[at : at + size]
        at += size


def _cpus(ranges: str) -> list[int]:
    """The numbers in a list as the kernel writes it: 0-3,8."""
    bounds = [[int(bound) for bound in part.split("-")] for part in ranges.strip().split(",")]
    return [cpu for bound in bounds for cpu in range(bound[0], bound[-1] + 1)]
