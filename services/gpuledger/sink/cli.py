"""``gpuledger sink``: gpu.charges to ClickHouse."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuledger.bus import BusSettings
from gpuledger.logs import write_json_lines
from gpuledger.serving import LOOPBACK, MetricsAddress, MetricsPort, serve_metrics, stop_signals
from gpuledger.sink import metrics
from gpuledger.sink.breaches import Beside, follow
from gpuledger.sink.service import GROUP, SESSION_TIMEOUT_S, SinkOptions, open_warehouse, run
from gpuledger.warehouse.client import DEFAULT_URL, parse_url


def sink(
    url: Annotated[
        str,
        typer.Option("--url", envvar="GPULEDGER_WAREHOUSE_URL", help="clickhouse://user@host:port/database"),
    ] = DEFAULT_URL,
    group: Annotated[str, typer.Option("--group", help="Consumer group; one for each warehouse.")] = GROUP,
    session_timeout: Annotated[
        float,
        typer.Option(
            "--session-timeout", min=1, max=3600, help="Seconds until a dead member's work goes to another."
        ),
    ] = SESSION_TIMEOUT_S,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="First bring the warehouse's tables up to date.")
    ] = False,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
) -> None:
    """Write charge sets and breaches to ClickHouse until SIGTERM. Every set is seen whole or not at all."""
    write_json_lines()
    parse_url(url)  # said at once, not when the first batch is due
    options = SinkOptions(
        bus=BusSettings.load(),
        warehouse_url=url,
        group=group,
        session_timeout_s=session_timeout,
        migrate=migrate,
    )
    serve_metrics(metrics_port, metrics_address, metrics.REGISTRY)
    stop = stop_signals()

    def breaches() -> None:
        follow(options.bus, f"{group}-breaches", session_timeout, lambda: open_warehouse(options), stop)

    beside = Beside(breaches, stop)
    try:
        run(options, stop=stop)
    finally:
        beside.close()
