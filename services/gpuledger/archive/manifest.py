"""What belongs to an archive: commits, each an unbroken range of offsets of one partition. Pure.

Commits of a partition form a chain: each begins where the one before it ends, and its object is named by the
offset at which it begins. An archiver creates that object and never replaces one, so of two archivers that
saw the same end one is refused: no offset is ever in two commits of the chain. Compaction replaces the
object of a commit by one that reaches further; those that begin inside it are superseded, whether they are
deleted yet or not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpuledger.contract.errors import BadRecord

FORMAT = 1


@dataclass(frozen=True, slots=True)
class File:
    """A file of records of one cluster (``-``: none is named) in one commit.

    ``windows_from_ns`` and ``windows_to_ns`` are the least and the greatest start of a window that the
    records speak of; None where none says so, or one of them can not be read.
    """

    name: str
    cluster: str
    records: int
    size_bytes: int
    sha256: str
    first: int
    last: int
    windows_from_ns: int | None = None
    windows_to_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """The offsets [first, end) of a partition: in its files, or absent.

    ``absent`` are (first, count) of offsets that no record has (the marks of transactions); of a commit that
    is ``lost``, those that retention took before they were archived. Append times in ms, -1 without records.
    """

    topic: str
    partition: int
    first: int
    end: int
    records: int
    append_from_ms: int
    append_to_ms: int
    files: tuple[File, ...] = ()
    absent: tuple[tuple[int, int], ...] = ()
    lost: bool = False

    @property
    def name(self) -> str:
        """The name of its object."""
        return f"{manifest_prefix(self.topic, self.partition)}/{self.first:020d}.json"

    def to_bytes(self) -> bytes:
        """Its object: JSON with a checksum of itself."""
        body = {"format": FORMAT, **asdict(self)}
        return json.dumps({**body, "sha256": _digest(body)}, separators=(",", ":")).encode() + b"\n"

    @staticmethod
    def from_bytes(data: bytes) -> Commit:
        """Inverse of ``to_bytes``. Raises BadRecord."""
        try:
            body: dict[str, Any] = json.loads(data)
            stated = body.pop("sha256")
            if body["format"] != FORMAT:
                raise BadRecord("bad_manifest", f"format {body['format']} is not known; use a newer version")
            if stated != _digest(body):
                raise BadRecord("bad_manifest", "its checksum is another: it was changed or cut off")
            del body["format"]
            body["files"] = tuple(File(**file) for file in body["files"])
            body["absent"] = tuple((first, count) for first, count in body["absent"])
            return Commit(**body)
        except (ValueError, KeyError, TypeError) as error:
            raise BadRecord("bad_manifest", f"no entry of a manifest: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Chain:
    """The commits of a partition that count, in order, and what is wrong with them."""

    commits: tuple[Commit, ...] = ()
    holes: tuple[tuple[int, int], ...] = ()  # (first, end) of offsets between two commits
    superseded: tuple[Commit, ...] = ()

    @property
    def end(self) -> int | None:
        """The offset at which the next commit begins; None where there is no commit."""
        return self.commits[-1].end if self.commits else None


def chain(commits: Iterable[Commit]) -> Chain:
    """The chain of commits of one partition, in any order."""
    counting: list[Commit] = []
    holes: list[tuple[int, int]] = []
    superseded: list[Commit] = []
    for commit in sorted(commits, key=lambda one: one.first):
        if counting and commit.first < counting[-1].end:
            superseded.append(commit)
            continue
        if counting and commit.first > counting[-1].end:
            holes.append((counting[-1].end, commit.first))
        counting.append(commit)
    return Chain(tuple(counting), tuple(holes), tuple(superseded))


def absent_offsets(offsets: Sequence[int], first: int, end: int) -> tuple[tuple[int, int], ...]:
    """(first, count) of each run of [first, end) that the ascending ``offsets`` leave out."""
    return tuple(_absent(offsets, first, end))


def _absent(offsets: Sequence[int], first: int, end: int) -> Iterator[tuple[int, int]]:
    expected = first
    for offset in (*offsets, end):
        if offset > expected:
            yield expected, offset - expected
        expected = offset + 1


def manifest_prefix(topic: str, partition: int) -> str:
    """Where the commits of a partition are."""
    return f"manifest/{topic}/{partition:05d}"


def sha256(data: bytes) -> str:
    """Checksum in hex."""
    return hashlib.sha256(data).hexdigest()


def _digest(body: dict[str, Any]) -> str:
    return sha256(json.dumps(body, separators=(",", ":"), sort_keys=True).encode())
