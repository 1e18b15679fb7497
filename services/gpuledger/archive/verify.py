"""Whether an archive is whole: checksums, holes, repeats, and files that nothing names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpuledger.archive.log import chain_of, partitions_of, read_file
from gpuledger.archive.manifest import Commit
from gpuledger.archive.store import Store
from gpuledger.contract.errors import BadRecord


@dataclass(slots=True)
class Verdict:
    """What was looked at, and what is wrong; ``lost`` are offsets that retention took, ``unnamed`` files that
    a crash left behind. Neither is wrong in itself."""

    commits: int = 0
    files: int = 0
    records: int = 0
    size_bytes: int = 0
    lost: int = 0
    unnamed: int = 0
    problems: list[str] = field(default_factory=list)


def verify(store: Store, told: Callable[[int], None] = lambda _: None) -> Verdict:
    """Read every byte of an archive; ``told`` hears how many files are done. Raises StoreUnavailable."""
    verdict = Verdict()
    named: set[str] = set()
    for topic, partition in partitions_of(store):
        place = f"{topic}/{partition}"
        try:
            commits = chain_of(store, topic, partition)
        except BadRecord as error:
            verdict.problems.append(str(error))
            continue
        for first, end in commits.holes:
            verdict.problems.append(f"{place}: offsets {first} to {end - 1} are in no commit")
        for commit in (*commits.commits, *commits.superseded):
            named.update(file.name for file in commit.files)
        for commit in commits.commits:
            verdict.commits += 1
            verdict.lost += commit.end - commit.first if commit.lost else 0
            verdict.problems += _problems(store, commit, verdict)
            told(verdict.files)
    verdict.unnamed = len(set(store.names("data")) - named)
    return verdict


def _problems(store: Store, commit: Commit, verdict: Verdict) -> Iterator[str]:
    place = f"{commit.topic}/{commit.partition}"
    if commit.lost:
        return
    offsets = [offset for first, count in commit.absent for offset in range(first, first + count)]
    for file in commit.files:
        verdict.files += 1
        verdict.size_bytes += file.size_bytes
        try:
            records = read_file(store, file, with_values=False)
        except BadRecord as error:
            yield f"{place}: {error}"
            return
        verdict.records += len(records)
        if len(records) != file.records:
            yield f"{place}: {file.name} has {len(records)} records, not {file.records}"
        if any((record.topic, record.partition) != (commit.topic, commit.partition) for record in records):
            yield f"{place}: {file.name} holds records of another partition"
        offsets += [record.offset for record in records]
    offsets.sort()
    if offsets != list(range(commit.first, commit.end)):
        repeated = len(offsets) - len(set(offsets))
        missing = commit.end - commit.first - len(set(offsets) & set(range(commit.first, commit.end)))
        yield (
            f"{place}: of offsets {commit.first} to {commit.end - 1} {missing} are missing, "
            f"{repeated} repeated"
        )
