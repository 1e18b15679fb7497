"""What people see at the end of the demo: how budgets stand, which lines were crossed, what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuledger.budgets.catalog import Catalog
from gpuledger.budgets.rates import Rates
from gpuledger.budgets.standing import standings
from gpuledger.bus import BusSettings
from gpuledger.configuration.publish import Documents
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.records import BudgetsVersion
from gpuledger.contract.windows import NS_PER_S
from gpuledger.warehouse import connect
from tests.e2e.demo.alerts import AlertWatch, Line
from tests.e2e.demo.services import Stack, run

STATUS = ["budget", "status"]
LIMITS = "deploy/demo/recommendations.yaml"


class Closing:
    """Asks what a person would ask once the node has ended."""

    def __init__(self, stack: Stack, launched_ns: int, ended_ns: int, width: int) -> None:
        since, until = launched_ns // NS_PER_S, -(-ended_ns // NS_PER_S)
        self.recommend = ["recommend", "--since", _instant(since), "--until", _instant(until)]
        self.recommend += ["--settings", LIMITS]
        env = {**stack.env, "FORCE_COLOR": "1", "COLUMNS": str(width)}
        pool = ThreadPoolExecutor()  # their answers are shown after what takes longer
        self._said = [pool.submit(run, command, env) for command in (STATUS, self.recommend)]
        pool.shutdown(wait=False)
        self.crossed = _crossed(stack)

    def show(self, console: Console, alerts: AlertWatch) -> None:
        """Print what the commands said, and between them when each breach was told and received. Raises
        DemoError where one failed."""
        status, recommended = (said.result() for said in self._said)
        _print(console, STATUS, status)
        console.print(_breaches(alerts))
        console.print()
        _print(console, self.recommend, recommended)
        console.print(
            "(The limits are the demo's own: with the usual ones a minute proves nothing.)\n", style="dim"
        )


def _crossed(stack: Stack) -> set[Line]:
    """The lines of budgets that the sums of the ledger are beyond."""
    clock = SystemClock()
    bus = BusSettings.load(
        kafka_bootstrap=stack.env["GPULEDGER_KAFKA_BOOTSTRAP"],
        registry_url=stack.env["GPULEDGER_REGISTRY_URL"],
    )
    budgets = Documents(bus, clock).versions(BudgetsVersion)
    catalog = Catalog(one for one in budgets if isinstance(one, BudgetsVersion))
    now_ns = clock.unix_ns()
    with contextlib.closing(connect(stack.warehouse_url)) as warehouse:
        found = standings(warehouse, catalog.plan_at(now_ns), Rates(), now_ns)
    return {
        (one.meter.budget.id, ppm)
        for one in found
        for ppm in one.meter.budget.thresholds_ppm.tolist()
        if one.spent * 1_000_000 >= ppm * one.meter.amount
    }


def _print(console: Console, command: Sequence[str], said: str) -> None:
    console.print(f"[bold]$ gpuledger {' '.join(command)}[/]", highlight=False, soft_wrap=True)
    console.print(Text.from_ansi(said.strip("\n")), soft_wrap=True)
    console.print()


def _breaches(alerts: AlertWatch) -> Table:
    table = Table(title="Breaches, from the end of the window that crossed the line", title_justify="left")
    table.add_column("line of a budget")
    for name in ("in gpu.breaches", "in Alertmanager", "largest pod"):
        table.add_column(name, justify="left" if name == "largest pod" else "right")
    for one in alerts.told:
        received_s = alerts.received.get(one.breach.id)
        table.add_row(
            one.words,
            f"{one.latency_s:.2f} s",
            "never" if received_s is None else f"{one.latency_s + received_s:.2f} s",
            next((driver.name for driver in one.breach.drivers if driver.kind == "pod"), "-"),
        )
    return table


def _instant(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
