"""What the demo's tables say."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.e2e.demo.report import teams_table
from tests.e2e.demo.warehouse import percentile

AMOUNTS = {"used": "1", "held_idle": "0", "unallocated": "0", "unobserved": "0", "total": "1"}


def shown(*rows: dict[str, object]) -> str:
    out = Console(file=io.StringIO(), width=160)
    out.print(teams_table(rows))
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_gpu_time_without_a_price_is_loud_and_its_money_is_a_dash() -> None:
    """Half an hour of team b has no price: 0.5 GPU-hours, and no 0 that looks like free."""
    priced = {"team": "a", **AMOUNTS, "unpriced_ns": "0"}
    missing = {"team": "b", **dict.fromkeys(AMOUNTS), "unpriced_ns": "1800000000000"}
    told = shown(priced, missing)
    assert "GPU-hours WITHOUT A PRICE" in told
    (line,) = (line for line in told.splitlines() if " b " in line)
    assert [cell.strip() for cell in line.strip("│").split("│")] == ["b", "-", "-", "-", "-", "-", "0.5000"]


def test_where_everything_has_a_price_there_is_no_such_column() -> None:
    assert "WITHOUT A PRICE" not in shown({"team": "a", **AMOUNTS, "unpriced_ns": "0"})


@pytest.mark.parametrize(
    ("share", "of", "told"), [(0.5, 1, 1), (0.5, 4, 2), (0.5, 5, 3), (0.99, 7, 7), (0.99, 100, 99), (0, 3, 1)]
)
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(share: float, of: int, told: int) -> None:
    assert percentile([float(n) for n in range(1, of + 1)], share) == told


def test_there_is_no_percentile_of_nothing() -> None:
    assert percentile([], 0.5) is None
