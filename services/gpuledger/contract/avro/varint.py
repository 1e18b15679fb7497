"""Columns of Avro's zig-zag variable-length integers, many at a time.

A varint carries 7 bits a byte, lowest first; all but its last byte have the top bit set. The kernels load
the 4 or 8 bytes from where each integer starts as one word, keep what lies before its own end, and close
the gaps between the 7-bit groups pairwise, so that a column costs a fixed number of vector operations and
not one for each byte of its longest integer. Writing goes the same way back.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuledger.contract.avro import reasons
from gpuledger.contract.errors import BadRecord

Longs = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]
Words = npt.NDArray[Any]  # unsigned integers, each with the bytes of one varint

MAX_VARINT_BYTES: Final = 10  # 64 bits in groups of 7
CHUNK_BYTES: Final = 1 << 15  # temporaries of one step then fit a core's second-level cache
PADDING_BYTES: Final = (
    10  # words of 4 and 8 bytes, and the 2 bytes after 8, are loaded wherever an integer starts
)
CHUNK_INTEGERS: Final = (
    1 << 12
)  # temporaries stay so small that the allocator keeps their pages between records
_U32: Final = np.uint32
_U64: Final = np.uint64
# By value: the negative ones are found from the list's end.
_OF_ONE_BYTE: Final = [bytes([value << 1]) for value in range(64)] + [
    bytes([~value << 1 | 1]) for value in range(-64, 0)
]


def decode_one(data: bytes, position: int, path: str) -> tuple[int, int]:
    """The integer at ``position`` and the position after it. Raises BadRecord."""
    value = 0
    at = position
    try:
        for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
            octet = data[at]
            at += 1
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                break
        else:
            raise BadRecord(reasons.BAD_VARINT, "an integer of more than ten bytes", path, position)
    except IndexError:
        raise BadRecord(reasons.TRUNCATED, "the record ends inside an integer", path, position) from None
    if value >> 64:
        raise BadRecord(reasons.BAD_VARINT, "an integer with bits beyond the 64th", path, position)
    return (value >> 1) ^ -(value & 1), at


def encode_one(value: int) -> bytes:
    """The bytes of one integer of 64 bits."""
    if -64 <= value < 64:
        return _OF_ONE_BYTE[value]
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


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


def encode_block(values: Longs) -> Octets:
    """The bytes of a column of integers, one after the other."""
    if not values.size:
        return np.empty(0, np.uint8)
    low, high = int(values.min()), int(values.max())
    reach = max(~low, high)  # a value and its complement take equally many bytes
    if reach < 1 << 6:
        narrow = values.astype(np.int8)
        return (narrow << np.int8(1) ^ narrow >> np.int8(7)).view(np.uint8)
    if reach < 1 << 13:
        return _select(_spread16(_zigzag(values.astype(np.int16), np.uint16)))
    if reach < 1 << 27:
        return _select(_spread32(_zigzag(values.astype(np.int32), np.uint32)))
    if reach < 1 << 55:
        return _select(_spread64(_zigzag(values, np.uint64)))
    return _encode_longest(_zigzag(values, np.uint64))


def _zigzag(values: npt.NDArray[Any], unsigned: type[np.unsignedinteger]) -> Words:
    kind = values.dtype.type
    folded: Words = (values << kind(1)) ^ (values >> kind(8 * values.itemsize - 1))
    return folded.view(unsigned)


def _select(words: Words) -> Octets:
    """The bytes that each word uses: its first, and any other that is not zero."""
    width = words.itemsize
    octets = words.astype(words.dtype.newbyteorder("<"), copy=False).view(np.uint8)
    used = octets != 0
    used[::width] = True
    return octets.compress(used)


def _spread16(raw: Words) -> Words:
    high = raw >> np.uint16(7) << np.uint16(8)
    words: Words = (raw & np.uint16(0x7F)) | high | (np.minimum(high, np.uint16(1)) << np.uint16(7))
    return words


def _spread32(raw: Words) -> Words:
    words: Words = (raw & _U32(0x3FFF)) | (raw >> _U32(14) << _U32(16))
    words = (words & _U32(0x007F007F)) | ((words & _U32(0x3F803F80)) << _U32(1))
    above = words >> _U32(8)  # byte k is not zero where a byte above k of the word is not
    above |= above >> _U32(8)
    above |= above >> _U32(16)
    words |= (above + _U32(0x7F7F7F7F)) & _U32(0x80808080)
    return words


def _spread64(raw: Words) -> Words:
    words: Words = (raw & _U64(0x0FFFFFFF)) | (raw >> _U64(28) << _U64(32))
    words = (words & _U64(0x00003FFF00003FFF)) | ((words & _U64(0x0FFFC0000FFFC000)) << _U64(2))
    words = (words & _U64(0x007F007F007F007F)) | ((words & _U64(0x3F803F803F803F80)) << _U64(1))
    above = words >> _U64(8)
    above |= above >> _U64(8)
    above |= above >> _U64(16)
    above |= above >> _U64(32)
    words |= (above + _U64(0x7F7F7F7F7F7F7F7F)) & _U64(0x8080808080808080)
    return words


def _encode_longest(raw: Words) -> Octets:
    """Integers of up to ten bytes: the low 56 bits as a word, the high 8 in two bytes more."""
    words = _spread64(raw & _U64((1 << 56) - 1))
    high = (raw >> _U64(56)).astype(np.uint8)
    words[high != 0] |= _U64(0x8080808080808080)
    octets = np.empty((raw.size, MAX_VARINT_BYTES), np.uint8)
    octets[:, :8] = words.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
    octets[:, 8] = high  # its top bit is bit 63 of the integer, and says that the tenth byte follows
    octets[:, 9] = high >> np.uint8(7)
    used = octets != 0
    used[:, 0] = True
    selected: Octets = octets[used]
    return selected
