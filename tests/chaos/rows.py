"""The warehouse's answer held against charge sets, row by row and column by column."""

from __future__ import annotations

import json
import math
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from gpuledger.contract.charge_columns import ROW_COLUMNS, TEXT_COLUMNS
from gpuledger.contract.records import ChargeSet

KEY = ("cluster", "node", "window_start_ns", "device", "consumer_kind", "consumer", "container", "reason")
NANO = Decimal(10) ** 9
NS_PER_MS = 1_000_000
_MONEY_WITH_PRICE = ("used", "held_idle", "unallocated", "unobserved", "borrowed")
Row = dict[str, Any]
Rows = Mapping[tuple[Any, ...], Row]

# Sums by hour that must agree between the windows and the hours, and between the view and the stored sums.
HOURLY_SUMS = ("used_ns", "held_idle_ns", "unallocated_ns", "unobserved_ns", "total_ns", "launches", "total")
_SUMS = ", ".join(f"sum({name}) AS {name}" for name in HOURLY_SUMS)
_BY = "cluster, node, {hour} AS the_hour, device, consumer_kind, consumer, team, state, reason"
_GROUP = "GROUP BY cluster, node, the_hour, device, consumer_kind, consumer, team, state, reason"
HOURS = (
    f"SELECT {_BY.format(hour='hour')}, {_SUMS} FROM charges_hourly {_GROUP}",
    f"SELECT {_BY.format(hour='toStartOfHour(window_start)')}, {_SUMS} FROM charges {_GROUP}",
)


def ask(port: int, query: str) -> list[Row]:
    """Rows of a query over ClickHouse's own protocol; 64-bit integers and decimals exact. Raises OSError."""
    settings = "output_format_json_quote_64bit_integers=1&output_format_json_quote_decimals=1"
    address = f"http://127.0.0.1:{port}/?{settings}"
    request = urllib.request.Request(address, data=f"{query} FORMAT JSON".encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        rows: list[Row] = json.load(answer)["data"]
    return rows


def of_warehouse(port: int) -> Rows:
    """The view `charges`, by key."""
    found: dict[tuple[Any, ...], Row] = {}
    query = "SELECT *, toUnixTimestamp64Milli(window_start) AS window_start_ms FROM charges"
    for row in ask(port, query):
        row["window_start_ns"] = int(row["window_start_ms"]) * NS_PER_MS
        key = tuple(row[name] for name in KEY)
        assert key not in found, f"two rows of one key: {key}"
        found[key] = row
    return found


def of_sets(sets: Iterable[ChargeSet]) -> Rows:
    """What the view must show for these sets."""
    return {tuple(row[name] for name in KEY): row for charges in sets for row in _rows(charges)}


def differences(got: Rows, wanted: Rows, most: int = 10) -> list[str]:
    """What differs, in words; at most that many."""
    found = [f"missing: {key}" for key in wanted.keys() - got.keys()]
    found += [f"too much: {key} {got[key]['state']}" for key in got.keys() - wanted.keys()]
    for key in wanted.keys() & got.keys():
        for name, value in wanted[key].items():
            if not _same(got[key][name], value):
                found.append(f"{key} {name}: {got[key][name]!r}, not {value!r}")
    return found[:most]


def _rows(charges: ChargeSet) -> Iterator[Row]:
    for at in range(len(charges.device)):
        row: Row = {
            "cluster": charges.cluster,
            "node": charges.node,
            "window_start_ns": charges.window_start_ns,
            "window_length_ns": charges.window_length_ns,
            "state": charges.state,
            "booking_period": charges.booking_period,
        }
        for name in ROW_COLUMNS:
            value = getattr(charges, name)[at].item()
            row[name] = charges.texts[value] if name in TEXT_COLUMNS else value
        priced, effective = row.pop("priced"), row.pop("effective_known")
        for name in _MONEY_WITH_PRICE:
            nano = row.pop(f"{name}_nano")
            row[name] = Decimal(nano) / NANO if priced else None
        nano = row.pop("effectively_used_nano")
        row["effectively_used"] = Decimal(nano) / NANO if priced and effective else None
        if not effective:
            row["effectively_used_ns"] = None
        parts = ("used", "held_idle", "unallocated", "unobserved")
        row["total"] = sum(row[name] for name in parts) if priced else None
        row["total_ns"] = sum(row[f"{name}_ns"] for name in parts)
        yield row


def _same(got: Any, wanted: Any) -> bool:
    if wanted is None or got is None:
        return got is None and (wanted is None or (isinstance(wanted, float) and math.isnan(wanted)))
    if isinstance(wanted, Decimal):
        return Decimal(got) == wanted
    if isinstance(wanted, float):
        return float(got) == wanted
    if isinstance(wanted, int):
        return int(got) == wanted
    return bool(got == wanted)
