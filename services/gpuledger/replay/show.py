"""What a replay found, for people and for programs. Money for programs is whole nano-units."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from gpuledger.contract.windows import NS_PER_S
from gpuledger.replay.checking import Comparison
from gpuledger.replay.what_if import Line, differing

WIDE = 160  # of what is no terminal
NANO_DIGITS = 9


def print_comparison(found: Comparison, against: str) -> None:
    """Say how many windows differ from what ``against`` has, and which."""
    for one in found.shown:
        time = datetime.fromtimestamp(one.window_start_ns // NS_PER_S, UTC)
        print(f"{one.node.cluster}/{one.node.node} {time:%Y-%m-%dT%H:%M:%SZ}: {', '.join(one.what)}")
    said = f"{found.different} differ" if found.different else "all as they were charged"
    print(f"{found.windows} windows compared with {against}: {said}")


def comparison_as_json(found: Comparison) -> dict[str, object]:
    """The same for programs."""
    return {
        "compared": found.windows,
        "different": found.different,
        "windows": [
            {
                "cluster": one.node.cluster,
                "node": one.node.node,
                "window_start_ns": one.window_start_ns,
                "what": list(one.what),
            }
            for one in found.shown
        ],
    }


def print_lines(lines: Sequence[Line], table_name: str, rows: int) -> None:
    """Say by team what would have been, and by cause why."""
    console = Console()
    console = console if console.is_terminal else Console(width=WIDE)
    changed = differing(lines)
    if changed:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("team", overflow="fold")
        for name in ("recorded", *changed[0].causes, "what if", ""):
            table.add_column(name, justify="right" if name else "left", no_wrap=True)
        for line in changed:
            causes = [money(nano, signed=True) for nano in line.causes.values()]
            table.add_row(
                line.team, money(line.recorded.nano), *causes, money(line.what_if.nano), line.currency
            )
        console.print(table)
    else:
        print("no team would have been charged otherwise")
    print(f"{rows} rows in {table_name}")


def lines_as_json(lines: Sequence[Line]) -> list[dict[str, object]]:
    """The same for programs, with those that nothing changes for."""
    return [
        {
            "team": line.team,
            "currency": line.currency,
            "recorded_nano": line.recorded.nano,
            "what_if_nano": line.what_if.nano,
            "recorded_gpu_ns": line.recorded.gpu_ns,
            "what_if_gpu_ns": line.what_if.gpu_ns,
            "causes_nano": line.causes,
        }
        for line in lines
    ]


def money(nano: int, signed: bool = False) -> str:
    """An amount with all its digits that count, two at least."""
    sign = "-" if nano < 0 else "+" if signed and nano else ""
    units, rest = divmod(abs(nano), 10**NANO_DIGITS)
    digits = f"{rest:0{NANO_DIGITS}d}".rstrip("0").ljust(2, "0")
    return f"{sign}{units:,}.{digits}"
