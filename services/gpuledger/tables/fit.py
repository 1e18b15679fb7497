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
        least = _least_width(console, table)
        if least <= width:
            break
    else:
        table.width = least
    if not count:
        return table
    left_out = ", ".join(droppable[:count])
    return Group(table, Text(f"Left out for want of width: {left_out} (--json has all).", style="dim"))


def _least_width(console: Console, table: Table) -> int:
    """Characters of the table when only its folding columns give way; rich's own minimum would break every
    cell between its words."""
    # The measure is cut to the console's width: ask one that is wide enough for all.
    least = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    for column in table.columns:
        if not column.no_wrap:
            cells = (column.header, *column.cells, column.footer)
            longest = max(cell_len(str(cell)) for cell in cells)
            least -= max(0, longest - max(column.min_width or 1, cell_len(str(column.header))))
    return least
