"""docs/columns.md explains every column of the ledger, and every word and bit in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from gpuledger.attribution.window import WindowState
from gpuledger.contract.rows import EVIDENCE_ORDER, REASONS, Flag
from gpuledger.warehouse.migrations import load

DOCS = Path(__file__).parents[2] / "docs"
COLUMNS = (DOCS / "columns.md").read_text()
# Parts of keys that the views do not show.
HIDDEN = {"version"}


def explained() -> set[str]:
    """Names in the first cell of a table's line."""
    cells = re.findall(r"^\| ([^|]*) \|", COLUMNS, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([a-z0-9_A-Z]+)`", cell)}


def columns_of(table: str) -> set[str]:
    statement = next(m.statement for m in load() if m.name == table)
    return set(re.findall(r"^    ([a-z0-9_]+) [A-Z]", statement, re.MULTILINE))


@pytest.mark.parametrize("table", ["charge_rows", "charge_hour_rows"])
def test_every_column_is_explained(table: str) -> None:
    columns = columns_of(table)
    assert len(columns) > 50
    assert columns | {"total", "total_ns"} <= explained() | HIDDEN


def test_nothing_is_explained_that_is_not_there() -> None:
    words = {*REASONS, *get_args(WindowState), *Flag.__members__, "total", "total_ns"}
    assert explained() <= columns_of("charge_rows") | columns_of("charge_hour_rows") | words


def test_every_reason_and_every_state_is_explained() -> None:
    assert {*REASONS, *get_args(WindowState)} <= explained()


@pytest.mark.parametrize("flag", list(Flag), ids=lambda flag: str(flag.name))
def test_every_flag_is_explained_with_its_bit(flag: Flag) -> None:
    assert f"| {flag.value} | `{flag.name}` |" in COLUMNS


def test_every_evidence_is_explained() -> None:
    charging = (DOCS / "charging.md").read_text()
    assert set(re.findall(r"^\| `([a-z_]+)` \|", charging, re.MULTILINE)) >= set(EVIDENCE_ORDER)
