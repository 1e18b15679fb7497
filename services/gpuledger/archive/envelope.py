"""A run of Kafka records as one Parquet file, byte for byte: offset, append time, key, headers, value.

Topic and partition are the file's metadata, so that a file that was moved still says what it is.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from gpuledger.bus import Incoming
from gpuledger.contract.errors import BadRecord

FORMAT = b"1"
ZSTD_LEVEL = 3  # batches are delta-coded already: higher levels cost much and win some percent
ROW_GROUP_RECORDS = 1_000
ROW_GROUP_BYTES = 4 << 20  # of values; it is what a file takes to be made, beside itself
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
    """One file with the records, of one topic and partition, at least one, in their order.

    Row groups are made one after the other: it takes the room of the file and of one group.
    """
    topic, partition = records[0].topic, records[0].partition
    metadata = {
        b"gpuledger.format": FORMAT,
        b"gpuledger.topic": topic.encode(),
        b"gpuledger.partition": str(partition).encode(),
    }
    schema = SCHEMA.with_metadata(metadata)
    out = io.BytesIO()
    with pq.ParquetWriter(
        out,
        schema,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=["key"],
        write_statistics=["offset", "append_ms"],
    ) as writer:
        for group in _groups(records):
            writer.write_table(_table(group, schema))
    return out.getvalue()


def _groups(records: Sequence[Incoming]) -> Iterator[Sequence[Incoming]]:
    first = size_bytes = 0
    for at, record in enumerate(records):
        size_bytes += len(record.value or b"")
        if size_bytes >= ROW_GROUP_BYTES or at + 1 - first >= ROW_GROUP_RECORDS:
            yield records[first : at + 1]
            first, size_bytes = at + 1, 0
    if first < len(records):
        yield records[first:]


def _table(records: Sequence[Incoming], schema: pa.Schema) -> pa.Table:
    headers = [[{"name": name, "value": value} for name, value in record.headers] for record in records]
    columns = [
        pa.array([record.offset for record in records], pa.int64()),
        pa.array([record.timestamp_ms for record in records], pa.int64()),
        pa.array([record.key for record in records], pa.binary()),
        pa.array(headers, pa.list_(_HEADER)),
        pa.array([record.value for record in records], pa.binary()),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


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
