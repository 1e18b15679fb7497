"""``gpuledger exporter``: the ledger for Prometheus."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuledger.contract.clock import SystemClock
from gpuledger.exporter import metrics
from gpuledger.exporter.families import Limits
from gpuledger.exporter.service import DEFAULT_INTERVAL_S, Exporter
from gpuledger.logs import write_json_lines
from gpuledger.serving import LOOPBACK, MetricsAddress, serve_metrics, stop_signals
from gpuledger.warehouse import DEFAULT_URL, connect, parse_url

DEFAULT_PORT = 9109
LIMITS = Limits()
app = typer.Typer(help="The ledger as Prometheus metrics.", add_completion=False, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Keep `run` a command of its own, as with the other services."""


@app.command(short_help="Serve the ledger as metrics until SIGTERM.")
def run(
    url: Annotated[
        str,
        typer.Option("--url", envvar="GPULEDGER_WAREHOUSE_URL", help="clickhouse://user@host:port/database"),
    ] = DEFAULT_URL,
    metrics_port: Annotated[
        int, typer.Option("--metrics-port", min=1, max=65535, help="Serve /metrics there.")
    ] = DEFAULT_PORT,
    metrics_address: MetricsAddress = LOOPBACK,
    interval: Annotated[
        float, typer.Option("--interval", min=1, max=3600, help="Seconds between two queries.")
    ] = DEFAULT_INTERVAL_S,
    max_teams: Annotated[int, typer.Option("--max-teams", min=1, help="Teams by name.")] = LIMITS.teams,
    max_pods: Annotated[int, typer.Option("--max-pods", min=1, help="Idle pods by name.")] = LIMITS.pods,
    max_budgets: Annotated[
        int, typer.Option("--max-budgets", min=1, help="Tightest budgets by name.")
    ] = LIMITS.budgets,
    max_nodes: Annotated[
        int, typer.Option("--max-nodes", min=1, help="Unobserved nodes, and devices with an XID, by name.")
    ] = LIMITS.nodes,
) -> None:
    """Serve spend, burn, idle money, evidence and completeness until SIGTERM; asked once an interval."""
    write_json_lines()
    parse_url(url)  # said at once, not at the first scrape
    limits = Limits(max_teams, max_pods, max_nodes, max_nodes, max_budgets)
    exporter = Exporter(lambda: connect(url), SystemClock(), interval, limits)
    metrics.REGISTRY.register(exporter)
    stop = stop_signals()
    serve_metrics(metrics_port, metrics_address, metrics.REGISTRY)
    exporter.run(stop)
