"""What a replay of one partition has computed, in a file: it goes on from there after a crash.

Charges, progress and position of a round are written in one transaction, so that the file is always what a
processor's topics would be between two rounds.
"""

from __future__ import annotations

import fcntl
import pickle
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from gpuledger.contract.errors import Refused
from gpuledger.contract.records import ChargeSet, NodeProgress, decode, encode
from gpuledger.contract.revision import Revision
from gpuledger.processor.protocol import LogRecord

REVISION_BYTES = 8
CODEC = "lz4_raw"  # half of a set, in a tenth of the time that zlib takes for a little less
SIZE_BYTES = 4  # of a set, before it
FORM = 2  # of the file

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS progress (key BLOB PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS charges (
    start INTEGER, cluster TEXT, node TEXT, side TEXT, revision BLOB NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (start, cluster, node, side)
) WITHOUT ROWID;
"""
# Of two computations of one window the greater revision holds; equal ones have equal bytes.
_PUT = """
INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET revision = excluded.revision, body = excluded.body
WHERE excluded.revision >= revision
"""


class Stored(NamedTuple):
    """A charge set of a side: ``replayed``, ``recorded``, or what a change alone would have made of it."""

    side: str
    charges: ChargeSet
    body: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """Where a replay stands: all before ``offset`` is computed, ``end`` is where it will be done."""

    offset: int
    end: int
    events: int = 0
    windows: int = 0
    done: bool = False


class State:
    """One file. Owned by one thread of one process at a time: whoever comes second is refused."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = path.with_suffix(".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise Refused(f"another replay works on {path}; wait for it, or give another --state") from None
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + _TABLES)
        fingerprint = f"{FORM}:{fingerprint}"
        if self.get("fingerprint") not in (None, fingerprint):
            self.close()
            raise Refused(f"{path.parent} belongs to a replay of something else; give another --state")
        self.put(fingerprint=fingerprint)

    def get(self, name: str) -> Any:
        """A value by its name; None where there is none."""
        row = self._database.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else pickle.loads(row[0])

    def put(self, **values: Any) -> None:
        """Set values."""
        rows = [(name, pickle.dumps(value)) for name, value in values.items()]
        self._database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    def begin(self, beginning: Any, position: Position) -> None:
        """Forget what was computed, and begin there."""
        self._database.execute("BEGIN")
        self._database.execute("DELETE FROM progress")
        self._database.execute("DELETE FROM charges")
        self.put(beginning=beginning, position=position, beyond=[])
        self._database.execute("COMMIT")

    def save(
        self,
        sets: Iterable[Stored],
        hours: Iterable[NodeProgress],
        position: Position,
        beyond: Sequence[LogRecord],
    ) -> None:
        """Write all of a round, or nothing of it."""
        self._database.execute("BEGIN")
        self._put_sets(sets)
        self._database.executemany(
            "INSERT OR REPLACE INTO progress VALUES (?, ?)",
            [(f"{h.cluster}/{h.node}/{h.hour_start_ns}".encode(), encode(h)) for h in hours],
        )
        self.put(position=position, beyond=list(beyond))
        self._database.execute("COMMIT")

    def record(self, sets: Iterable[Stored]) -> None:
        """Write sets of another side."""
        self._database.execute("BEGIN")
        self._put_sets(sets)
        self._database.execute("COMMIT")

    def progress(self) -> list[NodeProgress]:
        """What was written of it."""
        rows = self._database.execute("SELECT body FROM progress")
        return [decode(NodeProgress, body) for (body,) in rows]

    def hours(self, hour_ns: int) -> list[int]:
        """The starts of the hours, or of other spans, that have charges."""
        rows = self._database.execute("SELECT DISTINCT start / ? FROM charges ORDER BY 1", (hour_ns,))
        return [number * hour_ns for (number,) in rows]

    def sets(self, side: str, from_ns: int = 0, to_ns: int = (1 << 63) - 1) -> Iterator[ChargeSet]:
        """The sets of a side whose windows start in [from, to), by window and node."""
        rows = self._database.execute(
            "SELECT body FROM charges WHERE start >= ? AND start < ? AND side = ? "
            "ORDER BY start, cluster, node",
            (from_ns, to_ns, side),
        )
        for (body,) in rows:
            yield unpacked(body)

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()
        self._lock.close()

    def _put_sets(self, sets: Iterable[Stored]) -> None:
        self._database.executemany(_PUT, map(_row, sets))


def unpacked(body: bytes) -> ChargeSet:
    """The set in a row of the file."""
    size = int.from_bytes(body[:SIZE_BYTES], "big")
    return decode(ChargeSet, pa.decompress(body[SIZE_BYTES:], size, CODEC, asbytes=True))


def position_of(path: Path) -> Position | None:
    """Where the replay of a file stands, while another process writes it; None before it has begun."""
    if not path.exists():
        return None
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        row = database.execute("SELECT value FROM meta WHERE name = 'position'").fetchone()
    except sqlite3.OperationalError:
        return None  # its tables are being made
    finally:
        database.close()
    found: Position | None = None if row is None else pickle.loads(row[0])
    return found


def rank(charges: ChargeSet) -> int:
    """The revision as one number."""
    return Revision(charges.generation, charges.inputs, charges.digest, charges.core_version).packed


def _row(stored: Stored) -> tuple[int, str, str, str, bytes, bytes]:
    charges = stored.charges
    revision = rank(charges).to_bytes(REVISION_BYTES, "big")
    size = len(stored.body).to_bytes(SIZE_BYTES, "big")
    body = size + pa.compress(stored.body, CODEC, asbytes=True)
    return charges.window_start_ns, charges.cluster, charges.node, stored.side, revision, body
