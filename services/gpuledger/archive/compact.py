"""Small files joined: the commits of an hour of a partition become one. Nothing is lost at any step.

The files of the joined commit are written first, then its entry replaces that of the first commit, which
makes the others superseded; only then they and their files are deleted. What a crash left is deleted by
the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpuledger.archive.archiver import COMMIT_BYTES
from gpuledger.archive.log import chain_of, partitions_of, read_file
from gpuledger.archive.manifest import Commit
from gpuledger.archive.store import Store
from gpuledger.archive.writing import MS_PER_HOUR, write_run


@dataclass(frozen=True, slots=True)
class Compacted:
    """Commits before and after, and objects deleted."""

    before: int = 0
    after: int = 0
    deleted: int = 0


def compact(store: Store, before_ms: int) -> Compacted:
    """Join what arrived in hours that were over at ``before_ms``, and delete what nothing names any more.

    Run one at a time; an archiver may go on beside it. A reader that had opened one of the joined commits is
    told that its file is not there, and succeeds when it begins again. Raises StoreUnavailable, BadRecord.
    """
    total = Compacted()
    files = store.names("data")  # before the manifest is read: a file that is written now is not among them
    named: set[str] = set()
    ends: dict[tuple[str, int], int] = {}
    for topic, partition in partitions_of(store):
        old = chain_of(store, topic, partition)
        for group in _groups(old.commits, before_ms):
            if len(group) > 1:
                _join(store, group)
        new = chain_of(store, topic, partition)
        for commit in new.superseded:
            store.delete(commit.name)
        named.update(file.name for commit in new.commits for file in commit.files)
        ends[topic, partition] = new.end or 0
        deleted = total.deleted + len(new.superseded)
        total = Compacted(total.before + len(old.commits), total.after + len(new.commits), deleted)
    for name in files:
        if name not in named and _offset_of(name) < ends.get(_place_of(name), 0):
            store.delete(name)
            total = replace(total, deleted=total.deleted + 1)
    return total


def _groups(commits: Sequence[Commit], before_ms: int) -> Iterator[list[Commit]]:
    """Runs of commits to be joined: of one hour, unbroken, and not larger than a commit may be."""
    group: list[Commit] = []
    for commit in commits:
        if group and not _joins(group, commit):
            yield group
            group = []
        if not commit.lost and _hour(commit) < before_ms // MS_PER_HOUR:
            group.append(commit)
        elif group:
            yield group
            group = []
    if group:
        yield group


def _joins(group: Sequence[Commit], commit: Commit) -> bool:
    size_bytes = sum(file.size_bytes for one in (*group, commit) for file in one.files)
    last = group[-1]
    return last.end == commit.first and _hour(last) == _hour(commit) and size_bytes <= COMMIT_BYTES


def _join(store: Store, group: Sequence[Commit]) -> None:
    records = [record for commit in group for file in commit.files for record in read_file(store, file)]
    records.sort(key=lambda record: record.offset)
    joined = write_run(store, records, group[0].first, group[-1].end)
    store.put(joined.name, joined.to_bytes())


def _place_of(name: str) -> tuple[str, int]:
    return name.split("/")[1], int(name.rpartition("/")[2].split("-")[0])


def _offset_of(name: str) -> int:
    """The first offset of a file of records: what an archiver writes now lies behind the chain's end."""
    return int(name.rpartition("/")[2].split("-")[1])


def _hour(commit: Commit) -> int:
    return commit.append_from_ms // MS_PER_HOUR
