"""The reader of a ring, over memory laid out as the kernel lays it out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from gpuledger.agent.probes.events import RAW_EVENT, RawEvents
from gpuledger.agent.probes.ring import HEADER_BYTES, RingReader
from gpuledger.contract.errors import BadRecord

RECORD_BYTES = HEADER_BYTES + RAW_EVENT.itemsize
RING_BYTES = 4096  # 39 records and a part of one, so that records wrap
ROOM = RING_BYTES // RECORD_BYTES
BUSY, DISCARD = 1 << 31, 1 << 30


class KernelSide:
    """Writes as the kernel does: it sees the data once, the reader sees it twice in a row."""

    def __init__(self, position: int = 0) -> None:
        self.consumer = np.array([position], np.uint64)
        self.producer = np.array([position], np.uint64)
        self.data = np.zeros(2 * RING_BYTES, np.uint8)
        self.reader = RingReader(self.consumer, self.producer, len(self.data) // 2, self.view)
        self.written = 0

    def view(self, first: int, length: int) -> npt.NDArray[np.uint8]:
        return self.data[first : first + length]

    def write(self, count: int = 1, flags: int = 0, size: int = RAW_EVENT.itemsize) -> int:
        """Returns the place of the last record."""
        place = 0
        for _ in range(count):
            event = np.zeros(1, RAW_EVENT)
            event["time_ns"] = self.written
            event["bytes"] = self.written * 7
            event["pid"] = self.written % 5
            self.written += 1
            header = np.array([size | flags, 0], "<u4").tobytes()
            place = int(self.producer[0])
            self.put(place, header + event.tobytes())
            self.producer[0] = np.uint64((place + RECORD_BYTES) % 2**64)
        return place

    def put(self, place: int, content: bytes) -> None:
        at = (place % RING_BYTES + np.arange(len(content))) % RING_BYTES
        value = np.frombuffer(content, np.uint8)
        self.data[at] = value
        self.data[at + RING_BYTES] = value

    def finish(self, place: int) -> None:
        self.put(place, np.uint32(RAW_EVENT.itemsize).tobytes())


def times(events: RawEvents) -> list[int]:
    return [int(value) for value in events["time_ns"]]


def test_an_empty_ring_gives_an_empty_array() -> None:
    events = KernelSide().reader.drain()
    assert events.dtype == RAW_EVENT
    assert len(events) == 0


def test_records_come_out_once_in_order_and_whole() -> None:
    ring = KernelSide()
    ring.write(23)
    events = ring.reader.drain()
    assert times(events) == list(range(23))
    assert events["bytes"].tolist() == [7 * i for i in range(23)]
    assert events["pid"].tolist() == [i % 5 for i in range(23)]
    assert len(ring.reader.drain()) == 0


def test_draining_makes_room_by_moving_the_consumer() -> None:
    ring = KernelSide()
    ring.write(23)
    assert ring.reader.pending_bytes == 23 * RECORD_BYTES
    ring.reader.drain()
    assert ring.consumer[0] == ring.producer[0] == 23 * RECORD_BYTES
    assert ring.reader.pending_bytes == 0


def test_the_result_is_a_copy_that_later_records_do_not_change() -> None:
    ring = KernelSide()
    ring.write(5)
    first = ring.reader.drain()
    ring.write(RING_BYTES // RECORD_BYTES)
    assert times(first) == [0, 1, 2, 3, 4]


def test_records_that_wrap_are_whole() -> None:
    ring = KernelSide()
    seen: list[int] = []
    counts = (ROOM, 1, ROOM - 1, ROOM, 17, ROOM, 3)
    for count in counts:
        ring.write(count)
        seen += times(ring.reader.drain())
    assert seen == list(range(sum(counts)))


def test_positions_may_pass_the_end_of_64_bits() -> None:
    ring = KernelSide(position=2**64 - 3 * RECORD_BYTES - 8)
    ring.write(7)
    assert times(ring.reader.drain()) == list(range(7))
    assert ring.consumer[0] == ring.producer[0]
    ring.write(2)
    assert times(ring.reader.drain()) == [7, 8]


def test_a_record_that_is_being_written_holds_back_those_behind_it() -> None:
    ring = KernelSide()
    ring.write(3)
    place = ring.write(1, flags=BUSY)
    ring.write(2)
    assert times(ring.reader.drain()) == [0, 1, 2]
    assert ring.consumer[0] == 3 * RECORD_BYTES
    assert times(ring.reader.drain()) == []
    ring.finish(place)
    assert times(ring.reader.drain()) == [3, 4, 5]


def test_discarded_records_are_left_out_and_their_room_is_freed() -> None:
    ring = KernelSide()
    ring.write(2)
    ring.write(1, flags=DISCARD)
    ring.write(2)
    ring.write(1, flags=DISCARD)
    assert times(ring.reader.drain()) == [0, 1, 3, 4]
    assert ring.reader.pending_bytes == 0


def test_a_record_of_another_size_is_refused() -> None:
    ring = KernelSide()
    ring.write(2)
    ring.write(1, size=RAW_EVENT.itemsize - 8)
    with pytest.raises(BadRecord, match="88 bytes"):
        ring.reader.drain()


def test_the_size_of_a_record_is_that_of_the_kernels_structure() -> None:
    assert RAW_EVENT.itemsize == 10 * 8 + 4 * 4
    assert RECORD_BYTES % 8 == 0
