"""``gpuledger agent doctor`` and ``gpuledger agent top``: what an administrator asks on the node itself."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from gpuledger.agent.cgroups import CgroupPaths
from gpuledger.agent.doctor import Report, Subject, examine
from gpuledger.agent.holders.choose import KUBELET_SOCKET, HolderChoice, HoldersFrom, open_holders
from gpuledger.agent.holders.source import HolderSource
from gpuledger.agent.probes import LoaderKind, ProbeSource
from gpuledger.agent.probes.cudart_source import RuntimeSource
from gpuledger.agent.proc_reader import ProcReader
from gpuledger.agent.samplers.exporter_http import exporter_url
from gpuledger.agent.samplers.patient import PatientNvml
from gpuledger.agent.top import LiveNode
from gpuledger.agent.top.screen import render
from gpuledger.contract.clock import Clock, SystemClock
from gpuledger.contract.errors import ConfigError
from gpuledger.kube import KubeAccess, KubeClient

EXIT_MISSING = 1
PIPED_WIDTH = 200


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of lines.")] = False,
    library: Annotated[
        list[Path] | None, typer.Option(help="libcuda file to look into, besides those that are found.")
    ] = None,
    loader: Annotated[LoaderKind, typer.Option(help="How probes get into the kernel.")] = LoaderKind.AUTO,
    kubelet_socket: Annotated[Path, typer.Option(help="The kubelet's PodResources socket.")] = KUBELET_SOCKET,
    dcgm_url: Annotated[str | None, typer.Option(help="dcgm-exporter that the agent shall scrape.")] = None,
    kube_api: Annotated[
        str | None, typer.Option(help="API server to ask, URL; else this pod's own cluster.")
    ] = None,
    kube_token: Annotated[Path | None, typer.Option(help="Token for --kube-api or --kubelet-url.")] = None,
    kubelet_url: Annotated[
        str | None, typer.Option(help="The kubelet's own API, for --holders-from kubelet.")
    ] = None,
    load: Annotated[bool, typer.Option(help="Load the probes for a moment, attached to nothing.")] = True,
) -> None:
    """Say what this node can do and what is missing. Exit code 1 where something required is missing."""
    if dcgm_url is not None:
        exporter_url(dcgm_url)
    api = None if kube_api is None else KubeAccess(kube_api, kube_token)
    kubelet = None if kubelet_url is None else KubeAccess(kubelet_url, kube_token, verify=False)
    for access in (api, kubelet):
        if access is not None:
            KubeClient(access).close()  # an address that is none is a mistake of the call
    subject = Subject(loader, tuple(library or ()), kubelet_socket, dcgm_url, load, api, kubelet)
    report = examine(subject, SystemClock())
    if as_json:
        typer.echo(json.dumps(report.plain(), indent=2))
    else:
        _print(report)
    raise typer.Exit(0 if report.ok else EXIT_MISSING)


def _print(report: Report) -> None:
    console = Console(highlight=False, soft_wrap=True)
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        style = "green" if check.ok else "bold red" if check.required else "yellow"
        word = "ok" if check.ok else "missing"
        console.print(f"{word:8}", style=style, end="")
        console.print(f"{check.name:{width}}  {check.detail}", markup=False)
        if not check.ok and check.remedy:
            needed = "" if check.required else " (not required)"
            console.print(f"{'':8}{'':{width}}  -> {check.remedy}{needed}", markup=False)
    console.print(_verdict(report), style="green" if report.ok else "bold red", markup=False)


def _verdict(report: Report) -> str:
    """All in a line, for who reads no other."""
    lacking = dict.fromkeys(check.name for check in report.checks if check.required and not check.ok)
    also = sum(not check.ok and not check.required for check in report.checks)
    told = f"required and missing: {', '.join(lacking)}" if lacking else "all that is required is there"
    return f"{told}; missing and not required: {also}" if also else told


def top(
    interval_s: Annotated[float, typer.Option(min=0.2, max=3600, help="Length of an interval.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One interval, then end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON for each interval.")] = False,
    holders: Annotated[Path | None, typer.Option(help="File that names the pods (as for run).")] = None,
    holders_from: Annotated[
        HoldersFrom | None,
        typer.Option(help="Where names of pods come from; a file where --holders is given."),
    ] = None,
    node: Annotated[
        str, typer.Option(help="Name of the Node object (names from kubernetes).", envvar="GPULEDGER_NODE")
    ] = "",
    library: Annotated[
        list[Path] | None, typer.Option(help="libcuda file to probe before any process uses it.")
    ] = None,
    loader: Annotated[LoaderKind, typer.Option(help="How probes get into the kernel.")] = LoaderKind.AUTO,
    runtime: Annotated[bool, typer.Option("--runtime", help="Count calls of libcudart by name too.")] = False,
) -> None:
    """Show what each pod does on this node's GPUs now. Launches, copies, memory, busy share."""
    clock = SystemClock()
    choice = HolderChoice(holders_from or (HoldersFrom.FILE if holders else HoldersFrom.NONE), holders)
    try:
        with contextlib.ExitStack() as stack:
            names = names_from(stack, choice, node, clock)
            source = RuntimeSource(loader=loader) if runtime else ProbeSource(loader=loader)
            reader = ProcReader(CgroupPaths(gone=source.gone_cgroups))
            live = LiveNode(clock, source, reader, names, PatientNvml(), tuple(library or ()))
            if isinstance(source, RuntimeSource):
                live.runtime_calls = source.runtime_calls
            _show(stack.enter_context(live), interval_s, once, as_json)
    except FileNotFoundError as error:
        raise ConfigError(error.strerror or "can not be read", str(error.filename)) from error
    except KeyboardInterrupt:
        return  # how one leaves it


def names_from(stack: contextlib.ExitStack, choice: HolderChoice, node: str, clock: Clock) -> HolderSource:
    """Where names of pods come from; says so where it has none."""
    names = open_holders(stack, choice, node, clock)
    if names.read() is None and names.problem:
        _warn(f"without names of pods: {names.problem}")
    return names


def _warn(text: str) -> None:
    Console(stderr=True, soft_wrap=True).print(text, style="yellow", markup=False)


def _show(node: LiveNode, interval_s: float, once: bool, as_json: bool) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)  # whole names for whoever reads them
    if as_json or once or not console.is_terminal:
        while True:
            snapshot = node.snapshot(interval_s)
            if as_json:
                typer.echo(json.dumps(snapshot.plain()))
            else:
                console.print(render(snapshot))
            if once:
                return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(render(node.snapshot(interval_s)), refresh=True)
