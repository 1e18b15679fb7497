"""A table that fits the terminal: numbers are never cut, columns that matter less are left out instead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rich.cells import cell_len
from rich.console import Console, Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def fitted(width: int, make: Callable[[Collection[str]], Table], droppable: Sequence[str]) -> Table | Group:
    """The table that ``make`` makes without as few of the ``droppable`` columns as ``width`` asks for, the
    first of them first; a line says which are left out.

    Where that is not enough the table is wider than ``width``: print it with ``crop=False``.
    """
    console = Console(width=width)
    for count in range(len(droppable) + 1):
        table = make(droppable[:count])
        if _fold(console, table, width):
            break
    else:
        table.width = _width(console, table)
    if not count:
        return table
    left_out = ", ".join(droppable[:count])
    return Group(table, Text(f"Left out for want of width: {left_out} (--json has all).", style="dim"))


def _fold(console: Console, table: Table, width: int) -> bool:
    """Make the folding columns of a table narrower, the widest first, none below its heading and least width,
    until it fits; whether it does then. Rich's own way would break every cell between its words, and falls
    short where several columns fold."""
    columns = [column for column in table.columns if not column.no_wrap]
    least = [max(column.min_width or 1, cell_len(str(column.header))) for column in columns]
    widths = [
        max(low, *(cell_len(str(cell)) for cell in (*column.cells, column.footer)))
        for column, low in zip(columns, least, strict=True)
    ]
    excess = _width(console, table) - width
    while excess > 0:
        room = [wide - low for wide, low in zip(widths, least, strict=True)]
        if not any(room):
            break
        widest = max(range(len(widths)), key=lambda number: (room[number] > 0, widths[number]))
        widths[widest] -= 1
        excess -= 1
    for column, wide in zip(columns, widths, strict=True):
        column.width = wide
    return excess <= 0


def _width(console: Console, table: Table) -> int:
    """Characters of the table as it is when no cell is folded that need not be. The measure is cut to the
    console's width: it is told of one that is wide enough for all."""
    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum
