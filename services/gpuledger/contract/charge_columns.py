"""The columns of a charge row, by kind. They are said in one place: schemas/charge_set.avsc.

A column that is added there is a column of the sink's table without another word; the tests hold the tables
of the warehouse, its hourly view and the rows of the core against these names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuledger.contract.schemas import schema

_NANO = "_nano"

Spec = dict[str, Any]


def _names(chosen: Callable[[Spec], bool]) -> tuple[str, ...]:
    fields = schema("ChargeSet")["fields"]
    return tuple(f["name"] for f in fields if f.get("gpuledger.columns") == "rows" and chosen(f))


def _is_long(field: Spec) -> bool:
    return field["type"]["items"] == "long" and "gpuledger.index" not in field


ROW_COLUMNS = _names(lambda field: True)
"""All columns of a set's rows, in the order of the schema."""

KNOWN_COLUMNS = ("priced", "effective_known")
"""1 where the money, or what was effectively used, is known; in SQL those values are NULL elsewhere."""

EFFECTIVE_COLUMNS = ("effectively_used_ns", "effectively_used_nano")
"""Known only where ``effective_known`` says so."""

TEXT_COLUMNS = _names(lambda field: field.get("gpuledger.index") == "texts")
"""Indexes into the set's texts."""

DOUBLE_COLUMNS = _names(lambda field: bool(field["type"]["items"] == "double"))
"""Measured values; NaN: missing."""

NANO_COLUMNS = _names(
    lambda field: _is_long(field) and field["name"].endswith(_NANO) and field["name"] not in EFFECTIVE_COLUMNS
)
"""Money in nano-units, known where ``priced`` says so."""

LONG_COLUMNS = _names(
    lambda field: _is_long(field) and field["name"] not in (*NANO_COLUMNS, *KNOWN_COLUMNS, *EFFECTIVE_COLUMNS)
)
"""Whole numbers that are always known."""


def money_name(column: str) -> str:
    """The name of a column of nano-units in SQL, where it is a decimal in units of the currency."""
    return column.removesuffix(_NANO)
