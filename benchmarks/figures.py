"""How a benchmark measures and where its figure goes.

A figure is a number earned by a script that anyone can run: it is a ratio against a named baseline
measured in the same run, it says how many runs it rests on, and how far these runs lay apart.
Nothing here asserts anything about time.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIGURES_DIR = Path("build/figures")  # beside the other build products, read by the README's check
DEFAULT_RUNS = 7  # odd, so that the median is a run that happened; enough to see the spread


@dataclass(frozen=True, slots=True)
class Runs:
    """The repeated measurements of one thing, in the unit that the benchmark chose."""

    values: tuple[float, ...]

    @property
    def n(self) -> int:
        """Number of runs."""
        return len(self.values)

    @property
    def median(self) -> float:
        """The middle run, which is the figure quoted."""
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest run."""
        return min(self.values), max(self.values)

    def rate(self, units: float) -> Runs:
        """Turn seconds a run into units a second, where every run did ``units`` of work."""
        return Runs(tuple(units / value for value in self.values))


def repeat(
    work: Callable[[], object],
    runs: int = DEFAULT_RUNS,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Runs:
    """Seconds that each of ``runs`` calls of ``work`` took, after ``warmup`` calls that do not count.

    The collector runs between the calls and rests during them, so that no run pays for another. For work
    of one thread that waits for nothing, ``clock=time.process_time`` counts the core's seconds, whatever
    else the machine does meanwhile.
    """
    for _ in range(warmup):
        work()
    seconds: list[float] = []
    enabled = gc.isenabled()
    for _ in range(runs):
        gc.collect()
        gc.disable()
        try:
            start = clock()
            work()
            seconds.append(clock() - start)
        finally:
            if enabled:
                gc.enable()
    return Runs(tuple(seconds))


def write_figure(
    name: str,
    value: float,
    unit: str,
    baseline: float | None,
    ratio: float | None,
    n: int,
    **extra: Any,
) -> Path:
    """Write ``build/figures/NAME.json`` and print the figure as one line.

    ``baseline`` is the same quantity measured on the named alternative in the same run, ``ratio`` is
    value / baseline (both None where nothing is there to compare with), ``n`` the number of runs.
    ``extra`` goes into the file as it is: median, spread, baseline_name, shape of the records.
    """
    figure: dict[str, Any] = {
        "name": name,
        "value": value,
        "unit": unit,
        "baseline": baseline,
        "ratio": ratio,
        "n": n,
        **extra,
        "machine": {
            "cpus": os.cpu_count(),
            "arch": platform.machine(),
            "python": platform.python_version(),
            "load": os.getloadavg(),  # of the last 1, 5 and 15 minutes: what else ran beside it
        },
    }
    FIGURES_DIR.mkdir(parents=True, exist_ok=True)
    path = FIGURES_DIR / f"{name}.json"
    path.write_text(json.dumps(figure, indent=2) + "\n", encoding="utf-8")
    print(describe(name, value, unit, baseline, ratio, extra.get("spread")), flush=True)
    return path


def describe(
    name: str,
    value: float,
    unit: str,
    baseline: float | None,
    ratio: float | None,
    spread: Sequence[float] | None = None,
) -> str:
    """One readable line for a figure."""
    line = f"{name:<24} {value:>14,.4g} {unit}"
    if spread is not None:
        line += f"  [{min(spread):,.4g} .. {max(spread):,.4g}]"
    if baseline is not None and ratio is not None:
        line += f"  baseline {baseline:,.4g}  ratio {ratio:,.2f}"
    return line
