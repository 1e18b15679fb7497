"""From a run of records to files and the commit that names them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from gpuledger.archive.envelope import pack
from gpuledger.archive.manifest import Commit, File, absent_offsets, sha256
from gpuledger.archive.store import Store
from gpuledger.bus import Incoming
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.topics import TELEMETRY

NO_CLUSTER = "-"  # no cluster's name
MS_PER_HOUR = 3_600_000


def write_run(store: Store, records: Sequence[Incoming], first: int, end: int) -> Commit:
    """Write the files of records, of one partition, ascending, at least one, that are all of [first, end).

    They belong to the archive once their commit is written. Raises StoreUnavailable.
    """
    clusters: dict[str, list[Incoming]] = {}
    for record in records:
        clusters.setdefault(cluster_of(record.key), []).append(record)
    times = [record.timestamp_ms for record in records]
    return Commit(
        topic=records[0].topic,
        partition=records[0].partition,
        first=first,
        end=end,
        records=len(records),
        append_from_ms=min(times),
        append_to_ms=max(times),
        files=tuple(_write_file(store, cluster, part) for cluster, part in sorted(clusters.items())),
        absent=absent_offsets([record.offset for record in records], first, end),
    )


def commit(store: Store, entry: Commit) -> None:
    """Make a commit count, exactly once. Raises Refused where another archiver was first."""
    body = entry.to_bytes()
    try:
        store.create(entry.name, body)
    except FileExistsError:
        if store.get(entry.name) != body:  # else an answer of the store to ourselves was lost
            raise Refused(
                f"another archiver writes to {store.url}: it was first with offset {entry.first} of "
                f"{entry.topic}/{entry.partition}; run one"
            ) from None


def lost_to_retention(topic: str, partition: int, first: int, end: int) -> Commit:
    """What says that [first, end) was deleted before it was archived."""
    return Commit(topic, partition, first, end, 0, -1, -1, absent=((first, end - first),), lost=True)


def cluster_of(key: bytes | None) -> str:
    """The cluster that a record's key names."""
    name, slash, _ = (key or b"").partition(b"/")
    try:
        return (name.decode() or NO_CLUSTER) if slash else NO_CLUSTER
    except UnicodeDecodeError:
        return NO_CLUSTER


def hour_of(record: Incoming) -> int:
    """The hour (since the Unix epoch) in which the broker took a record."""
    return record.timestamp_ms // MS_PER_HOUR


def _write_file(store: Store, cluster: str, records: Sequence[Incoming]) -> File:
    data = pack(records)
    digest = sha256(data)
    windows = _windows(records)
    file = File(
        name=_name(cluster, records[0], digest),
        cluster=cluster,
        records=len(records),
        size_bytes=len(data),
        sha256=digest,
        first=records[0].offset,
        last=records[-1].offset,
        windows_from_ns=min(windows, default=None),
        windows_to_ns=max(windows, default=None),
    )
    store.put(file.name, data)
    return file


def _name(cluster: str, record: Incoming, digest: str) -> str:
    """By cluster, date and hour of arrival; named by content, so that a repetition writes the same object."""
    arrived = datetime.fromtimestamp(max(0, hour_of(record)) * 3600, UTC)
    folder = f"cluster={quote(cluster, safe='')}/date={arrived:%Y-%m-%d}/hour={arrived:%H}"
    place = f"{record.partition:05d}-{record.offset:020d}-{digest[:16]}"
    return f"data/{record.topic}/{folder}/{place}.parquet"


def _windows(records: Sequence[Incoming]) -> list[int]:
    """The windows that records speak of; none where one of them does not say so in a way that can be read."""
    if records[0].topic != TELEMETRY:
        return []
    try:
        return [RecordHeaders.from_kafka(r.key, r.headers).window_start_ns for r in records]
    except BadRecord:
        return []
