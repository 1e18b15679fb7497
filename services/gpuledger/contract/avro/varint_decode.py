"""Columns of variable-length integers, decoded many at a time.

The kernel loads the 4 bytes from where each integer starts as one word, keeps what lies before the
integer's own end, and closes the gaps between the 7-bit groups pairwise: a column costs a fixed number of
vector operations, not one for each byte of its longest integer. The few that are longer are done again.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuledger.contract.avro import reasons
from gpuledger.contract.avro.varint import MAX_VARINT_BYTES, Longs, Octets, Words
from gpuledger.contract.errors import BadRecord

CHUNK_BYTES: Final = 1 << 15  # what is looked at in one step fits a core's second-level cache
CHUNK_INTEGERS: Final = 1 << 12  # temporaries so small that the allocator keeps their pages between records
PADDING_BYTES: Final = 10  # 4, 8 and then 2 more bytes are loaded wherever an integer starts
_U32: Final = np.uint32
_U64: Final = np.uint64


def find_end(octets: Octets, position: int, count: int, path: str) -> int:
    """The position after ``count`` integers that start at ``position``. Raises BadRecord."""
    at, left = position, count
    while left:
        window = octets[at : at + min(CHUNK_BYTES, 2 * left + 16)]
        if not window.size:
            raise BadRecord(reasons.TRUNCATED, f"the record ends {left} integers early", path, at)
        ends = window < 0x80
        found = int(np.count_nonzero(ends))
        if found >= left:
            return at + int(np.flatnonzero(ends)[left - 1]) + 1
        if not found and window.size > MAX_VARINT_BYTES:
            raise BadRecord(reasons.BAD_VARINT, "an integer of more than ten bytes", path, at)
        left -= found
        at += window.size
    return at


def decode_block(data: bytes, octets: Octets, start: int, stop: int, count: int, path: str) -> Longs:
    """The ``count`` integers that fill ``data[start:stop]`` exactly, as a new int64 array.

    ``octets`` is ``data`` as an array. Temporaries stay below a constant beside the result, whose 8 bytes
    an integer are paid for by at least one byte each. Raises BadRecord.
    """
    size = stop - start
    if size < count:
        raise BadRecord(reasons.BAD_COUNT, f"{count} integers in {size} bytes", path, start)
    if size == count:
        block = octets[start:stop]
        if count and int(block.max()) >= 0x80:
            raise BadRecord(
                reasons.BAD_BLOCK_SIZE, f"{count} integers take more than {size} bytes", path, start
            )
        return unzigzag_octets(block).astype(np.int64)
    values = np.empty(count, np.int64)
    filled, at = 0, start
    while at < stop:
        end = _chunk_end(octets, at, stop, path)
        filled += _decode_chunk(data, octets, at, end, values, filled, path)
        at = end
    if filled != count:
        raise BadRecord(reasons.BAD_BLOCK_SIZE, f"{filled} integers in a block of {count}", path, start)
    return values


def _chunk_end(octets: Octets, at: int, stop: int, path: str) -> int:
    """Where a chunk from ``at`` may end: after a whole integer."""
    end = min(at + CHUNK_BYTES, stop)
    tail = octets[max(at, end - MAX_VARINT_BYTES) : end]
    whole = np.flatnonzero(tail < 0x80)
    if not whole.size:
        raise BadRecord(reasons.BAD_VARINT, "an integer of more than ten bytes", path, end - tail.size)
    if end == stop and int(whole[-1]) != tail.size - 1:
        raise BadRecord(reasons.BAD_BLOCK_SIZE, "the block ends inside an integer", path, end)
    return end - tail.size + int(whole[-1]) + 1


def _decode_chunk(data: bytes, octets: Octets, at: int, end: int, out: Longs, filled: int, path: str) -> int:
    """Decode the whole integers of ``data[at:end]`` into ``out[filled:]``; how many they are."""
    ends = np.flatnonzero(octets[at:end] < 0x80)
    found = ends.size
    if filled + found > out.size:
        raise BadRecord(reasons.BAD_BLOCK_SIZE, f"more than {out.size} integers in the block", path, at)
    # Words reach past the last integer: near the record's end they need a padded copy of the chunk.
    padded, offset = (
        (data, at) if end + PADDING_BYTES <= len(data) else (data[at:end] + bytes(PADDING_BYTES), 0)
    )
    wrong = decode_marked(padded, offset, ends, out[filled : filled + found])
    if wrong is not None:
        message = "an integer of more than ten bytes or with bits beyond the 64th"
        raise BadRecord(reasons.BAD_VARINT, message, path, at + wrong)
    return found


def decode_marked(buffer: bytes, offset: int, ends: npt.NDArray[np.intp], out: Longs) -> int | None:
    """Decode integers whose last bytes lie at ``offset + ends``, the first beginning at ``offset``.

    ``buffer`` goes on for PADDING_BYTES after the last of them. Where one is longer than an integer may be,
    the result says how far from ``offset`` it begins, and ``out`` is not complete.
    """
    for first in range(0, ends.size, CHUNK_INTEGERS):
        part = ends[first : first + CHUNK_INTEGERS]
        base = int(ends[first - 1]) + 1 if first else 0
        wrong = _decode_part(buffer, offset + base, part - base, out[first : first + CHUNK_INTEGERS])
        if wrong is not None:
            return base + wrong
    return None


def _decode_part(buffer: bytes, offset: int, ends: npt.NDArray[np.intp], out: Longs) -> int | None:
    starts = np.empty(ends.size, np.int64)
    starts[0] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    # An aligned copy of the word that begins at each byte: taking from it is far cheaper than unaligned.
    words = np.ascontiguousarray(np.ndarray((int(ends[-1]) + 1,), "<u4", buffer, offset, (1,))).take(starts)
    stops = ~words
    stops &= _U32(0x80808080)
    words &= stops ^ (stops - _U32(1))
    out[:] = _unzigzag(_compact32(words), np.int32)
    if np.count_nonzero(stops) == ends.size:
        return None
    longer = np.flatnonzero(stops == 0)
    return _decode_longer(buffer, offset, starts, ends, longer, out)


def _decode_longer(
    buffer: bytes,
    offset: int,
    starts: Longs,
    ends: npt.NDArray[np.intp],
    longer: npt.NDArray[np.intp],
    out: Longs,
) -> int | None:
    """Decode again those of more than 4 bytes; as ``decode_marked``."""
    begin = starts[longer]
    lengths = ends[longer] - begin + 1
    words = np.ndarray((int(begin[-1]) + 1,), "<u8", buffer, offset, (1,))[begin]
    stops = ~words & _U64(0x8080808080808080)
    raw = _compact64(words & (stops ^ (stops - _U64(1))))
    longest = np.flatnonzero(lengths > 8)
    if longest.size:
        high = np.ndarray((int(begin[-1]) + 1,), "<u2", buffer, offset + 8, (1,))[begin[longest]].astype(
            np.uint64
        )
        ninth, tenth = high & _U64(0x7F), high >> _U64(8)
        tenth[lengths[longest] == 9] = 0
        wrong = np.flatnonzero((lengths[longest] > MAX_VARINT_BYTES) | (tenth > _U64(1)))
        if wrong.size:
            return int(begin[longest[wrong[0]]])
        raw[longest] |= (ninth << _U64(56)) | (tenth << _U64(63))
    out[longer] = _unzigzag(raw, np.int64)
    return None


def _compact32(words: Words) -> Words:
    """Close the gaps between the 7-bit groups of 4 bytes, in place."""
    high = words & _U32(0x7F007F00)
    high >>= _U32(1)
    words &= _U32(0x007F007F)
    words |= high
    np.right_shift(words, _U32(16), out=high)
    high <<= _U32(14)
    words &= _U32(0x3FFF)
    words |= high
    return words


def _compact64(words: Words) -> Words:
    """Close the gaps between the 7-bit groups of 8 bytes: 56 bits."""
    words = (words & _U64(0x007F007F007F007F)) | ((words & _U64(0x7F007F007F007F00)) >> _U64(1))
    words = (words & _U64(0x00003FFF00003FFF)) | ((words & _U64(0x3FFF00003FFF0000)) >> _U64(2))
    closed: Words = (words & _U64(0x0FFFFFFF)) | (words >> _U64(32) << _U64(28))
    return closed


def _unzigzag(raw: Words, signed: type[np.signedinteger]) -> npt.NDArray[Any]:
    """The signed integers behind ``raw``, in its place."""
    one = raw.dtype.type(1)
    values: npt.NDArray[Any] = raw.view(signed)
    sign = values & signed(1)
    np.negative(sign, out=sign)
    raw >>= one
    values ^= sign
    return values


def unzigzag_octets(block: Octets) -> npt.NDArray[np.int8]:
    """The integers of one byte each."""
    return _unzigzag(block.copy(), np.int8)
