"""Tables that fit the terminal: texts are folded, columns left out, numbers never cut."""

from __future__ import annotations

import io
from collections.abc import Collection

import pytest
from rich.console import Console
from rich.table import Table

from gpuledger.tables import fitted

LONG = "a-name-that-is-longer-than-any-terminal-should-have-to-show-in-one-line"
NUMBER = "123456789.0000"


def table(without: Collection[str]) -> Table:
    found = Table()
    for name in ("one", "two"):
        found.add_column(name, overflow="fold", min_width=16)
    names = [name for name in ("first", "second", "third") if name not in without]
    for name in names:
        found.add_column(name, no_wrap=True)
    found.add_row(LONG, LONG[:30], *(NUMBER for _ in names))
    return found


def shown(width: int) -> list[str]:
    file = io.StringIO()
    Console(width=width, file=file).print(fitted(width, table, ("third", "second")), crop=False)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 180])
def test_several_folding_columns_together_fit_the_width(width: int) -> None:
    assert max(map(len, shown(width))) <= width


@pytest.mark.parametrize(("width", "numbers"), [(60, 1), (80, 2), (100, 3), (180, 3), (30, 1)])
def test_as_many_columns_stay_as_there_is_width_for(width: int, numbers: int) -> None:
    text = "\n".join(shown(width))
    assert text.count(NUMBER) == numbers
    assert "…" not in text


def test_a_text_that_is_folded_is_there_whole() -> None:
    rows = [row.split("│") for row in shown(80) if row.startswith("│")]
    assert "".join(row[1].strip() for row in rows) == LONG


def test_a_table_that_fits_is_left_as_it_is() -> None:
    plain = io.StringIO()
    Console(width=300, file=plain).print(table(()))
    assert shown(300) == plain.getvalue().splitlines()
