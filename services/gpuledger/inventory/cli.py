"""``gpuledger inventory run``: the cluster's inventory in the foreground."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from gpuledger.bus import BusSettings
from gpuledger.contract.clock import NS_PER_S, SystemClock
from gpuledger.contract.errors import BadRecord, ConfigError
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.windows import DEFAULT_WINDOW_NS, WindowGrid
from gpuledger.inventory import metrics
from gpuledger.inventory.book import Book
from gpuledger.inventory.service import Inventory
from gpuledger.inventory.sources import ClusterSource, FileSource, LifeSource
from gpuledger.kube import KubeAccess, KubeClient
from gpuledger.logs import write_json_lines
from gpuledger.serving import LOOPBACK, MetricsAddress, MetricsPort, serve_metrics

app = typer.Typer(
    help="Say in gpu.nodes when each node of a cluster began and ended.",
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    """Keep `run` a command of its own, so that others can stand beside it."""


@app.command(short_help="Watch the cluster's nodes, and state their lives.")
def run(
    cluster: Annotated[str, typer.Option(help="Name of the cluster.", envvar="GPULEDGER_CLUSTER")],
    file: Annotated[
        Path | None, typer.Option(help="File with the nodes; else the API server is watched.")
    ] = None,
    kube_api: Annotated[
        str | None, typer.Option(help="API server, URL; else this pod's own cluster.")
    ] = None,
    kube_token: Annotated[Path | None, typer.Option(help="Token for --kube-api.")] = None,
    bootstrap: Annotated[str | None, typer.Option(help="Kafka, host:port,...")] = None,
    registry: Annotated[str | None, typer.Option(help="Schema registry, URL.")] = None,
    window_s: Annotated[
        int, typer.Option(help="Window length of the cluster in s, a divisor of 60.")
    ] = DEFAULT_WINDOW_NS // NS_PER_S,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
) -> None:
    """Watch the cluster's nodes until SIGTERM or SIGINT, and state their lives."""
    write_json_lines()
    try:
        NodeKey(cluster, "any").checked()
        length_ns = WindowGrid(window_s * NS_PER_S).length_ns
    except (BadRecord, ValueError) as error:
        raise ConfigError(str(error), "options") from error
    given = {"kafka_bootstrap": bootstrap, "registry_url": registry}
    bus = BusSettings.load(**{name: value for name, value in given.items() if value is not None})
    clock = SystemClock()
    source: LifeSource
    if file is not None:
        source = FileSource(file, cluster, length_ns)
    else:
        access = KubeAccess(kube_api, kube_token) if kube_api else KubeAccess.in_cluster()
        source = ClusterSource(KubeClient(access), cluster, length_ns, clock)
    inventory = Inventory(source, Book(bus, cluster), clock)

    def stop(number: int, frame: FrameType | None) -> None:
        inventory.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    serve_metrics(metrics_port, metrics_address, metrics.REGISTRY)
    inventory.run()
