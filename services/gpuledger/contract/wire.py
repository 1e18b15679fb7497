"""Confluent's framing of registry-encoded records: 0x00, a 4-byte big-endian schema id, the Avro body."""

from __future__ import annotations

import struct

from gpuledger.contract.avro.reasons import BAD_FRAME
from gpuledger.contract.errors import BadRecord

MAGIC = 0
FRAME_BYTES = 5
MAX_SCHEMA_ID = (1 << 31) - 1  # the registry hands out positive Java ints
_FRAME = struct.Struct(">BI")


def frame(schema_id: int, body: bytes) -> bytes:
    """A record's bytes as they go to Kafka. Raises ValueError where ``schema_id`` is no registry id."""
    if not 0 <= schema_id <= MAX_SCHEMA_ID:
        raise ValueError(f"{schema_id} is not a schema id")
    return _FRAME.pack(MAGIC, schema_id) + body


def unframe(message: bytes | memoryview) -> tuple[int, memoryview]:
    """Schema id and body (not copied) of a record from Kafka. Raises BadRecord."""
    if len(message) < FRAME_BYTES:
        raise BadRecord(BAD_FRAME, f"{len(message)} bytes are too short for a schema id", "", 0)
    magic, schema_id = _FRAME.unpack_from(message)
    if magic != MAGIC:
        raise BadRecord(BAD_FRAME, f"the first byte is {magic:#04x}, not 0x00", "", 0)
    if schema_id > MAX_SCHEMA_ID:
        raise BadRecord(BAD_FRAME, f"{schema_id} is not a schema id", "", 1)
    return schema_id, memoryview(message)[FRAME_BYTES:]
