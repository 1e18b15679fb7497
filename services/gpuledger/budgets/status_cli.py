"""``gpuledger budget status``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.rates import Rates
from gpuledger.budgets.standing import standings
from gpuledger.budgets.standing_show import as_json, shown
from gpuledger.bus import BusSettings
from gpuledger.configuration.publish import Documents
from gpuledger.configuration.reading import read_files
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.records import BudgetsVersion, PriceBookVersion
from gpuledger.warehouse import DEFAULT_URL, connect

PIPE_WIDTH = 10_000  # characters; a pipe folds nothing


def status(
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", help="Budgets from a file, and prices for their rates; else those in Kafka."),
    ] = None,
    team: Annotated[str, typer.Option("--team", help="Only budgets of this team.")] = "",
    json_output: Annotated[bool, typer.Option("--json", help="A JSON array.")] = False,
    url: Annotated[
        str, typer.Option("--url", envvar="GPULEDGER_WAREHOUSE_URL", help="The warehouse.")
    ] = DEFAULT_URL,
) -> None:
    """How budgets stand. Spent, burn against the even pace, forecast, and how long the amount lasts.

    The sums are the ledger's; `gpuledger budgets run` tells the breaches.
    """
    now_ns = SystemClock().unix_ns()
    budgets, books = _from_files(file) if file else _published()
    plan = Catalog(budgets).plan_at(now_ns)
    if not file and not plan.version:
        raise Refused("no budgets are published that hold now; `gpuledger config apply`, or give a --file")
    rates = Rates(books[-1].rates) if books else Rates()
    warehouse = connect(url)
    try:
        found = [
            one
            for one in standings(warehouse, plan, rates, now_ns)
            if team in ("", one.meter.budget.scope.get("team"))
        ]
    finally:
        warehouse.close()
    if team and not found:
        raise Refused(f"no budget with `team: {team}` in its scope holds now")
    if json_output:
        print(json.dumps([as_json(one, now_ns) for one in found]))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_WIDTH)
    console.print(shown(found, now_ns, console.width))


def _from_files(files: Sequence[Path]) -> tuple[list[BudgetsVersion], list[PriceBookVersion]]:
    documents = read_files(files)
    budgets = [one for one in documents if isinstance(one, BudgetsVersion)]
    if not budgets:
        raise ConfigError("there is no document of kind budgets", ", ".join(map(str, files)))
    return budgets, [one for one in documents if isinstance(one, PriceBookVersion)]


def _published() -> tuple[list[BudgetsVersion], list[PriceBookVersion]]:
    documents = Documents(BusSettings.load(), SystemClock())
    budgets = [one for one in documents.versions(BudgetsVersion) if isinstance(one, BudgetsVersion)]
    books = [one for one in documents.versions(PriceBookVersion) if isinstance(one, PriceBookVersion)]
    return budgets, books
