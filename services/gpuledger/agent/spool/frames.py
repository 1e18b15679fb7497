"""How an entry lies in a segment: its length and CRC-32 (4 bytes each, big-endian), then its bytes."""

from __future__ import annotations

import os
import struct
import zlib
from typing import Final

from gpuledger.agent.spool.entry import Entry
from gpuledger.contract.errors import BadRecord

MAX_ENTRY_BYTES: Final = 16 << 20  # twice the largest record; a longer length is damage
MAGICS: Final = (b"GLSPOOL1", b"GLSPOOLT", b"GLSPOOLF")
"""The first bytes of a segment, by what became of its windows: as they came, tallied, frames alone."""
MAGIC_BYTES: Final = len(MAGICS[0])
_FRAME: Final = struct.Struct(">II")


def framed(entry: Entry) -> bytes:
    """The entry as it lies in a segment."""
    payload = entry.to_bytes()
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def entry_at(fd: int, offset: int, limit: int) -> tuple[Entry | None, int]:
    """The entry there and the offset behind it; None, and where to go on, for what can not be read. Raises
    OSError."""
    head = os.pread(fd, _FRAME.size, offset)
    if len(head) < _FRAME.size:
        return None, limit
    length, checksum = _FRAME.unpack(head)
    behind = offset + _FRAME.size + length
    if length > MAX_ENTRY_BYTES or behind > limit:
        return None, limit
    payload = os.pread(fd, length, offset + _FRAME.size)
    if len(payload) < length or zlib.crc32(payload) != checksum:
        return None, behind
    try:
        return Entry.from_bytes(payload), behind
    except (BadRecord, UnicodeDecodeError):
        return None, behind


def coarseness_of(fd: int) -> int:
    """How coarse what waits in a segment was made, by its first bytes; 0 for any others. Raises OSError."""
    magic = os.pread(fd, MAGIC_BYTES, 0)
    return MAGICS.index(magic) if magic in MAGICS else 0
