"""The README's table of figures, from what the benchmarks have written to build/figures.

    python -m benchmarks.table            # prints it
    python -m benchmarks.table --write    # puts it into the README

A row whose benchmark has not been run here stays as the README has it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import FIGURES_DIR

README = Path(__file__).parents[1] / "README.md"
HEAD = "| what | figure (spread) | beside it, in the same run | ratio | printed by |"
RULE = "|---|---|---|---|---|"
FEW = 0.1  # a smaller ratio is said as a fraction
NEAR = 2.0  # up to here a ratio has two decimals


@dataclass(frozen=True)
class Scale:
    """How a number is written: divided by ``by``, with ``decimals``, and ``unit`` behind it."""

    by: float
    decimals: int
    unit: str

    def number(self, value: float) -> str:
        """Without its unit."""
        return f"{value / self.by:,.{self.decimals}f}"

    def text(self, value: float) -> str:
        """With its unit."""
        return f"{self.number(value)} {self.unit}"


@dataclass(frozen=True)
class Row:
    """A figure of ``benchmarks.MODULE``, and the baseline of the same run in words."""

    what: str
    module: str
    figure: str
    scale: Scale
    beside: str
    beside_scale: Scale
    median: str = ""
    """Key of the figure's median, where the value is another percentile: said in place of the spread."""

    @property
    def command(self) -> str:
        """What prints it."""
        return f"`python -m benchmarks.{self.module}`"

    def cells(self, figure: dict[str, Any]) -> list[str]:
        """The row of one figure as its benchmark wrote it."""
        if self.median:
            spread = f"p50 {self.scale.number(figure[self.median])}"
        else:
            spread = " .. ".join(self.scale.number(end) for end in sorted(figure["spread"]))
        return [
            self.what,
            f"{self.scale.text(figure['value'])} ({spread})",
            f"{self.beside}: {self.beside_scale.text(figure['baseline'])}",
            ratio(figure["ratio"]),
            self.command,
        ]


def ratio(value: float) -> str:
    """4.1 x, 158 x, 1.08 x; below a tenth as 1/71."""
    if value < FEW:
        return f"1/{1 / value:.0f}"
    return f"{value:.{2 if value < NEAR else 1 if value < 10 else 0}f} x"


RATE = Scale(1e6, 1, "M events/s")
MEMORY = Scale(1, 1, "MiB")
ROWS = (
    Row(
        "codec, encode an event batch", "codec", "codec_encode", RATE, "fastavro on lists", Scale(1e6, 1, "M")
    ),
    Row(
        "codec, decode an event batch", "codec", "codec_decode", RATE, "fastavro to lists", Scale(1e6, 1, "M")
    ),
    Row(
        "attribution core",
        "attribution",
        "attribution",
        RATE,
        "a plain Python loop over the events",
        Scale(1e6, 1, "M"),
    ),
    Row(
        "Faust worker, Kafka to charges, whole attribution",
        "processor",
        "processor",
        Scale(1e6, 2, "M events/s"),
        "a plain Faust agent, one record an event",
        Scale(1e3, 0, "k"),
    ),
    Row(
        "sink, rows to the embedded server over HTTP",
        "sink",
        "sink",
        Scale(1e3, 0, "k rows/s"),
        "the driver's insert of Python rows",
        Scale(1e3, 0, "k"),
    ),
    Row(
        "sink, decoding the charges it reads",
        "sink",
        "sink_decode",
        Scale(1e3, 0, "k rows/s"),
        "one record at a time",
        Scale(1e3, 0, "k"),
    ),
    Row(
        "breach of a budget after its window's end, 10,000 GPUs and 1,000 budgets, p99",
        "budgets",
        "budgets",
        Scale(1, 1, "s"),
        "the window's last charge in Kafka",
        Scale(1, 2, "s"),
        median="p50_s",
    ),
    Row(
        "ring drain",
        "ring_drain",
        "ring_drain",
        Scale(1, 0, "ns/event"),
        "bcc's callback an event",
        Scale(1, 0, "ns"),
    ),
    Row(
        "a probe's own work (ratio: the whole call)",
        "probe_cost",
        "probe_cost",
        Scale(1e3, 2, "us/call"),
        "an empty probe",
        Scale(1e3, 1, "us"),
    ),
    Row(
        "agent's resident memory, libbpf, nothing but probes",
        "agent_memory",
        "agent_memory",
        MEMORY,
        "the same with probes compiled by bcc",
        MEMORY,
    ),
)


def split(text: str) -> tuple[str, list[str], str]:
    """(what is before the README's rows, the rows, what is behind them). Raises ValueError without one."""
    before, head, rest = text.partition(f"{HEAD}\n{RULE}\n")
    if not head:
        raise ValueError(f"there is no line {HEAD!r}")
    lines = re.match(r"(?:\|.*\n)*", rest)
    assert lines
    return before + head, lines[0].splitlines(), rest[lines.end() :]


def rows(stated: list[str], figures: Path = FIGURES_DIR) -> Iterator[str]:
    """Each row: from its figure where there is one, else as stated."""
    known = {line.split(" | ")[0].removeprefix("| "): line for line in stated}
    for row in ROWS:
        path = figures / f"{row.figure}.json"
        if path.is_file():
            yield f"| {' | '.join(row.cells(json.loads(path.read_text())))} |"
        elif row.what in known:
            yield known[row.what]


def main(arguments: list[str], readme: Path = README, figures: Path = FIGURES_DIR) -> int:
    """Print the table, or write it."""
    before, stated, after = split(readme.read_text())
    made = list(rows(stated, figures))
    if "--write" in arguments:
        readme.write_text(before + "".join(f"{line}\n" for line in made) + after)
    else:
        print("\n".join([HEAD, RULE, *made]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
