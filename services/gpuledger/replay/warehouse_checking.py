"""Whether the warehouse's rows are what a replay computes: every column but the revision and the lineage.

An hour is compared as two tables; only where they differ it is looked which windows do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpuledger.contract.identity import NO_NODE, NodeKey
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.topics import CHARGES
from gpuledger.contract.windows import HOUR_NS, NS_PER_S
from gpuledger.replay.checking import NOT_IN_LEDGER, NOT_IN_REPLAY, Comparison, Difference
from gpuledger.replay.configurations import REPLAYED
from gpuledger.replay.partition import state_path
from gpuledger.replay.request import Request
from gpuledger.replay.state import State
from gpuledger.sink.tables import NS_PER_MS, Arrival, charge_rows, charge_windows
from gpuledger.warehouse import Warehouse

SETS_AT_A_TIME = 2_000  # some 60 MB decoded
WINDOW = ("cluster", "node", "window_start")
ROW = (*WINDOW, "device", "consumer_kind", "consumer", "container", "reason")
_BESIDE = frozenset(
    {
        "revision", "received_at", "generation", "inputs", "core_version", "telemetry_partition",
        "offset_starts", "offset_counts",
    }
)  # fmt: skip
_WHERE = (
    "window_start >= fromUnixTimestamp({from:UInt32}) AND window_start < fromUnixTimestamp({until:UInt32})"
    " AND cluster != {nobody:String}"
    " AND (empty({clusters:Array(String)}) OR cluster IN {clusters:Array(String)})"
)
_EMPTY = ChargeSet("", "", 0, 0, 0, 0, 0, 0)
Window = tuple[str, str, int]


def compare_with_warehouse(
    request: Request, partitions: int, directory: Path, warehouse: Warehouse
) -> Comparison:
    """Compare the rows that hold, and what their heads say beside them, an hour at a time.

    Raises WarehouseUnavailable, WarehouseError.
    """
    comparison = Comparison()
    with ExitStack() as stack:
        states = [State(state_path(directory, p), request.fingerprint) for p in range(partitions)]
        for state in states:
            stack.callback(state.close)
        for hour in range(request.from_ns - request.from_ns % HOUR_NS, request.to_ns, HOUR_NS):
            rows, heads = _computed(states, hour)
            stored = (
                _stored(warehouse, request, hour, "charges", rows, ROW),
                _stored(warehouse, request, hour, "charge_windows FINAL", heads, WINDOW, "rows > 0"),
            )
            comparison.add(_outcomes((rows, heads), stored))
    return comparison


def _computed(states: Sequence[State], hour: int) -> tuple[pa.Table, pa.Table]:
    """Rows and heads of the windows that are not withdrawn, as the sink would write them."""
    found = (one for state in states for one in state.sets(REPLAYED, hour, hour + HOUR_NS) if len(one.device))
    nothing = [Arrival(_EMPTY, CHARGES, 0, 0, 0)]
    rows, heads = [charge_rows(nothing).slice(0, 0)], [charge_windows(nothing).slice(0, 0)]
    while some := [Arrival(one, CHARGES, 0, 0, 0) for one in islice(found, SETS_AT_A_TIME)]:
        rows.append(charge_rows(some))
        heads.append(charge_windows(some))
    return _plain(pa.concat_tables(map(_told_out, rows)), ROW), _plain(
        pa.concat_tables(map(_told_out, heads)), WINDOW
    )


def _stored(
    warehouse: Warehouse,
    request: Request,
    hour: int,
    source: str,
    like: pa.Table,
    key: Sequence[str],
    condition: str = "1",
) -> pa.Table:
    asked = {
        "from": max(hour, request.from_ns) // NS_PER_S,
        "until": min(hour + HOUR_NS, request.to_ns) // NS_PER_S,
        "nobody": NO_NODE.cluster,
        "clusters": sorted(request.clusters),
    }
    columns = ", ".join(like.column_names)
    found = warehouse.arrow(f"SELECT {columns} FROM {source} WHERE {_WHERE} AND {condition}", asked)
    return _plain(_told_out(found), key, like.schema)


def _told_out(table: pa.Table) -> pa.Table:
    """Texts as texts and times in ms, however they are encoded; without what is not compared."""
    columns = {}
    for name in table.column_names:
        if name in _BESIDE:
            continue
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        columns[name] = column
    return pa.table(columns)


def _plain(table: pa.Table, key: Sequence[str], schema: pa.Schema | None = None) -> pa.Table:
    if schema is not None:
        table = table.cast(schema)
    return table.sort_by([(name, "ascending") for name in key]).combine_chunks()


def _outcomes(
    computed: tuple[pa.Table, pa.Table], stored: tuple[pa.Table, pa.Table]
) -> Iterator[Difference | None]:
    """One for each window that either side has."""
    if computed[0].equals(stored[0]) and computed[1].equals(stored[1]):
        yield from [None] * computed[1].num_rows
        return
    ours, theirs = _by_window(computed), _by_window(stored)
    for window in sorted({*ours, *theirs}):
        what = _what(ours.get(window), theirs.get(window))
        cluster, node, start_ms = window
        yield Difference(NodeKey(cluster, node), start_ms * NS_PER_MS, what) if what else None


def _by_window(tables: tuple[pa.Table, pa.Table]) -> dict[Window, dict[tuple[Any, ...], dict[str, Any]]]:
    """Of each window its rows and its head, by what tells them apart."""
    found: dict[Window, dict[tuple[Any, ...], dict[str, Any]]] = {}
    for table, key in zip(tables, (ROW, WINDOW), strict=True):
        for row in table.to_pylist():
            window = row["cluster"], row["node"], row["window_start"]
            found.setdefault(window, {})[tuple(row[name] for name in key)] = row
    return found


def _what(
    ours: dict[tuple[Any, ...], dict[str, Any]] | None, theirs: dict[tuple[Any, ...], dict[str, Any]] | None
) -> tuple[str, ...]:
    if ours is None or theirs is None:
        return (NOT_IN_REPLAY,) if ours is None else (NOT_IN_LEDGER,)
    if ours.keys() != theirs.keys():
        return ("other rows",)
    return tuple(
        sorted({name for key, row in ours.items() for name in row if row[name] != theirs[key][name]})
    )
