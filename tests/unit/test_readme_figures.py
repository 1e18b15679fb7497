"""Every figure of the README's table is one that a benchmark prints, beside the baseline that it measures."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import table
from benchmarks.table import ROWS, Row, split

ROOT = Path(__file__).parents[2]
NUMBER = r"[\d,]+(?:\.\d+)?"


def stated() -> list[str]:
    return split((ROOT / "README.md").read_text())[1]


def plain(numbers: list[str]) -> list[str]:
    return [number.replace(",", "") for number in numbers]


def figure(**more: Any) -> dict[str, Any]:
    return {"value": 4.84e6, "baseline": 1.18e6, "ratio": 4.1, "spread": [4.91e6, 4.6e6], **more}


def test_the_rows_are_those_of_the_benchmarks_in_their_order() -> None:
    shown = [line.strip("| ").split(" | ") for line in stated()]
    assert [(cells[0], cells[4]) for cells in shown] == [(row.what, row.command) for row in ROWS]


@pytest.mark.parametrize(
    ("row", "line"), list(zip(ROWS, stated(), strict=False)), ids=lambda one: getattr(one, "what", "")
)
def test_a_row_is_as_its_benchmark_would_have_it_written(row: Row, line: str) -> None:
    numbers = iter(plain(re.findall(NUMBER, line.removeprefix(f"| {row.what} |"))))
    value, low, high = next(numbers), next(numbers), next(numbers)
    if row.median:
        spread, key = [0.0, 0.0], {row.median: float(high) * row.scale.by}  # p50 X
    else:
        spread, key = [float(low) * row.scale.by, float(high) * row.scale.by], {}
    baseline = plain(re.findall(NUMBER, line.split(" | ")[2]))[-1]
    said = re.findall(NUMBER, line.split(" | ")[3])[-1]
    ratio = 1 / float(said) if "1/" in line.split(" | ")[3] else float(said)
    made = row.cells(
        {
            "value": float(value) * row.scale.by,
            "spread": spread,
            "baseline": float(baseline) * row.beside_scale.by,
            "ratio": ratio,
            **key,
        }
    )
    assert f"| {' | '.join(made)} |" == line


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.figure)
def test_the_benchmark_is_there_and_writes_that_figure(row: Row) -> None:
    importlib.import_module(f"benchmarks.{row.module}")
    text = (ROOT / "benchmarks" / f"{row.module}.py").read_text()
    family = row.figure.rpartition("_")[0]
    assert "write_figure(" in text
    assert f'"{row.figure}"' in text or f'"{family}_{{' in text


def test_a_row_is_made_from_its_figure() -> None:
    assert ROWS[0].cells(figure()) == [
        "codec, encode an event batch",
        "4.8 M events/s (4.6 .. 4.9)",
        "fastavro on lists: 1.2 M",
        "4.1 x",
        "`python -m benchmarks.codec`",
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0142, "1/70"), (1.084, "1.08 x"), (0.7, "0.70 x"), (7.09, "7.1 x"), (158.4, "158 x")],
)
def test_a_ratio_is_short(value: float, said: str) -> None:
    assert table.ratio(value) == said


def test_only_rows_whose_benchmark_was_run_here_are_written(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text((ROOT / "README.md").read_text())
    (tmp_path / "codec_encode.json").write_text(json.dumps(figure(value=9.9e6)))
    before, old, after = split(readme.read_text())
    assert table.main(["--write"], readme, tmp_path) == 0
    new = split(readme.read_text())
    assert (new[0], new[2]) == (before, after)
    assert new[1][1:] == old[1:]
    assert "9.9 M events/s" in new[1][0]
