"""What services that run until they are stopped have in common: signals, and /metrics."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer
from prometheus_client import CollectorRegistry, start_http_server

LOOPBACK = "127.0.0.1"
MetricsPort = Annotated[
    int | None, typer.Option("--metrics-port", min=1, max=65535, help="Serve /metrics there.")
]
MetricsAddress = Annotated[str, typer.Option("--metrics-address", help="Address of /metrics.")]


def serve_metrics(port: int | None, address: str, registry: CollectorRegistry) -> None:
    """Serve the metrics of ``registry`` from a thread of its own; without a port do nothing."""
    if port is not None:
        start_http_server(port, addr=address, registry=registry)


def stop_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set from now on. Call it in the main thread."""
    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return stop
