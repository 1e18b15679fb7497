"""Prices from a simple CSV: a column for each field of a price in the YAML, matches by their own name."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from io import TextIOWrapper
from typing import Any

from gpuledger.contract.errors import ConfigError
from gpuledger.pricing.devices import MATCH_FIELDS
from gpuledger.pricing.imports.offers import MAX_TEXT, Offers, Open, identifier

FIELDS = (
    "id",
    "per",
    "price_per_hour",
    "currency",
    "effective_from",
    "effective_to",
    "priority",
    "gpus_per_node",
    "gpu_share",
    "discount",
    "kind",
    "source",
)
COLUMNS = (*FIELDS, *MATCH_FIELDS)
REQUIRED = ("per", "price_per_hour")


def read_csv(open_export: Open, name: str, offers: Offers) -> None:
    """Add the prices of a CSV with a header. Raises ConfigError where the header makes no sense."""
    with open_export() as stream, TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        rows = csv.reader(text, strict=True)
        try:
            header = [column.strip() for column in next(rows, [])]
            _check(header, f"{name}:1")
            for row in rows:
                if any(row):
                    _add(header, row, f"{name}:{rows.line_num}", name, offers)
        except csv.Error as error:
            raise ConfigError(f"this is no CSV: {error}", f"{name}:{rows.line_num}") from None


def _check(header: list[str], place: str) -> None:
    unknown = [column for column in header if column not in COLUMNS]
    if unknown:
        raise ConfigError(
            f"there is no column {unknown[0][:MAX_TEXT]!r}; there may be {', '.join(COLUMNS)}", place
        )
    if len(set(header)) < len(header):
        raise ConfigError("a column is there twice", place)
    missing = [column for column in REQUIRED if column not in header]
    if missing:
        raise ConfigError(f"the column {missing[0]} is missing", place)


def _add(header: list[str], row: list[str], place: str, name: str, offers: Offers) -> None:
    if len(row) != len(header):
        offers.refuse(place, f"there are {len(row)} values for {len(header)} columns")
        return
    values = {column: value.strip() for column, value in zip(header, row, strict=True) if value.strip()}
    match: Mapping[str, str] = {column: values.pop(column) for column in MATCH_FIELDS if column in values}
    price: dict[str, Any] = {
        "id": identifier(*match.values()) or "everything",
        "source": f"{name}, line {place.rpartition(':')[2]}",
        **values,
        "match": match,
    }
    offers.add(place, price)
