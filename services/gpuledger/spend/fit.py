"""A table that fits the terminal: numbers are never cut, columns that matter less are left out instead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rich.console import Console, Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def fitted(width: int, make: Callable[[Collection[str]], Table], droppable: Sequence[str]) -> Table | Group:
    """The table that ``make`` makes without as few of the ``droppable`` columns as ``width`` asks for, the
    first of them first; a line says which are left out."""
    console = Console(width=width)
    for count in range(len(droppable) + 1):
        table = make(droppable[:count])
        # The measure is cut to the console's width: ask one that is wide enough for all.
        wide = console.options.update(max_width=10_000)
        if Measurement.get(console, wide, table).minimum <= width:
            break
    if not count:
        return table
    left_out = ", ".join(droppable[:count])
    return Group(table, Text(f"Left out for want of width: {left_out} (--json has all).", style="dim"))
