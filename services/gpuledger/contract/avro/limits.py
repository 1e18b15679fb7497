"""What a record may cost before it is refused.

Decoding must be safe on bytes that anyone could have written to a topic: every limit here bounds memory or
time by something that is known before the memory is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

# Kafka's own default for one message is 1 MiB; gpu.telemetry and gpu.charges raise it to 8 MiB at most.
MAX_RECORD_BYTES = 8 * 1024 * 1024
# A window's part carries some thousand events; this is far above it and costs 8 MiB a column.
MAX_ARRAY_ITEMS = 1 << 20
# Pod labels and annotations reach 256 KiB together; one string of a record has no reason to be longer.
MAX_STRING_BYTES = 256 * 1024
# A version of a configuration document carries the whole document as it was written.
MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
# Binary values carry whole refused records to the dead letters, so they may be as long as a record.
MAX_BYTES_BYTES = MAX_RECORD_BYTES
# Labels of one pod, counters of one device: hundreds, not thousands.
MAX_MAP_ITEMS = 1 << 14
# Only a schema that names itself nests without end; the contract's own schemas nest five deep.
MAX_DEPTH = 32
# Each value outside a numeric column is a Python object of some 50 to 300 bytes.
MAX_VALUES = 1 << 18
# Items without a byte on the wire (null, empty records) cost memory that no input paid for.
MAX_EMPTY_ITEMS = 1 << 10


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one record; beyond any of them it is refused with reason ``over_limit``.

    ``max_values`` counts what becomes a Python object of its own: items of arrays that are not numeric
    columns, and map entries, over the whole record; ``max_empty_items`` those among them that take no byte
    on the wire. ``max_depth`` bounds records that contain themselves.
    """

    max_record_bytes: int = MAX_RECORD_BYTES
    max_array_items: int = MAX_ARRAY_ITEMS
    max_string_bytes: int = MAX_STRING_BYTES
    max_bytes_bytes: int = MAX_BYTES_BYTES
    max_map_items: int = MAX_MAP_ITEMS
    max_depth: int = MAX_DEPTH
    max_values: int = MAX_VALUES
    max_empty_items: int = MAX_EMPTY_ITEMS


DEFAULT = Limits()
DOCUMENT = Limits(max_string_bytes=MAX_DOCUMENT_BYTES)
