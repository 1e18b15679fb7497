"""``gpuledger agent run``: the options of a node's agent, checked; then the agent, in the foreground."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gpuledger.agent.handover import Orders, become_lean
from gpuledger.agent.holders.choose import KUBELET_SOCKET, KUBELET_URL, HolderChoice, HoldersFrom
from gpuledger.agent.node_cli import doctor, top
from gpuledger.agent.probes.loader import LoaderKind
from gpuledger.agent.probes.source import DEFAULT_TALLY_CALLS_PER_S
from gpuledger.agent.runtime import SamplerKind, SourceKind, Sources, parse_source
from gpuledger.agent.samplers.dcgm_exporter import DEFAULT_PERIOD_S
from gpuledger.agent.settings import DEFAULT_SPOOL_BYTES, AgentSettings, read_layout
from gpuledger.agent.spool.lock import LOCK_DIRECTORY
from gpuledger.agent.tetragon_cli import tetragon_policy
from gpuledger.bus import BusSettings
from gpuledger.contract.clock import NS_PER_S
from gpuledger.contract.errors import BadRecord, ConfigError
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.windows import DEFAULT_WINDOW_NS, FIRST_LAUNCH_NS, WindowGrid

app = typer.Typer(
    help="Watch a node's GPUs and send what was seen to Kafka.",
    add_completion=False,
    rich_markup_mode=None,
)
LOOPBACK = "127.0.0.1"
LAST_LAUNCH_NS = 1 << 62  # 2116; beyond it prices end
app.command()(doctor)
app.command()(top)
app.command(short_help="Print TracingPolicies for Tetragon.")(tetragon_policy)


@app.callback()
def _group() -> None:
    """Keep `run` a command of its own, so that others can stand beside it."""


@app.command()
def run(
    cluster: Annotated[str, typer.Option(help="Name of the cluster.", envvar="GPULEDGER_CLUSTER")],
    node: Annotated[str, typer.Option(help="Name of this node in it.", envvar="GPULEDGER_NODE")],
    state: Annotated[
        Path, typer.Option(help="Directory for the spool, the lock and the node's launch.")
    ] = Path("/var/lib/gpuledger"),
    locks: Annotated[
        Path, typer.Option(help="Directory that all agents of this host share.", envvar="GPULEDGER_LOCKS")
    ] = LOCK_DIRECTORY,
    bootstrap: Annotated[str | None, typer.Option(help="Kafka, host:port,...")] = None,
    registry: Annotated[str | None, typer.Option(help="Schema registry, URL.")] = None,
    source: Annotated[
        str, typer.Option(help="Where CUDA calls come from: ebpf, tetragon:FILE, simulated or none.")
    ] = SourceKind.EBPF.value,
    loader: Annotated[
        LoaderKind, typer.Option(help="How probes get into the kernel; auto prefers libbpf.")
    ] = LoaderKind.AUTO,
    tally_above: Annotated[
        int, typer.Option(min=0, help="Calls a second of a process above which the kernel adds them up.")
    ] = DEFAULT_TALLY_CALLS_PER_S,
    runtime: Annotated[
        bool, typer.Option("--runtime", help="Count calls of libcudart by name too, beside all else.")
    ] = False,
    samplers: Annotated[SamplerKind, typer.Option(help="Where measurements come from.")] = SamplerKind.NVML,
    dcgm_url: Annotated[
        str | None, typer.Option(help="dcgm-exporter to scrape too, http://HOST:9400/metrics.")
    ] = None,
    dcgm_interval_s: Annotated[
        int, typer.Option(min=1, max=60, help="How often; the exporter should collect at least as often.")
    ] = DEFAULT_PERIOD_S,
    holders: Annotated[Path | None, typer.Option(help="File that says who holds which device.")] = None,
    holders_from: Annotated[
        HoldersFrom | None, typer.Option(help="Where holders come from; a file where --holders is given.")
    ] = None,
    kubelet_socket: Annotated[Path, typer.Option(help="The kubelet's PodResources socket.")] = KUBELET_SOCKET,
    kubelet_url: Annotated[
        str, typer.Option(help="The kubelet's own API (holders from kubelet).")
    ] = KUBELET_URL,
    kubelet_ca: Annotated[
        Path | None, typer.Option(help="Authorities of the kubelet's certificate; else it is not checked.")
    ] = None,
    kube_api: Annotated[
        str | None, typer.Option(help="API server, URL; else this pod's own cluster.")
    ] = None,
    kube_token: Annotated[Path | None, typer.Option(help="Token for --kube-api or the kubelet.")] = None,
    kube_node: Annotated[
        str | None, typer.Option(help="Name of the Node object, where it is not --node.")
    ] = None,
    window_s: Annotated[
        int, typer.Option(help="Window length of the cluster in s, a divisor of 60.")
    ] = DEFAULT_WINDOW_NS // NS_PER_S,
    layout: Annotated[Path | None, typer.Option(help="File that says what this node is.")] = None,
    instance_id: Annotated[str | None, typer.Option(help="Cloud instance id.")] = None,
    instance_type: Annotated[str | None, typer.Option(help="Instance type.")] = None,
    capacity_type: Annotated[str | None, typer.Option(help="on_demand, spot, reserved or owned.")] = None,
    region: Annotated[str | None, typer.Option(help="Region.")] = None,
    zone: Annotated[str | None, typer.Option(help="Zone.")] = None,
    node_pool: Annotated[str | None, typer.Option(help="Node pool.")] = None,
    launched_ns: Annotated[
        int | None,
        typer.Option(
            min=FIRST_LAUNCH_NS,
            max=LAST_LAUNCH_NS,
            help="First paid instant, ns since 1970; else the agent's first start.",
        ),
    ] = None,
    states_lifetime: Annotated[
        bool,
        typer.Option(
            "--lifetime/--no-lifetime",
            help="Say when this node began and ended; not where the inventory runs.",
        ),
    ] = True,
    spool_bytes: Annotated[int, typer.Option(help="Bound of the spool on disk.")] = DEFAULT_SPOOL_BYTES,
    preattach: Annotated[
        list[Path] | None,
        typer.Option(help="libcuda file (--runtime: or libcudart) to probe before any process uses it."),
    ] = None,
    metrics_port: Annotated[int | None, typer.Option(min=1, max=65535, help="Serve /metrics there.")] = None,
    metrics_address: Annotated[str, typer.Option(help="Address of /metrics.")] = LOOPBACK,
    seed: Annotated[int, typer.Option(help="Of the simulated node.")] = 1,
    ends_node: Annotated[
        bool, typer.Option("--ends-node", help="The node ends when the agent is stopped: say so.")
    ] = False,
) -> None:
    """Watch this node until SIGTERM or SIGINT. What Kafka has not got then waits in the spool."""
    try:
        key = NodeKey(cluster, node).checked()
        grid = WindowGrid(window_s * NS_PER_S)
    except (BadRecord, ValueError) as error:
        raise ConfigError(str(error), "options") from error
    overrides = {
        "instance_id": instance_id,
        "instance_type": instance_type,
        "capacity_type": capacity_type,
        "region": region,
        "zone": zone,
        "node_pool": node_pool,
    }
    settings = AgentSettings(
        node=key,
        state_directory=state,
        grid=grid,
        layout=read_layout(layout, overrides),
        launched_ns=launched_ns,
        spool_bytes=spool_bytes,
        states_lifetime=states_lifetime,
        lock_directory=locks,
    )
    given = {"kafka_bootstrap": bootstrap, "registry_url": registry}
    bus = BusSettings.load(**{name: value for name, value in given.items() if value is not None})
    choice = HolderChoice(
        source=holders_from or (HoldersFrom.FILE if holders else HoldersFrom.NONE),
        file=holders,
        kubelet_socket=kubelet_socket,
        kubelet_url=kubelet_url,
        kubelet_ca=kubelet_ca,
        api_url=kube_api,
        token_file=kube_token,
        kube_node=kube_node,
    )
    kind, export = parse_source(source)
    sources = Sources(kind, samplers, choice, tuple(preattach or ()), seed, loader, export=export)
    sources = replace(sources, dcgm_url=dcgm_url, dcgm_period_ns=dcgm_interval_s * NS_PER_S)
    sources = replace(sources, tally_calls_per_s=tally_above, runtime=runtime)
    if runtime and kind is not SourceKind.EBPF:
        raise ConfigError("--runtime needs probes of the agent's own: --source ebpf", "options")
    state.mkdir(parents=True, exist_ok=True)
    orders = Orders(settings, sources, bus.plain(), metrics_port, metrics_address, ends_node)
    become_lean(orders, sys.argv[1:])
