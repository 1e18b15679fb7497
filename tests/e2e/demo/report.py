"""What the demo shows at its end: the ledger in SQL, and whether it is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.e2e.demo.warehouse import ask

BY_TEAM = """
SELECT if(consumer_kind = 'pool', '(pool)', team) AS team,
       sum(used) AS used, sum(held_idle) AS held_idle, sum(unallocated) AS unallocated,
       sum(unobserved) AS unobserved, sum(total) AS total, sum(unpriced_ns) AS unpriced_ns
FROM charges WHERE state = 'complete' GROUP BY team ORDER BY total DESC
"""
BY_POD = """
SELECT device,
       if(pod != '', namespace || '/' || pod, if(consumer_kind = 'pool', '(pool)', consumer_kind)) AS who,
       round(sum(used_ns) / {observed_ns} * 100, 1) AS used_percent,
       round(sum(confidence_low_ns) / {observed_ns} * 100, 1) AS low,
       round(sum(confidence_high_ns) / {observed_ns} * 100, 1) AS high,
       sum(used) AS used, sum(held_idle) AS held_idle, sum(unallocated) AS unallocated,
       sum(unobserved) AS unobserved, sum(total) AS total,
       sum(launches) AS launches, sum(bytes_h2d + bytes_d2h + bytes_d2d) AS bytes,
       max(memory_peak_bytes) AS memory, round(avg(sm_active) * 100, 1) AS sm_active,
       anyLast(sharing) AS sharing, anyLast(gpu_model) AS model,
       arrayStringConcat(arraySort(groupUniqArray(evidence)), ', ') AS evidence
FROM charges WHERE state = 'complete' AND device NOT IN ('node', '-')
GROUP BY device, who ORDER BY device, who = '(pool)', total DESC
"""
OBSERVED = """
SELECT intDiv(sum(total_ns), uniqExact(device)) AS ns
FROM charges WHERE state = 'complete' AND device NOT IN ('node', '-')
"""
COUNTS = """
SELECT uniqExactIf(window_start, state = 'complete') AS windows, sum(lost_events) AS lost_events
FROM charges
"""


def money(value: Any) -> str:
    """An amount as text with six decimals; a dash where nothing is priced."""
    return "-" if value is None else f"{float(value):.6f}"


def human(value: Any) -> str:
    """A number of bytes in the largest fitting binary unit."""
    number = float(value or 0)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    raise AssertionError("the last unit takes everything")


def teams_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Spend by team; where GPU time has no price a column says how much of it the money leaves out."""
    amounts = ("used", "held_idle", "unallocated", "unobserved", "total")
    unpriced = any(int(row["unpriced_ns"]) for row in rows)
    table = Table(title="Spend by team (USD, from SQL, complete windows)", title_justify="left")
    table.add_column("team")
    for name in amounts:
        table.add_column(name.replace("_", " "), justify="right")
    if unpriced:
        table.add_column("GPU-hours WITHOUT A PRICE", justify="right", style="bold red")
    for row in rows:
        missing = [f"{int(row['unpriced_ns']) / 3600e9:.4f}"] if unpriced else []
        table.add_row(row["team"], *(money(row[name]) for name in amounts), *missing)
    return table


def show_teams(console: Console, url: str) -> None:
    """Print who spent what, by team, as SQL says."""
    console.print(teams_table(ask(url, BY_TEAM)))
    console.print()


def show_devices(console: Console, url: str) -> None:
    """Print who spent what on each GPU, and how well, as SQL says."""
    rows = ask(url, BY_POD.replace("{observed_ns}", ask(url, OBSERVED)[0]["ns"]))
    spend = _table(
        "By GPU and pod (USD)", ["GPU", "who"], ["used", "held idle", "unallocated", "unobserved", "total"]
    )
    use = _table(
        "How much, how well, and how it is known",
        ["GPU", "who"],
        ["used %", "between", "launches", "copied", "memory", "SM active %", "evidence"],
    )
    for row in rows:
        gpu = f"{row['device'][4:8]} {row['sharing']}"
        amounts = (row[key] for key in ("used", "held_idle", "unallocated", "unobserved", "total"))
        spend.add_row(gpu, row["who"], *map(money, amounts))
        if row["who"] != "(pool)":
            of_gpu = " (GPU)" if row["sharing"] == "time_slicing" else ""
            use.add_row(
                gpu,
                row["who"],
                _percent(row["used_percent"]),
                f"{_percent(row['low'])}..{_percent(row['high'])}",
                str(row["launches"]),
                human(row["bytes"]),
                human(row["memory"]),
                _percent(row["sm_active"]) + of_gpu,
                row["evidence"].replace("_", " "),
            )
    console.print(spend)
    console.print(use)


def show_truth(
    console: Console,
    with_all: dict[str, tuple[float, float, float]],
    ebpf_alone: dict[str, tuple[float, float, float]],
) -> None:
    """Print attributed against true shares, with all evidence and with eBPF alone."""
    table = Table(title="Attributed against the truth (% of device time)", title_justify="left")
    for name in ("process", "true", "ledger", "worst window", "eBPF alone", "worst window"):
        table.add_column(name, justify="left" if name == "process" else "right")
    for name, (true, told, worst) in with_all.items():
        _, alone, alone_worst = ebpf_alone[name]
        table.add_row(name, *(f"{value:.1f}" for value in (true, told, worst, alone, alone_worst)))
    console.print(table)


def _table(title: str, left: list[str], right: list[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _percent(value: Any) -> str:
    return "-" if value is None else f"{float(value):.1f}"
