"""Entries on disk: append-only segment files, read again in order, deleted once all of one is delivered.

A segment is 8 bytes of magic, then for each entry its length and CRC-32 (4 bytes each, big-endian) and its
bytes. A crash can only tear the end of the last segment, which is cut off at the next start. An entry that
a disk has spoiled is passed over; where its length is spoiled too, the segment ends there. Both are counted,
and the sequence of the records shows what is missing.

What survives: every entry survives the end of the process (it is in the page cache at once). A power cut
loses what the kernel had not written; `sync` is for those who wait long.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpuledger.agent.spool.entry import Entry
from gpuledger.contract.errors import BadRecord, GpuledgerError

MAGIC = b"GLSPOOL1"
SEGMENT_BYTES = 4 << 20  # deleted as a whole: small enough to give space back soon
MAX_ENTRY_BYTES = 16 << 20  # twice the largest record; a longer length is damage
ACKNOWLEDGED = "acknowledged"
_FRAME = struct.Struct(">II")


class JournalFull(GpuledgerError):
    """The journal has reached its bound."""


class Position(NamedTuple):
    """A place between entries: byte ``offset`` of segment number ``segment``."""

    segment: int
    offset: int


class Journal:
    """A bounded queue on disk. Owned by one process (`NodeLock`); not for several threads at once."""

    def __init__(self, directory: Path, max_bytes: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Opens what an earlier life left. Raises OSError where the directory can not be used."""
        self.directory = directory
        self.max_bytes = max_bytes
        self.damaged_bytes = 0
        """Of entries that can not be read any more, a torn end included."""
        self._segment_bytes = segment_bytes
        self._file: int | None = None
        self._end = Position(0, 0)
        self._reader: tuple[int, int] | None = None  # (segment, descriptor)
        directory.mkdir(parents=True, exist_ok=True)
        self._sizes = {int(path.stem): path.stat().st_size for path in directory.glob("*.segment")}
        self._acknowledged = self._read_acknowledged()
        self._noted: Position | None = None
        for segment in sorted(self._sizes):
            if segment < self._acknowledged.segment:
                self._delete(segment)
        if self._sizes:
            self._cut_torn_tail(max(self._sizes))
        first = min(self._sizes, default=self._acknowledged.segment)
        if self._acknowledged.segment < first or self._acknowledged.segment not in self._sizes:
            self._acknowledged = Position(first, len(MAGIC))
        # never append to a segment of an earlier life: a new one begins with the first entry
        self._next = max(self._sizes, default=self._acknowledged.segment) + 1
        last = max(self._sizes, default=self._acknowledged.segment)
        self._end = Position(last, self._sizes.get(last, len(MAGIC)))

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
        """Bytes on disk, delivered ones that wait for their segment's end included."""
        return sum(self._sizes.values())

    def append(self, entry: Entry) -> Position:
        """Write an entry; the position behind it. Raises JournalFull, OSError; then nothing is written."""
        payload = entry.to_bytes()
        data = _FRAME.pack(len(payload), zlib.crc32(payload)) + payload
        if self.bytes + len(data) + len(MAGIC) > self.max_bytes:
            raise JournalFull(f"{self.directory} holds {self.bytes} of {self.max_bytes} bytes")
        if self._file is None or self._end.offset >= self._segment_bytes:
            self._begin_segment()
        assert self._file is not None
        at = self._end
        try:
            written = os.pwrite(self._file, data, at.offset)
            if written != len(data):
                raise OSError(28, "no space left", str(self._path(at.segment)))
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
        return Position(behind.segment, behind.offset - _FRAME.size - len(entry.to_bytes()))

    def read(self, start: Position, stop: Position) -> Iterator[tuple[Position, Entry]]:
        """Entries between two positions, oldest first, each with the position behind it.

        Damaged bytes are passed over and counted. Raises OSError.
        """
        for segment in sorted(number for number in self._sizes if start.segment <= number <= stop.segment):
            offset = max(start.offset if segment == start.segment else 0, len(MAGIC))
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
        if self._noted == self._acknowledged:
            return
        temporary = self.directory / f"{ACKNOWLEDGED}.new"
        temporary.write_text(f"{self._acknowledged.segment} {self._acknowledged.offset}\n", encoding="ascii")
        temporary.replace(self.directory / ACKNOWLEDGED)
        self._noted = self._acknowledged

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
        self._file = os.open(self._path(segment), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._next += 1
        os.pwrite(self._file, MAGIC, 0)
        if self._acknowledged >= self._end:
            for old in list(self._sizes):
                self._delete(old)
            self._acknowledged = Position(segment, len(MAGIC))
        self._sizes[segment] = len(MAGIC)
        self._end = Position(segment, len(MAGIC))

    def _close_segment(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _close_reader(self) -> None:
        if self._reader is not None:
            os.close(self._reader[1])
            self._reader = None

    def _entry(self, segment: int, offset: int, limit: int) -> tuple[Entry | None, int]:
        """The entry there and the offset behind it; None, and where to go on, for what can not be read."""
        if self._reader is None or self._reader[0] != segment:
            self._close_reader()
            self._reader = segment, os.open(self._path(segment), os.O_RDONLY | os.O_CLOEXEC)
        head = os.pread(self._reader[1], _FRAME.size, offset)
        if len(head) < _FRAME.size:
            return None, limit
        length, checksum = _FRAME.unpack(head)
        behind = offset + _FRAME.size + length
        if length > MAX_ENTRY_BYTES or behind > limit:
            return None, limit
        payload = os.pread(self._reader[1], length, offset + _FRAME.size)
        if len(payload) < length or zlib.crc32(payload) != checksum:
            return None, behind
        try:
            return Entry.from_bytes(payload), behind
        except (BadRecord, UnicodeDecodeError):
            return None, behind

    def _cut_torn_tail(self, segment: int) -> None:
        """A crash may have torn the last entry. What is spoiled before a whole one is left to `read`."""
        size = self._sizes[segment]
        whole = offset = len(MAGIC)
        while offset < size:
            entry, offset = self._entry(segment, offset, size)
            if entry is not None:
                whole = offset
        if whole < size:
            self.damaged_bytes += size - whole
            os.truncate(self._path(segment), whole)
        self._sizes[segment] = whole

    def _read_acknowledged(self) -> Position:
        try:
            segment, offset = (self.directory / ACKNOWLEDGED).read_text(encoding="ascii").split()
            return Position(int(segment), int(offset))
        except (OSError, ValueError):
            return Position(min(self._sizes, default=0), len(MAGIC))

    def _delete(self, segment: int) -> None:
        if self._reader is not None and self._reader[0] == segment:
            self._close_reader()
        with contextlib.suppress(FileNotFoundError):
            self._path(segment).unlink()
        self._sizes.pop(segment, None)

    def _path(self, segment: int) -> Path:
        return self.directory / f"{segment:012d}.segment"
