"""What the ledger says of a window: which revision holds, from which records, and its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.revision import Revision
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.sink.tables import NS_PER_MS, Arrival, charge_rows
from gpuledger.warehouse import Warehouse

LONGEST_MS = MINUTE_NS // NS_PER_MS  # of a window
ROW_KEY = ("device", "consumer_kind", "consumer", "container", "reason")
_NOT_COMPARED = frozenset({"received_at", "revision"})
_WHERE = (
    "cluster = {cluster:String} AND node = {node:String}"
    " AND window_start = fromUnixTimestamp64Milli({start:Int64})"
)

Row = dict[str, Any]


class WindowKey(NamedTuple):
    """A window of a node."""

    node: NodeKey
    start_ns: int


@dataclass(frozen=True, slots=True)
class Head:
    """The revision of a window that holds, and its lineage: (first, count) of offsets of gpu.telemetry."""

    key: WindowKey
    revision: Revision
    length_ns: int
    state: str
    price_version: int
    team_version: int
    partition: int
    offset_ranges: tuple[tuple[int, int], ...]


class Asked(NamedTuple):
    """Whose charges are asked for; what is empty is any."""

    cluster: str = ""
    node: str = ""
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    device: str = ""


def windows_at(warehouse: Warehouse, asked: Asked, at_ns: int) -> list[WindowKey]:
    """The windows around an instant that have rows of whom is asked for. Raises as Warehouse does."""
    given = {name: value for name, value in asked._asdict().items() if value}
    columns = {"uid": "consumer"}
    conditions = "".join(f" AND {columns.get(name, name)} = {{{name}:String}}" for name in given)
    found = warehouse.rows(
        "SELECT DISTINCT cluster, node, toUnixTimestamp64Milli(window_start) AS start_ms FROM charges"
        " WHERE window_start <= fromUnixTimestamp64Milli({at:Int64})"
        " AND window_start > fromUnixTimestamp64Milli({from:Int64})"
        " AND start_ms + intDiv(window_length_ns, 1000000) > {at:Int64}"
        f"{conditions} ORDER BY cluster, node, start_ms",
        given | {"at": at_ns // NS_PER_MS, "from": at_ns // NS_PER_MS - LONGEST_MS},
    )
    return [WindowKey(NodeKey(cluster, node), start_ms * NS_PER_MS) for cluster, node, start_ms in found]


def head_of(warehouse: Warehouse, key: WindowKey) -> Head | None:
    """The head of a window; None where nothing was ever charged for it."""
    found = warehouse.rows(
        "SELECT revision, window_length_ns, state, price_version, team_version, telemetry_partition,"
        f" offset_starts, offset_counts FROM charge_windows FINAL WHERE {_WHERE}",
        _parameters(key),
    )
    if not found:
        return None
    packed, length_ns, state, price_version, team_version, partition, starts, counts = found[0]
    ranges = tuple(zip(map(int, starts), map(int, counts), strict=True))
    return Head(
        key, Revision.unpack(packed), length_ns, state, price_version, team_version, partition, ranges
    )


def rows_of(warehouse: Warehouse, key: WindowKey) -> list[Row]:
    """The rows of a window, in order of their keys."""
    columns = ", ".join(name for name in _names() if name not in _NOT_COMPARED)
    order = ", ".join(ROW_KEY)
    table = warehouse.arrow(
        f"SELECT {columns} FROM charges WHERE {_WHERE} ORDER BY {order}", _parameters(key)
    )
    rows: list[Row] = table.to_pylist()
    return rows


def as_rows(charges: ChargeSet) -> list[Row]:
    """The rows that the ledger would have of a charge set, in order of their keys."""
    table = charge_rows([Arrival(charges, "", 0, 0, 0)])
    rows: list[Row] = table.drop_columns(list(_NOT_COMPARED)).to_pylist()
    return sorted(rows, key=key_of)


def key_of(row: Row) -> tuple[str, ...]:
    """What tells a row from the others of its window."""
    return tuple(row[name] for name in ROW_KEY)


def differences(stored: Sequence[Row], computed: Sequence[Row]) -> list[str]:
    """What differs, in words; empty where all agrees."""
    ours, theirs = ({key_of(row): row for row in rows} for rows in (computed, stored))
    found = [f"{_name(key)}: not in the ledger" for key in ours.keys() - theirs.keys()]
    found += [f"{_name(key)}: in the ledger only" for key in theirs.keys() - ours.keys()]
    for key in ours.keys() & theirs.keys():
        for name, value in ours[key].items():
            if theirs[key][name] != value:
                found.append(f"{_name(key)}: {name} is {theirs[key][name]}, computed {value}")
    return sorted(found)


def _name(key: tuple[str, ...]) -> str:
    return " ".join(part for part in key if part)


def _names() -> list[str]:
    empty = ChargeSet("", "", 0, 0, 0, 0, 0, 0)
    names: list[str] = charge_rows([Arrival(empty, "", 0, 0, 0)]).column_names
    return names


def _parameters(key: WindowKey) -> dict[str, Any]:
    return {"cluster": key.node.cluster, "node": key.node.node, "start": key.start_ns // NS_PER_MS}
