"""A column of the charge row is said once, in the schema, and is then nowhere forgotten."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import resources

import numpy as np
import pytest

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.rows import Row, RowKey, write_columns
from gpuledger.contract import charge_columns as columns
from gpuledger.contract.records import ChargeSet

SQL_TYPES = {
    columns.TEXT_COLUMNS: "LowCardinality(String)",
    columns.LONG_COLUMNS: "Int64",
    columns.DOUBLE_COLUMNS: "Nullable(Float64)",
    columns.NANO_COLUMNS: "Nullable(Decimal(38, 9))",
    columns.EFFECTIVE_COLUMNS[:1]: "Nullable(Int64)",
    columns.EFFECTIVE_COLUMNS[1:]: "Nullable(Decimal(38, 9))",
}
OF_THE_WINDOW = {"cluster", "node", "window_start", "revision", "window_length_ns", "received_at"}


def ddl(name: str) -> str:
    folder = resources.files("gpuledger.warehouse") / "ddl"
    (text,) = (f.read_text() for f in folder.iterdir() if f.name.endswith(f"_{name}.sql"))
    return text


def table_columns(name: str) -> dict[str, str]:
    """Names and types, without codecs."""
    found = re.findall(r"^    (\w+) ([A-Z].*?)(?: CODEC\(.*)?,?$", ddl(name), re.MULTILINE)
    return dict(found)


def test_each_column_is_of_one_kind() -> None:
    kinds = [name for names in SQL_TYPES for name in names] + list(columns.KNOWN_COLUMNS)
    assert sorted(kinds) == sorted(columns.ROW_COLUMNS)


def test_the_record_has_the_columns_of_the_schema() -> None:
    record = {field.name for field in fields(ChargeSet) if field.type in ("Longs", "Doubles")}
    assert record - {"offset_starts", "offset_counts"} == set(columns.ROW_COLUMNS)


@pytest.mark.parametrize(("names", "sql_type"), SQL_TYPES.items())
def test_the_table_of_rows_has_each_column_in_the_type_of_its_kind(
    names: tuple[str, ...], sql_type: str
) -> None:
    stored = table_columns("charge_rows")
    assert {name: stored.get(columns.money_name(name)) for name in names} == dict.fromkeys(names, sql_type)


@pytest.mark.parametrize("name", ["charges_by_hour", "charge_hour_rows"])
def test_each_column_is_summed_by_hour(name: str) -> None:
    by_hour = set(re.findall(r"\w+", ddl(name)))
    assert set(table_columns("charge_rows")) - by_hour <= OF_THE_WINDOW


def test_the_core_writes_each_column() -> None:
    key = RowKey("GPU-0", ConsumerKey("pod", "p"), "c", "none")
    record = ChargeSet("c", "n", 0, 10, 0, 1, 0, 1)
    write_columns([(record, [Row(key), Row(key)])])
    assert {name for name in columns.ROW_COLUMNS if np.size(getattr(record, name)) != 2} == set()
