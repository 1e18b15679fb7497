"""Stored sums of hours that changed: read the hour as it stands, store it, say so.

An hour may change while it is read, also by another writer. So its version is read before and after the
sums, and only sums between two equal versions are stored; the others stay marked. The marks are read first
of all: a change that comes later carries a greater mark and leaves the hour dirty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.warehouse.client import Warehouse

SETTLED_S = 5  # after its end an hour still gets its last windows; until then queries sum its windows
# A writer that died may have an insert under way for as long as its client waits for an answer.
FOREIGN_GRACE_S = 330
MAX_HOURS = 1_000  # in one round: some 50,000 stored rows, and a query text far below its limit
HOUR_S = 3_600
VERSION_BYTES = 16  # UInt128, little-endian in Arrow

Key = tuple[str, str, int]
"""Cluster, node and start of the hour (s since the Unix epoch)."""

_MARKS = """
SELECT cluster, node, toUnixTimestamp(hour) AS hour_s, writer, latest
FROM
(
    SELECT cluster, node, hour, writer, max(dirty) AS latest, max(clean) AS done
    FROM charge_hour_marks
    GROUP BY cluster, node, hour, writer
)
WHERE latest > done AND hour_s <= {settled:Int64} AND (writer = {writer:String} OR latest <= {foreign:UInt64})
ORDER BY hour_s, cluster, node
LIMIT {limit:UInt32}
"""
_SCOPE = """(cluster, node, toUnixTimestamp({hour})) IN {{hours:Array(Tuple(String, String, UInt32))}}
    AND {time} >= fromUnixTimestamp({{first:UInt32}}) AND {time} < fromUnixTimestamp({{end:UInt32}})"""
# What a version is: ddl/0005.
_VERSIONS = f"""
SELECT cluster, node, toUnixTimestamp(toStartOfHour(window_start)) AS hour_s,
    toUInt128(count()) * bitShiftLeft(toUInt128(1), 96) + sum(toUInt128(revision)) AS version,
    count() AS windows
FROM charge_windows FINAL
WHERE {_SCOPE.format(hour="toStartOfHour(window_start)", time="window_start")}
GROUP BY cluster, node, hour_s
"""
_SUMS = f"SELECT * FROM charges_by_hour WHERE {_SCOPE.format(hour='hour', time='hour')}"


@dataclass(frozen=True, slots=True)
class _State:
    version: int
    windows: int


class HourKeeper:
    """Stores the sums of dirty hours. Owned by the writer's thread; raises as Warehouse does."""

    def __init__(self, warehouse: Warehouse, clock: Clock, writer: str) -> None:
        self._warehouse = warehouse
        self._clock = clock
        self._writer = writer

    def round(self) -> set[Key]:
        """Store what is due, at most MAX_HOURS, and return the hours that are clean now."""
        marks = self._due()
        if not marks:
            return set()
        steady = self.store(list(marks))
        self._clean({key: marks[key] for key in steady})
        return steady

    def store(self, keys: Sequence[Key]) -> set[Key]:
        """Store the sums of these hours as they stand; returns those that did not change meanwhile."""
        scope = scope_of(keys)
        before = self._versions(scope)
        sums = self._warehouse.arrow(_SUMS, scope)
        after = self._versions(scope)
        steady = {key for key in keys if before.get(key) == after.get(key)}
        self._store(sums, {key: before[key] for key in steady if key in before})
        return steady

    def _due(self) -> dict[Key, list[tuple[str, int]]]:
        now_ns = self._clock.unix_ns()
        rows = self._warehouse.rows(
            _MARKS,
            {
                "settled": now_ns // NS_PER_S - HOUR_S - SETTLED_S,
                "writer": self._writer,
                "foreign": max(0, now_ns - FOREIGN_GRACE_S * NS_PER_S),
                "limit": MAX_HOURS,
            },
        )
        marks: dict[Key, list[tuple[str, int]]] = {}
        for cluster, node, hour_s, writer, latest in rows:
            marks.setdefault((cluster, node, hour_s), []).append((writer, latest))
        return marks

    def _versions(self, scope: Mapping[str, Any]) -> dict[Key, _State]:
        rows = self._warehouse.rows(_VERSIONS, scope)
        return {(r[0], r[1], r[2]): _State(r[3], r[4]) for r in rows}

    def _store(self, sums: pa.Table, states: Mapping[Key, _State]) -> None:
        if not states:
            return
        keys = list(
            zip(
                sums["cluster"].to_pylist(),
                sums["node"].to_pylist(),
                (_seconds(sums["hour"])).tolist(),
                strict=True,
            )
        )
        wanted = np.array([key in states for key in keys], bool)
        rows = sums.filter(pa.array(wanted)) if len(keys) else sums
        stored = [key for key in keys if key in states]
        counts = dict.fromkeys(states, 0)
        for key in stored:
            counts[key] += 1
        if stored:
            versions = uint128([states[key].version for key in stored])
            self._warehouse.insert_arrow("charge_hour_rows", rows.append_column("version", versions))
        order = list(states)
        heads = key_columns(order) | {
            "version": uint128([states[key].version for key in order]),
            "windows": pa.array([states[key].windows for key in order], pa.uint64()),
            "rows": pa.array([counts[key] for key in order], pa.uint32()),
        }
        self._warehouse.insert_arrow("charge_hours", pa.table(heads))

    def _clean(self, marks: Mapping[Key, list[tuple[str, int]]]) -> None:
        flat = [(key, writer, latest) for key, found in marks.items() for writer, latest in found]
        if not flat:
            return
        columns = key_columns([key for key, _, _ in flat]) | {
            "writer": pa.array([writer for _, writer, _ in flat], pa.string()),
            "dirty": pa.array([0] * len(flat), pa.uint64()),
            "clean": pa.array([latest for _, _, latest in flat], pa.uint64()),
        }
        self._warehouse.insert_arrow("charge_hour_marks", pa.table(columns))


def scope_of(keys: Sequence[Key]) -> dict[str, Any]:
    """The parameters of a query about these hours."""
    starts = [key[2] for key in keys]
    return {"hours": keys, "first": min(starts), "end": max(starts) + HOUR_S}


def key_columns(keys: Sequence[Key]) -> dict[str, pa.Array]:
    """The columns that name these hours."""
    return {
        "cluster": pa.array([key[0] for key in keys], pa.string()),
        "node": pa.array([key[1] for key in keys], pa.string()),
        "hour": pa.array(np.array([key[2] for key in keys], np.int64)).cast(pa.timestamp("s", tz="UTC")),
    }


def _seconds(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A DateTime column of the warehouse: Arrow has it as uint32 or as a timestamp, by version."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s", tz="UTC")).cast(pa.int64())
    return np.asarray(column.to_numpy(), np.int64)


def uint128(values: Sequence[int]) -> pa.Array:
    """Versions as a column."""
    packed = [value.to_bytes(VERSION_BYTES, "little") for value in values]
    return pa.array(packed, pa.binary(VERSION_BYTES))
