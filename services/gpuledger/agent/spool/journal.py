"""Entries on disk: append-only segment files, read again in order, deleted once all of one is delivered.

A segment is 8 bytes of magic, then its entries (`frames`). A crash can only tear the end of the last segment,
which is cut off at the next start. An entry that a disk has spoiled is passed over; where its length is
spoiled too, the segment ends there. Both are counted, and the sequence of the records shows what is missing.

A segment of which nothing was handed out may be replaced by one with the same records, coarser: whole, by a
rename, so that whenever the process ends there is the one or the other. A new segment begins with a window
where it can, so that windows are whole in it.

What survives: every entry survives the end of the process (it is in the page cache at once). A power cut
loses what the kernel had not written; `sync` is for those who wait long.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from gpuledger.agent.spool.entry import Entry
from gpuledger.agent.spool.frames import MAGIC_BYTES, MAGICS, coarseness_of, entry_at, framed
from gpuledger.agent.spool.marks import (
    Position,
    read_acknowledged,
    read_handed,
    write_acknowledged,
    write_handed,
)
from gpuledger.contract.errors import GpuledgerError

SEGMENT_BYTES = 4 << 20  # deleted as a whole: small enough to give space back soon
SEGMENTS = 16  # at least so many fit into a bound, or little of it could be made coarser
LONGEST_SEGMENTS = 16  # so many times its size a segment grows to end with a window: 50,000 calls/s for 10 s
LONGEST_PART = 4  # of the bound
COARSER_SUFFIX = ".coarser"  # of a file that is to replace a segment


class JournalFull(GpuledgerError):
    """The journal has reached its bound."""


class Journal:
    """A bounded queue on disk. Owned by one process (`NodeLock`); not for several threads at once."""

    def __init__(self, directory: Path, max_bytes: int, segment_bytes: int | None = None) -> None:
        """Opens what an earlier life left. ``segment_bytes``: `SEGMENT_BYTES`, less where the bound is small.
        Raises OSError where the directory can not be used."""
        self.directory = directory
        self.max_bytes = max_bytes
        self.damaged_bytes = 0
        """Of entries that can not be read any more, a torn end included."""
        self._segment_bytes = segment_bytes or min(SEGMENT_BYTES, max_bytes // SEGMENTS)
        longest = min(LONGEST_SEGMENTS * self._segment_bytes, max_bytes // LONGEST_PART)
        self._longest_bytes = max(self._segment_bytes, longest)
        self._reserved = 0
        self._file: int | None = None
        self._end = Position(0, 0)
        self._reader: tuple[int, int] | None = None  # (segment, descriptor)
        directory.mkdir(parents=True, exist_ok=True)
        self._sizes = {int(path.stem): path.stat().st_size for path in directory.glob("*.segment")}
        self._coarseness: dict[int, int] = {}
        for left in directory.glob(f"*{COARSER_SUFFIX}"):
            left.unlink()
        self.handed = self._handed_noted = read_handed(directory)
        """The latest segment of which something may have been handed out, now or in an earlier life."""
        self._acknowledged = read_acknowledged(directory) or Position(
            min(self._sizes, default=0), MAGIC_BYTES
        )
        self._noted: Position | None = None
        for segment in sorted(self._sizes):
            if segment < self._acknowledged.segment:
                self._delete(segment)
        if self._sizes:
            self._cut_torn_tail(max(self._sizes))
        first = min(self._sizes, default=self._acknowledged.segment)
        if self._acknowledged.segment < first or self._acknowledged.segment not in self._sizes:
            self._acknowledged = Position(first, MAGIC_BYTES)
        self._coarseness = {segment: self._coarseness_on_disk(segment) for segment in self._sizes}
        last = max(self._sizes, default=self._acknowledged.segment)
        # never append to a segment of an earlier life: a new one begins with the first entry
        self._next = max(last, self.handed) + 1
        self._end = Position(last, self._sizes.get(last, MAGIC_BYTES))

    @property
    def begin(self) -> Position:
        """Where the oldest entry that is not delivered begins."""
        return self._acknowledged

    @property
    def end(self) -> Position:
        """Behind the newest entry."""
        return self._end

    @property
    def bytes(self) -> int:
        """Bytes on disk, delivered ones that wait for their segment's end and reserved ones included."""
        return sum(self._sizes.values()) + self._reserved

    @property
    def waiting_bytes(self) -> int:
        """Bytes on disk of what is not delivered."""
        delivered = self._acknowledged.offset if self._acknowledged.segment in self._sizes else 0
        return sum(self._sizes.values()) - delivered

    def append(self, entry: Entry) -> Position:
        """Write an entry; the position behind it. Raises JournalFull, OSError; then nothing is written."""
        data = framed(entry)
        if self.bytes + len(data) + MAGIC_BYTES > self.max_bytes:
            raise JournalFull(f"{self.directory} holds {self.bytes} of {self.max_bytes} bytes")
        most = self._longest_bytes if entry.continues_window else self._segment_bytes
        if self._file is None or self._end.offset >= most:
            self._begin_segment()
        assert self._file is not None
        at = self._end
        try:
            written = os.pwrite(self._file, data, at.offset)
            if written != len(data):
                raise OSError(28, "no space left", str(self.path(at.segment)))
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, at.offset)
            raise
        self._end = Position(at.segment, at.offset + len(data))
        self._sizes[at.segment] = self._end.offset
        return self._end

    @staticmethod
    def start_of(behind: Position, entry: Entry) -> Position:
        """Where the entry begins that ends at ``behind``."""
        return Position(behind.segment, behind.offset - len(framed(entry)))

    def read(self, start: Position, stop: Position) -> Iterator[tuple[Position, Entry]]:
        """Entries between two positions, oldest first, each with the position behind it.

        Damaged bytes are passed over and counted. Raises OSError.
        """
        for segment in sorted(number for number in self._sizes if start.segment <= number <= stop.segment):
            offset = max(start.offset if segment == start.segment else 0, MAGIC_BYTES)
            limit = stop.offset if segment == stop.segment else self._sizes.get(segment, 0)
            while offset < limit:
                entry, behind = self._entry(segment, offset, limit)
                if entry is None:
                    self.damaged_bytes += behind - offset
                else:
                    yield Position(segment, behind), entry
                offset = behind

    def acknowledge(self, through: Position) -> None:
        """Everything before that position is delivered: whole segments of it are deleted."""
        if through <= self._acknowledged:
            return
        self._acknowledged = through
        for segment in [number for number in self._sizes if number < through.segment]:
            self._delete(segment)
        if through == self._end and self._file is not None and through.offset >= self._segment_bytes:
            self._close_segment()
            self._delete(through.segment)

    def note(self) -> None:
        """Write down what is acknowledged, so that the next life sends less twice. Raises OSError."""
        self._note_handed()
        if self._noted != self._acknowledged:
            write_acknowledged(self.directory, self._acknowledged)
            self._noted = self._acknowledged

    def hand_out(self, segment: int) -> None:
        """Something of that segment is about to be given to a producer: none up to it is replaced any more,
        in no later life either."""
        if segment > self.handed:
            self.handed = segment
            # a disk that does not take it is asked again by `note`, and does not take coarser records either
            with contextlib.suppress(OSError):
                self._note_handed()

    def _note_handed(self) -> None:
        if self._handed_noted != self.handed:
            write_handed(self.directory, self.handed)
            self._handed_noted = self.handed

    def untouched(self, start: Position, stop: Position, coarseness: int) -> int | None:
        """The oldest segment that lies whole between two positions, of which nothing was handed out and that
        is less coarse than that."""
        for segment in sorted(self._sizes):
            begins = segment > start.segment or (segment == start.segment and start.offset <= MAGIC_BYTES)
            whole = begins and segment < stop.segment and segment > self.handed
            if whole and self._coarseness[segment] < coarseness:
                return segment
        return None

    def reserve(self, more: int) -> bool:
        """Count so many bytes more, less if negative, as those of a file that is being written to replace a
        segment; False, and nothing counted, where the bound has no room for them."""
        if more > 0 and self.bytes + more > self.max_bytes:
            return False
        self._reserved += more
        return True

    def replace(self, segment: int, coarser: Path, coarseness: int) -> None:
        """A whole segment by that file, which is of its records and on the disk. Raises OSError."""
        size = coarser.stat().st_size
        coarser.replace(self.path(segment))
        if self._reader is not None and self._reader[0] == segment:
            self._close_reader()
        self._sizes[segment], self._coarseness[segment] = size, coarseness

    def settle(self, segment: int, coarseness: int) -> None:
        """There is nothing in the segment that could be made so coarse. Raises OSError."""
        fd = os.open(self.path(segment), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(fd, MAGICS[coarseness], 0)
        finally:
            os.close(fd)
        self._coarseness[segment] = coarseness

    def sync(self) -> None:
        """Have the disk keep what was appended. Raises OSError."""
        if self._file is not None:
            os.fsync(self._file)

    def close(self) -> None:
        """Note, sync and let go. May be called twice."""
        with contextlib.suppress(OSError):
            self.sync()
            self.note()
        self._close_segment()
        self._close_reader()

    def _begin_segment(self) -> None:
        with contextlib.suppress(OSError):
            self.sync()
        self._close_segment()
        segment = self._next
        self._file = os.open(self.path(segment), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._next += 1
        os.pwrite(self._file, MAGICS[0], 0)
        if self._acknowledged >= self._end:
            for old in list(self._sizes):
                self._delete(old)
            self._acknowledged = Position(segment, MAGIC_BYTES)
        self._sizes[segment], self._coarseness[segment] = MAGIC_BYTES, 0
        self._end = Position(segment, MAGIC_BYTES)

    def _close_segment(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _close_reader(self) -> None:
        if self._reader is not None:
            os.close(self._reader[1])
            self._reader = None

    def _entry(self, segment: int, offset: int, limit: int) -> tuple[Entry | None, int]:
        if self._reader is None or self._reader[0] != segment:
            self._close_reader()
            self._reader = segment, os.open(self.path(segment), os.O_RDONLY | os.O_CLOEXEC)
        return entry_at(self._reader[1], offset, limit)

    def _coarseness_on_disk(self, segment: int) -> int:
        fd = os.open(self.path(segment), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return coarseness_of(fd)
        finally:
            os.close(fd)

    def _cut_torn_tail(self, segment: int) -> None:
        """A crash may have torn the last entry. What is spoiled before a whole one is left to `read`."""
        size = self._sizes[segment]
        whole = offset = MAGIC_BYTES
        while offset < size:
            entry, offset = self._entry(segment, offset, size)
            if entry is not None:
                whole = offset
        if whole < size:
            self.damaged_bytes += size - whole
            os.truncate(self.path(segment), whole)
        self._sizes[segment] = whole

    def _delete(self, segment: int) -> None:
        if self._reader is not None and self._reader[0] == segment:
            self._close_reader()
        with contextlib.suppress(FileNotFoundError):
            self.path(segment).unlink()
        self._sizes.pop(segment, None)
        self._coarseness.pop(segment, None)

    def path(self, segment: int) -> Path:
        """The file of a segment."""
        return self.directory / f"{segment:012d}.segment"
