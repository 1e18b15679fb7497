"""Columns of variable-length integers, encoded many at a time.

The 7-bit groups of each integer are spread over the bytes of a word, the continuation bits are set, and
the bytes that are used are picked. The longest integer of a column decides how wide the words are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuledger.contract.avro.varint import MAX_VARINT_BYTES, Longs, Octets, Words

Picks = npt.NDArray[np.bool_]

_U32: Final = np.uint32
_U64: Final = np.uint64
# A value v fits the word when max(v, ~v) is below: 7 bits for each byte, less the sign.
_REACHES: Final = (1 << 6, 1 << 13, 1 << 27, 1 << 55, 1 << 63)


def encode_block(values: Longs) -> Octets:
    """The bytes of a column of integers, one after the other."""
    if not values.size:
        return np.empty(0, np.uint8)
    octets, used = _lay_out(values, _width_class(int(values.min()), int(values.max())))
    return octets if used is None else octets.compress(used)


def encode_blocks(columns: Sequence[Longs]) -> tuple[list[bytes], list[tuple[int, int]]]:
    """The bytes of each of several columns, and its least and greatest value; none may be empty.

    As ``encode_block`` on each, but with the fixed cost of the vector operations paid once for all columns
    of like width: for many short columns.
    """
    flat = np.concatenate(columns)
    starts = _starts(columns)
    low, high = np.minimum.reduceat(flat, starts), np.maximum.reduceat(flat, starts)
    classes = np.searchsorted(_REACHES[:-1], np.maximum(~low, high), side="right")
    encoded = [b""] * len(columns)
    for width_class in np.flatnonzero(np.bincount(classes)).tolist():
        members = np.flatnonzero(classes == width_class).tolist()
        parts = [columns[i] for i in members]
        octets, used = _lay_out(np.concatenate(parts), width_class)
        if used is None:
            sizes = [part.size for part in parts]
        else:
            width = octets.size // sum(part.size for part in parts)
            firsts = [start * width for start in _starts(parts)]
            sizes = np.add.reduceat(used.view(np.uint8), firsts, dtype=np.int64).tolist()
            octets = octets.compress(used)
        together = octets.tobytes()
        for i, size, end in zip(members, sizes, accumulate(sizes), strict=True):
            encoded[i] = together[end - size : end]
    return encoded, list(zip(low.tolist(), high.tolist(), strict=True))


def _starts(columns: Sequence[Longs]) -> list[int]:
    return [0, *accumulate(column.size for column in columns[:-1])]


def _width_class(low: int, high: int) -> int:
    reach = max(~low, high)  # a value and its complement take equally many bytes
    return next(i for i, bound in enumerate(_REACHES) if reach < bound)


def _lay_out(values: Longs, width_class: int) -> tuple[Octets, Picks | None]:
    """Bytes of equally many for each integer, and which of them are used (None: all)."""
    match width_class:
        case 0:
            return _zigzag(values.astype(np.int8), np.uint8), None
        case 1:
            return _pick(_spread16(_zigzag(values.astype(np.int16), np.uint16)))
        case 2:
            return _pick(_spread32(_zigzag(values.astype(np.int32), np.uint32)))
        case 3:
            return _pick(_spread64(_zigzag(values, np.uint64)))
        case _:
            return _lay_out_longest(_zigzag(values, np.uint64))


def _zigzag(values: npt.NDArray[Any], unsigned: type[np.unsignedinteger]) -> Words:
    kind = values.dtype.type
    folded: Words = (values << kind(1)) ^ (values >> kind(8 * values.itemsize - 1))
    return folded.view(unsigned)


def _pick(words: Words) -> tuple[Octets, Picks]:
    """The bytes of the words, and which of them are used: the first, and any other that is not zero."""
    width = words.itemsize
    octets = words.astype(words.dtype.newbyteorder("<"), copy=False).view(np.uint8)
    used = octets != 0
    used[::width] = True
    return octets, used


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


def _lay_out_longest(raw: Words) -> tuple[Octets, Picks]:
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
    return octets.reshape(-1), used.reshape(-1)
