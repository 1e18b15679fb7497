"""Avro's zig-zag variable-length integers, one at a time, and the types of many.

A varint carries 7 bits a byte, lowest first; all but its last byte have the top bit set. Zig-zag folds the
sign into the lowest bit, so that integers near 0 are short (Avro 1.11, "Binary encoding").
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
# By value: the negative ones are found from the list's end.
_OF_ONE_BYTE: Final = [bytes([n << 1]) for n in range(64)] + [bytes([~n << 1 | 1]) for n in range(-64, 0)]


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
