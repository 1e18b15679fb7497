"""The stable codes with which a record is refused; they go to the dead letters and to metrics."""

from __future__ import annotations

from typing import Final

TRUNCATED: Final = "truncated"  # the bytes end inside a value
BAD_VARINT: Final = "bad_varint"  # more than ten bytes, or bits beyond the 64th
OUT_OF_RANGE: Final = "out_of_range"  # an int beyond 32 bits, a value beyond the field's own bounds
BAD_COUNT: Final = "bad_count"  # a block promises more items than the bytes left can hold
BAD_BLOCK_SIZE: Final = "bad_block_size"  # a block's byte size is not the size of its items
BAD_LENGTH: Final = "bad_length"  # a negative length of a string or bytes
UNEQUAL_COLUMNS: Final = "unequal_columns"  # columns of one group differ in length
BAD_INDEX: Final = "bad_index"  # an index outside its dictionary
TRAILING_BYTES: Final = "trailing_bytes"  # bytes after the record's end
BAD_UTF8: Final = "bad_utf8"  # a string that is not UTF-8
BAD_BOOLEAN: Final = "bad_boolean"  # neither 0 nor 1
BAD_BRANCH: Final = "bad_branch"  # a union index outside the union
BAD_SYMBOL: Final = "bad_symbol"  # an enum index or symbol outside the enum
OVER_LIMIT: Final = "over_limit"  # beyond a named limit
BAD_FRAME: Final = "bad_frame"  # not the registry's framing
BAD_TYPE: Final = "bad_type"  # a value to encode that the schema does not allow
MISSING_FIELD: Final = "missing_field"  # a field without a default is not there
UNKNOWN_FIELD: Final = "unknown_field"  # a field that the schema does not have
UNRESOLVED: Final = "unresolved"  # the writer's schema does not resolve to the reader's
