"""A file that another program appends to and rotates, read line by line as ``tail -F`` does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

MAX_LINE_BYTES: Final = 256 << 10
"""Tetragon's lines are some 2 kB, with the longest command line of a process 130 kB."""
CHUNK_BYTES: Final = 1 << 20


class FollowedFile:
    """New whole lines of ``path`` from `open` on. One thread uses it; it owns a descriptor until `close`.

    A file that was renamed is read to its end before the new one of that name is begun at its start; one that
    was cut down is begun anew. A file that was written and rotated away altogether between two reads is never
    seen: Tetragon keeps files of 10 MB by default, so read each second.
    """

    def __init__(self, path: Path, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._path = path
        self._max_line_bytes = max_line_bytes
        self._file: BinaryIO | None = None
        self._rest = b""
        self._skipping = False
        self.left_out = 0
        """Lines that were too long, or cut off where their file ended."""

    def open(self) -> None:
        """Begins at the end of the file as it is now, or at the start of one that comes later."""
        self._file = self._try_open()
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)
            # a line that is only half there is not ours: its beginning was before
            self._skipping = self._ends_inside_a_line()

    def read(self, limit_bytes: int) -> list[bytes]:
        """Lines that are whole by now, without their ends, of about ``limit_bytes`` at most."""
        lines: list[bytes] = []
        left = limit_bytes
        while left > 0:
            chunk = self._chunk(min(CHUNK_BYTES, left))
            if not chunk:
                break
            left -= len(chunk)
            self._split(chunk, lines)
        return lines

    def close(self) -> None:
        """May be called twice."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _chunk(self, size: int) -> bytes:
        if self._file is None:
            self._file = self._when_it_can_be()
        if self._file is None:
            return b""
        if os.fstat(self._file.fileno()).st_size < self._file.tell():
            self._begin_anew()
            self._file.seek(0)
        chunk = self._file.read(size)
        if chunk or not self._was_replaced():
            return chunk
        chunk = self._file.read(size)  # what came between the last read and the renaming
        if chunk:
            return chunk
        self._file.close()
        self._begin_anew()
        self._file = self._when_it_can_be()
        return self._file.read(size) if self._file is not None else b""

    def _begin_anew(self) -> None:
        self.left_out += bool(self._rest)
        self._rest, self._skipping = b"", False

    def _was_replaced(self) -> bool:
        assert self._file is not None
        mine = os.fstat(self._file.fileno())
        try:
            there = self._path.stat()
        except OSError:
            return False  # between renaming and the new file's making: wait for it
        return (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino)

    def _split(self, chunk: bytes, lines: list[bytes]) -> None:
        *whole, rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            if self._skipping:
                self._skipping = False
            elif len(line) > self._max_line_bytes:
                self.left_out += 1
            elif line:
                lines.append(line)
        if self._skipping:
            rest = b""
        elif len(rest) > self._max_line_bytes:
            self.left_out += 1
            self._skipping, rest = True, b""
        self._rest = rest

    def _when_it_can_be(self) -> BinaryIO | None:
        """The new file; None while it is not there or can not be opened: its next state may be another."""
        try:
            return self._try_open()
        except OSError:
            return None

    def _try_open(self) -> BinaryIO | None:
        try:
            return self._path.open("rb", buffering=0)
        except FileNotFoundError:
            return None

    def _ends_inside_a_line(self) -> bool:
        assert self._file is not None
        end = self._file.tell()
        return end > 0 and os.pread(self._file.fileno(), 1, end - 1) != b"\n"
