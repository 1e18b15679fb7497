"""An answer of ClickHouse as a table for people, or as JSON or CSV for programs."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from rich.table import Table
from rich.text import Text

MAX_TABLE_ROWS = 1_000  # what a person may scroll through; programs take --json or --csv

Answer = dict[str, Any]
"""ClickHouse's format JSONCompact: ``meta`` (names and types), ``data`` (rows)."""


def as_table(answer: Answer) -> Table:
    """A table for the terminal; numbers to the right, NULL dimmed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    numeric = [_is_number(column["type"]) for column in answer["meta"]]
    for column, right in zip(answer["meta"], numeric, strict=True):
        table.add_column(column["name"], justify="right" if right else "left", overflow="fold", no_wrap=right)
    for row in answer["data"][:MAX_TABLE_ROWS]:
        table.add_row(*map(_cell, row))
    return table


def as_json(answer: Answer) -> str:
    """One JSON array of objects. Decimals and 64-bit integers are strings, so that no digit is lost."""
    names = [column["name"] for column in answer["meta"]]
    return json.dumps([dict(zip(names, row, strict=True)) for row in answer["data"]], ensure_ascii=False)


def as_csv(answer: Answer) -> str:
    """CSV with a header line; NULL is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column["name"] for column in answer["meta"]])
    writer.writerows([_plain(value) for value in row] for row in answer["data"])
    return out.getvalue()


def _is_number(type_name: str) -> bool:
    inner = type_name.removeprefix("LowCardinality(").removeprefix("Nullable(")
    return inner.startswith(("Int", "UInt", "Float", "Decimal", "BFloat"))


def _plain(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    return Text(_plain(value))
