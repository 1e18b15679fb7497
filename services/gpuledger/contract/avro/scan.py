"""The state of one record's decoding, and the frame of blocks that arrays and maps share."""

from __future__ import annotations

import numpy as np

from gpuledger.contract.avro import reasons
from gpuledger.contract.avro.limits import Limits
from gpuledger.contract.avro.varint import Octets, decode_one
from gpuledger.contract.errors import BadRecord


class Scan:
    """The bytes of one record and what has been spent on them."""

    __slots__ = ("_empty_items", "_values", "data", "depth", "limits", "octets", "size")

    def __init__(self, body: bytes | bytearray | memoryview, limits: Limits) -> None:
        """Raises BadRecord when the body is above the limit; a body of bytes is not copied."""
        size = body.nbytes if isinstance(body, memoryview) else len(body)
        if size > limits.max_record_bytes:
            raise BadRecord(
                reasons.OVER_LIMIT, f"{size} bytes, the limit is {limits.max_record_bytes}", "", 0
            )
        self.data = body if type(body) is bytes else bytes(body)
        self.size = size
        self.octets: Octets = np.frombuffer(self.data, np.uint8)
        self.limits = limits
        self.depth = 0
        self._values = 0
        self._empty_items = 0

    def check_items(self, count: int, before: int, limit: int, path: str, position: int) -> None:
        """Refuse ``count`` more items on top of ``before`` where the array or map would pass its limit."""
        if before + count > limit:
            raise BadRecord(
                reasons.OVER_LIMIT, f"{before + count} items, the limit is {limit}", path, position
            )

    def admit(self, count: int, least: int, before: int, limit: int, path: str, position: int) -> None:
        """Admit a block of items that take ``least`` bytes or more each and become Python objects."""
        left = self.size - position
        if count * least > left:
            message = f"{count} items of {least} bytes or more in {left} bytes"
            raise BadRecord(reasons.BAD_COUNT, message, path, position)
        self.check_items(count, before, limit, path, position)
        self._values += count
        if self._values > self.limits.max_values:
            message = f"more than {self.limits.max_values} values in one record"
            raise BadRecord(reasons.OVER_LIMIT, message, path, position)
        if not least:
            self._empty_items += count
            if self._empty_items > self.limits.max_empty_items:
                message = f"more than {self.limits.max_empty_items} items without a byte in one record"
                raise BadRecord(reasons.OVER_LIMIT, message, path, position)

    @property
    def spent(self) -> tuple[int, int]:
        """Values, and items without a byte, that were admitted so far."""
        return self._values, self._empty_items

    def spend(self, more: tuple[int, int]) -> bool:
        """Count what was admitted before in another record; False, and nothing counted, beyond a limit."""
        values, empty_items = self._values + more[0], self._empty_items + more[1]
        if values > self.limits.max_values or empty_items > self.limits.max_empty_items:
            return False
        self._values, self._empty_items = values, empty_items
        return True

    @staticmethod
    def end_block(position: int, stop: int, path: str) -> None:
        """Refuse a block that announced another end than its items have (``stop`` < 0: it announced none)."""
        if stop >= 0 and position != stop:
            message = f"the block announced its end at byte {stop}"
            raise BadRecord(reasons.BAD_BLOCK_SIZE, message, path, position)


def read_block(scan: Scan, position: int, path: str) -> tuple[int, int, int]:
    """The frame of a block: items (0 ends the array), position of the first, end of the block or -1.

    Avro 1.11, "Arrays": a negative count is followed by the size of the block in bytes.
    """
    count, after = decode_one(scan.data, position, path)
    if count >= 0:
        return count, after, -1
    size, after = decode_one(scan.data, after, path)
    if not 0 <= size <= scan.size - after:
        message = f"a block of {size} bytes, {scan.size - after} are left"
        raise BadRecord(reasons.BAD_BLOCK_SIZE, message, path, position)
    return -count, after, after + size
