"""Reads a BPF ring buffer through numpy views of its mapped pages, many records at a time.

Layout (kernel/bpf/ringbuf.c): a page with the consumer's position, a page with the producer's, then the data,
mapped twice in a row so that a record that wraps lies in one piece. A record is a header of 8 bytes (length
with a BUSY and a DISCARD bit, page offset) and its payload, rounded up to 8 bytes. Positions are bytes since
the beginning and only grow.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuledger.agent.probes.events import RAW_EVENT, RawEvents
from gpuledger.contract.errors import BadRecord

_BUSY: Final = 1 << 31
_DISCARD: Final = 1 << 30
_FLAGS: Final = _BUSY | _DISCARD
HEADER_BYTES: Final = 8
_POSITION_PAGES: Final = 2

_OPAQUE: Final = np.dtype((np.void, RAW_EVENT.itemsize))
"""Copies as one block, nine times as fast as a structure, which numpy copies field by field."""
_RECORD: Final = np.dtype([("length", "<u4"), ("page", "<u4"), ("event", _OPAQUE)])
_LENGTH: Final = np.uint32(RAW_EVENT.itemsize)
_EMPTY: Final[RawEvents] = np.empty(0, RAW_EVENT)


class RingReader:
    """The one consumer of a ring whose records are all `RAW_EVENT`.

    ``consumer`` and ``producer`` are views of the kernel's positions, arrays of one uint64. ``view(first,
    length)`` gives bytes of the ring's data as uint8, which goes on with itself behind its end; it is asked
    for no more than what is filled, and nothing of it is kept. Not thread-safe.
    """

    def __init__(
        self,
        consumer: npt.NDArray[np.uint64],
        producer: npt.NDArray[np.uint64],
        ring_bytes: int,
        view: Callable[[int, int], npt.NDArray[np.uint8]],
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._ring_bytes = ring_bytes
        self._view = view

    @property
    def pending_bytes(self) -> int:
        """How much of the ring is filled at this instant."""
        return (int(self._producer[0]) - int(self._consumer[0])) % 2**64

    @property
    def ring_bytes(self) -> int:
        """Size of the ring."""
        return self._ring_bytes

    def drain(self) -> RawEvents:
        """A copy of all finished records, oldest first, and frees their room in the ring.

        Stops before a record that is still being written. Discarded records are left out. Raises BadRecord
        where a record is not a RAW_EVENT: the probes and this reader are of different versions.
        """
        position = int(self._consumer[0])
        count = ((int(self._producer[0]) - position) % 2**64) // _RECORD.itemsize
        if count == 0:
            return _EMPTY
        start = position % self._ring_bytes
        records = self._view(start, count * _RECORD.itemsize).view(_RECORD)
        odd = np.flatnonzero(records["length"] != _LENGTH)
        if len(odd) == 0:
            events: RawEvents = np.empty(count, RAW_EVENT)
            events.view(_OPAQUE)[:] = records["event"]
        else:
            events, count = self._sort_out(records, odd)
        self._consumer[0] = np.uint64((position + count * _RECORD.itemsize) % 2**64)
        return events

    @staticmethod
    def _sort_out(records: npt.NDArray[np.void], odd: npt.NDArray[np.intp]) -> tuple[RawEvents, int]:
        lengths = records["length"][odd]
        busy = np.flatnonzero(lengths & np.uint32(_BUSY))
        count = int(odd[busy[0]]) if len(busy) else len(records)
        before = odd < count
        for length in lengths[before]:
            size = int(length) & ~_FLAGS
            if size != RAW_EVENT.itemsize:
                raise BadRecord("ring_record", f"a record of {size} bytes in the ring of events")
        keep = np.ones(count, bool)
        keep[odd[before]] = False
        return records["event"][:count][keep].view(RAW_EVENT), count


class MappedRing:
    """A ring map of the kernel as this process reads it. Borrows the descriptor, which must outlive it.

    The data is mapped only while it is read, and only what is filled: mapped for good, a ring would count
    twice as resident memory of the agent, whose limit it then takes up.
    """

    def __init__(self, fd: int, ring_bytes: int) -> None:
        page = mmap.PAGESIZE
        self._fd = fd
        self._consumer_page = mmap.mmap(fd, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=0)
        self._producer_page = mmap.mmap(fd, page, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        self.reader: RingReader | None = RingReader(
            np.frombuffer(self._consumer_page, np.uint64, 1),
            np.frombuffer(self._producer_page, np.uint64, 1),
            ring_bytes,
            self._map,
        )

    def _map(self, first: int, length: int) -> npt.NDArray[np.uint8]:
        """Unmapped when the array is let go of."""
        before = first % mmap.PAGESIZE
        offset = _POSITION_PAGES * mmap.PAGESIZE + first - before
        window = mmap.mmap(self._fd, before + length, mmap.MAP_SHARED, mmap.PROT_READ, offset=offset)
        return np.frombuffer(window, np.uint8, length, offset=before)

    def close(self) -> None:
        """Unmaps the ring; the reader must not be used any more."""
        self.reader = None
        self._consumer_page.close()
        self._producer_page.close()
