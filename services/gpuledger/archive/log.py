"""An archive, read as if it were the Kafka that it was copied from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from gpuledger.archive.envelope import unpack
from gpuledger.archive.manifest import Chain, Commit, File, chain, manifest_prefix, sha256
from gpuledger.archive.store import Store
from gpuledger.bus import Incoming
from gpuledger.contract.errors import BadRecord, ConfigError

IDENTITY = "archive.json"
"""The object that says which Kafka cluster this is, and how many partitions its topics have."""
NS_PER_MS = 1_000_000


def chain_of(store: Store, topic: str, partition: int) -> Chain:
    """The commits of a partition. Raises StoreUnavailable, BadRecord for an entry that was tampered with."""
    names = store.names(manifest_prefix(topic, partition))
    return chain(_read_commit(store, name) for name in names)


def partitions_of(store: Store) -> list[tuple[str, int]]:
    """Every (topic, partition) that has a commit."""
    places = {tuple(name.split("/")[1:3]) for name in store.names("manifest")}
    return sorted((topic, int(partition)) for topic, partition in places)


class ArchiveLog:
    """See bus.log.Log. Bytes are checked against the manifest as they are read.

    ``wanted`` chooses the files that are read; the records of others are passed over, as if they were absent.
    Raises StoreUnavailable, and BadRecord where a file is not what the manifest says.
    """

    def __init__(self, store: Store, wanted: Callable[[File], bool] = lambda _: True) -> None:
        self._store = store
        self._wanted = wanted
        self._chains: dict[tuple[str, int], Chain] = {}
        self._partitions: dict[str, int] = {}

    @property
    def kafka_cluster(self) -> str:
        """The id of the Kafka cluster that was archived: whose offsets these are."""
        return str(identity_of(self._store)["kafka_cluster"])

    def partitions(self, topic: str) -> int:
        """See Log."""
        if not self._partitions:
            self._partitions = identity_of(self._store)["partitions"]
        if topic not in self._partitions:
            raise ConfigError(f"the archive at {self._store.url} holds nothing of {topic}")
        return self._partitions[topic]

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """See Log; (0, 0) where nothing is archived."""
        commits = self._chain(topic, partition).commits
        return (commits[0].first, commits[-1].end) if commits else (0, 0)

    def offset_at(self, topic: str, partition: int, unix_ns: int) -> int:
        """See Log; the beginning of the commit that holds it, which is at most an hour early."""
        for commit in self._chain(topic, partition).commits:
            if commit.append_to_ms * NS_PER_MS >= unix_ns:
                return commit.first
        return self.bounds(topic, partition)[1]

    def read_to_end(self, topic: str, partition: int, first: int | None = None) -> Iterator[Incoming]:
        """See Log."""
        low, end = self.bounds(topic, partition)
        return self.read_range(topic, partition, low if first is None else first, end - 1)

    def read_range(self, topic: str, partition: int, first: int, last: int) -> Iterator[Incoming]:
        """See Log."""
        for commit in self._chain(topic, partition).commits:
            if commit.first <= last and first < commit.end:
                for record in self._records(commit, first, last):
                    if first <= record.offset <= last:
                        yield record

    def _records(self, commit: Commit, first: int, last: int) -> list[Incoming]:
        files = [f for f in commit.files if f.first <= last and first <= f.last and self._wanted(f)]
        found = [record for file in files for record in read_file(self._store, file)]
        return found if len(files) == 1 else sorted(found, key=lambda record: record.offset)

    def _chain(self, topic: str, partition: int) -> Chain:
        if (topic, partition) not in self._chains:
            self._chains[topic, partition] = chain_of(self._store, topic, partition)
        return self._chains[topic, partition]


def read_file(store: Store, file: File, with_values: bool = True) -> list[Incoming]:
    """The records of a file, checked. Raises BadRecord, StoreUnavailable."""
    try:
        data = store.get(file.name)
    except FileNotFoundError:
        raise BadRecord("bad_archive_file", f"{file.name} is not there") from None
    if sha256(data) != file.sha256:
        raise BadRecord("bad_archive_file", f"{file.name} is not what was written: its checksum is another")
    return unpack(data, with_values)


def identity_of(store: Store) -> dict[str, Any]:
    """Which Kafka cluster it is, and how many partitions each topic has. Raises ConfigError where there is no
    archive, BadRecord, StoreUnavailable."""
    try:
        stated: dict[str, Any] = json.loads(store.get(IDENTITY))
        if not {"kafka_cluster", "partitions"} <= stated.keys():
            raise BadRecord("bad_manifest", f"{IDENTITY} does not say whose archive this is")
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"there is no archive at {store.url}") from None
    except (ValueError, AttributeError) as error:
        raise BadRecord("bad_manifest", f"{IDENTITY} says nothing: {error!r}") from error
    return stated


def _read_commit(store: Store, name: str) -> Commit:
    try:
        return Commit.from_bytes(store.get(name))
    except BadRecord as error:
        raise BadRecord(error.reason, f"{name}: {error}") from None
