"""`gpuledger spend`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from gpuledger.contract.clock import Clock, SystemClock
from gpuledger.contract.errors import Unavailable, UserError, in_a_line
from gpuledger.contract.windows import NS_PER_S
from gpuledger.spend.query import DIMENSIONS, Question, Spending, ask
from gpuledger.spend.show import as_json, shown
from gpuledger.spend.span import span_of
from gpuledger.warehouse import DEFAULT_URL, Warehouse, connect

PIPE_WIDTH = 10_000  # characters; a table that goes to a file or a pipe is never folded
Url = Annotated[
    str,
    typer.Option(
        "--url", envvar="GPULEDGER_WAREHOUSE_URL", help="clickhouse://user@host:port/database, or http(s)."
    ),
]


def spend(
    by: Annotated[str, typer.Option("--by", help="One of: " + ", ".join(DIMENSIONS))] = "team",
    since: Annotated[
        str, typer.Option("--since", help="How far back (30m, 24h, 7d, 4w), or an instant.")
    ] = "24h",
    until: Annotated[str | None, typer.Option("--until", help="An instant; now without it.")] = None,
    team: Annotated[str, typer.Option("--team", help="Only this team.")] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="Only this cluster.")] = "",
    most: Annotated[int, typer.Option("--top", min=1, help="Rows shown; the others are summed in one.")] = 30,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Refresh in place until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option("--every", min=1, help="Seconds between refreshes.")] = 5,
    json_output: Annotated[
        bool,
        typer.Option("--json", help="Amounts in nano-units; with --follow one line each time."),
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Who spends what: used, effectively used, held idle, unallocated, with the trend and the time before.

    Money that is missing for want of a price is said, never shown as 0.
    """
    if by not in DIMENSIONS:
        raise UserError(f"--by is one of {', '.join(DIMENSIONS)}, not {by!r}")
    if follow and until is not None:
        raise UserError("--follow goes on with time, --until ends it: leave one out")
    clock = SystemClock()

    def question(now_ns: int) -> Question:
        return Question(by, span_of(since, until, now_ns), team, cluster)

    report = _Report(connect(url), clock, question)
    try:
        if follow:
            _follow(report, clock, every, most, json_output)
        else:
            _once(report, most, json_output)
    finally:
        report.close()


class _Report:
    """Asks the same question again as time goes on."""

    def __init__(self, warehouse: Warehouse, clock: Clock, asked: Callable[[int], Question]) -> None:
        self._warehouse, self._clock, self._asked = warehouse, clock, asked

    def answer(self) -> tuple[Question, list[Spending]]:
        """The question as of now, and its answer."""
        now_ns = self._clock.unix_ns()
        question = self._asked(now_ns)
        return question, ask(self._warehouse, question, now_ns // NS_PER_S)

    def close(self) -> None:
        """Give the connection back."""
        self._warehouse.close()


def _once(report: _Report, most: int, json_output: bool) -> None:
    question, found = report.answer()
    if json_output:
        print(json.dumps(as_json(question, found)))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_WIDTH)
    console.print(shown(question, found, most, console.width))


def _follow(report: _Report, clock: Clock, every_s: float, most: int, json_output: bool) -> None:
    """Refresh until the person has seen enough; a warehouse that is away for a while is waited for."""
    if json_output:
        while True:
            print(json.dumps(as_json(*report.answer())), flush=True)
            clock.sleep(every_s)
    console = Console()
    last = shown(*report.answer(), most, console.width)
    with Live(last, auto_refresh=False, console=console) as live:
        while True:
            clock.sleep(every_s)
            try:
                last = shown(*report.answer(), most, console.width)
                live.update(last, refresh=True)
            except Unavailable as error:
                live.update(Group(last, Text(in_a_line(error), style="bold red")), refresh=True)
