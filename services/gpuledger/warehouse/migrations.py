"""The warehouse's schema as numbered files, applied once each and never changed afterwards.

``ddl/NNNN_name.sql`` holds one statement. What was applied is recorded with its checksum in the table
``schema_migrations``; a file that changed after it was applied is refused, since nobody could say which of
the two the tables were made from. Every statement is idempotent, so a crash between statement and record
is repaired by the next run. Views may change: a file that begins with ``CREATE OR REPLACE VIEW`` is applied
again whenever its checksum changes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.warehouse.client import Warehouse

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_RECORD = """
CREATE TABLE IF NOT EXISTS schema_migrations
(
    number UInt16,
    name String,
    checksum String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(applied_at)
ORDER BY number
"""


@dataclass(frozen=True)
class Migration:
    """One numbered file: ``statement`` without comments, ``checksum`` over that (SHA-256, hex)."""

    number: int
    name: str
    statement: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the statement; comments and space at line ends do not count."""
        lines = (line.rstrip() for line in self.statement.splitlines())
        return hashlib.sha256("\n".join(line for line in lines if line).encode()).hexdigest()

    @property
    def repeatable(self) -> bool:
        """Whether it may change and be applied again: views hold no data."""
        return self.statement.lstrip().upper().startswith("CREATE OR REPLACE VIEW")


def load(folder: Path | None = None) -> list[Migration]:
    """Read the migrations of ``folder`` (default: the ones that belong to this version), in order.

    Raises ConfigError for a file that is not named NNNN_name.sql, or for a gap in the numbers.
    """
    source: Iterable[tuple[str, str]]
    if folder is None:
        root = resources.files("gpuledger.warehouse") / "ddl"
        source = [
            (item.name, item.read_text("utf-8")) for item in root.iterdir() if item.name.endswith(".sql")
        ]
    else:
        source = [(path.name, path.read_text("utf-8")) for path in folder.glob("*.sql")]
    found = []
    for name, text in sorted(source):
        match = _NAME.fullmatch(name)
        if match is None:
            raise ConfigError("a migration is named NNNN_name.sql", name)
        statement = _COMMENT.sub("", text).strip().rstrip(";")
        found.append(Migration(int(match.group(1)), match.group(2), statement))
    for expected, migration in enumerate(found, start=1):
        if migration.number != expected:
            raise ConfigError(
                f"migration {expected:04} is missing", f"{migration.number:04}_{migration.name}.sql"
            )
    return found


def missing(warehouse: Warehouse, migrations: list[Migration] | None = None) -> list[Migration]:
    """What ``migrate`` would apply; changes nothing. Raises Refused as it does."""
    wanted = load() if migrations is None else migrations
    exists = warehouse.rows("EXISTS TABLE schema_migrations")[0][0]
    rows = warehouse.rows("SELECT number, checksum FROM schema_migrations FINAL") if exists else []
    applied = {int(number): str(checksum) for number, checksum in rows}
    unknown = set(applied) - {migration.number for migration in wanted}
    if unknown:
        raise Refused(
            f"the warehouse has migration {max(unknown):04}, which this version does not know; upgrade it"
        )
    for migration in wanted:
        recorded = applied.get(migration.number)
        if recorded not in (None, migration.checksum) and not migration.repeatable:
            raise Refused(
                f"migration {migration.number:04}_{migration.name} changed after it was applied; "
                "put the file back and add a new one"
            )
    return [migration for migration in wanted if applied.get(migration.number) != migration.checksum]


def migrate(warehouse: Warehouse, migrations: list[Migration] | None = None) -> list[Migration]:
    """Apply what is missing and return it; a second run returns nothing.

    Raises Refused when the warehouse was made by other files than these (a table's file changed, or the
    warehouse is newer than this program).
    """
    wanted = load() if migrations is None else migrations
    warehouse.command(_RECORD)
    done = missing(warehouse, wanted)
    for migration in done:
        warehouse.command(migration.statement)
        warehouse.command(
            "INSERT INTO schema_migrations (number, name, checksum) "
            "VALUES ({number:UInt16}, {name:String}, {sum:String})",
            {"number": migration.number, "name": migration.name, "sum": migration.checksum},
        )
    return done
