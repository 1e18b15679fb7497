"""A run of Kafka records as one Parquet file, byte for byte: offset, append time, key, headers, value.

Topic and partition are the file's metadata, so that a file that was moved still says what it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from gpuledger.bus import Incoming
from gpuledger.contract.errors import BadRecord

FORMAT = b"1"
ZSTD_LEVEL = 3  # batches are delta-coded already: higher levels cost much and win some percent
ROW_GROUP_RECORDS = 1_000
_HEADER = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("append_ms", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("headers", pa.list_(_HEADER), nullable=False),
        pa.field("value", pa.binary()),
    ]
)


def pack(records: Sequence[Incoming]) -> bytes:
    """One file with the records, of one topic and partition, at least one, in their order."""
    topic, partition = records[0].topic, records[0].partition
    columns = [
        pa.array([record.offset for record in records], pa.int64()),
        pa.array([record.timestamp_ms for record in records], pa.int64()),
        pa.array([record.key for record in records], pa.binary()),
        pa.array(
            [[{"name": name, "value": value} for name, value in record.headers] for record in records],
            pa.list_(_HEADER),
        ),
        pa.array([record.value for record in records], pa.binary()),
    ]
    metadata = {
        b"gpuledger.format": FORMAT,
        b"gpuledger.topic": topic.encode(),
        b"gpuledger.partition": str(partition).encode(),
    }
    table = pa.Table.from_arrays(columns, schema=SCHEMA.with_metadata(metadata))
    out = pa.BufferOutputStream()
    pq.write_table(
        table,
        out,
        row_group_size=ROW_GROUP_RECORDS,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=["key"],
        write_statistics=["offset", "append_ms"],
    )
    return bytes(out.getvalue())


def unpack(data: bytes, with_values: bool = True) -> list[Incoming]:
    """The records of a file, in order; ``with_values`` False leaves their values out (None).

    Raises BadRecord where the bytes are no such file.
    """
    columns = [name for name in SCHEMA.names if with_values or name != "value"]
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        metadata = file.schema_arrow.metadata or {}
        topic = metadata[b"gpuledger.topic"].decode()
        partition = int(metadata[b"gpuledger.partition"])
        table = file.read(columns=columns, use_threads=False)
        offsets, times, keys, headers = (table.column(name).to_pylist() for name in SCHEMA.names[:4])
        values = table.column("value").to_pylist() if with_values else [None] * len(offsets)
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise BadRecord("bad_archive_file", f"no archive file: {error}") from error
    return [
        Incoming(
            topic, partition, offset, append_ms, key, value, tuple((h["name"], h["value"]) for h in heads)
        )
        for offset, append_ms, key, heads, value in zip(offsets, times, keys, headers, values, strict=True)
    ]
