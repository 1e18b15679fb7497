"""`gpuledger simulate`: a fleet with a known truth, into files or a Kafka."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from gpuledger.bus import BusSettings
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.windows import DEFAULT_WINDOW_NS, HOUR_NS, NS_PER_S
from gpuledger.pricing.yaml_values import instant_ns
from gpuledger.simulate.emit import Emitted, Files, Topics, TruthFile, emit
from gpuledger.simulate.prices import price_document
from gpuledger.simulate.spec import MAX_HOURS, FleetSpec

TRUTH, PRICES = "truth.csv", "prices.yaml"


def simulate(
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the fleet, eight a node.")] = 16,
    hours: Annotated[float, typer.Option(help="How long.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same fleet, to the byte.")] = 1,
    clusters: Annotated[int, typer.Option(min=1, help="Clusters that the nodes are dealt out to.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory for Avro files, truth.csv and prices.yaml; without it records go to Kafka."
        ),
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="Where to keep the truth. Default: truth.csv in --out.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="Where to write the fleet's prices. Default: prices.yaml in --out.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="First instant, such as 2026-12-01T00:00:00Z. Default: so that it ends now."),
    ] = None,
    window: Annotated[int, typer.Option(help="Window length in seconds.")] = DEFAULT_WINDOW_NS // NS_PER_S,
    calm: Annotated[bool, typer.Option(help="No crashes of agents and no nodes that come or go.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was sent as JSON.")] = False,
) -> None:
    """Send what the agents of a simulated fleet would send, and keep what really happened.

    Nodes, pods, sharing, crashes and activity follow from the seed alone; docs/simulate.md says which public
    traces the proportions come from.
    """
    window_ns = window * NS_PER_S
    if not 0 < hours <= MAX_HOURS:
        raise ConfigError(f"{hours} is not more than 0 and at most {MAX_HOURS}", "--hours")
    length = round(hours * HOUR_NS)
    begin = instant_from(start) if start else SystemClock().unix_ns() - length
    try:
        spec = FleetSpec(
            gpus=gpus,
            hours=hours,
            seed=seed,
            start_ns=begin - begin % window_ns if window_ns else begin,
            window_ns=window_ns,
            clusters=clusters,
        )
        if calm:
            spec = replace(spec, agent_crashes=0.0, node_ends=0.0)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        truth, prices = truth or out / TRUTH, prices or out / PRICES
    if prices is not None:
        prices.write_text(price_document(spec), encoding="utf-8")
    sent = _run(spec, out, truth)
    total = {
        "gpus": spec.gpus, "nodes": spec.nodes, "start_ns": spec.start_ns, "end_ns": spec.end_ns,
        "windows": sent.windows, "records": sent.records, "calls": sent.calls,
    }  # fmt: skip
    if as_json:
        print(json.dumps(total))
        return
    what = f"{sent.records} records with {sent.calls} calls of {spec.nodes} nodes over {sent.windows} windows"
    print(f"{what}: {f'files in {out}' if out else 'gpu.telemetry and gpu.nodes'}")


def instant_from(text: str) -> int:
    """ns since the Unix epoch. Raises ConfigError."""
    try:
        return instant_ns(text)
    except ValueError as error:
        raise ConfigError(str(error), "--start") from None


def _run(spec: FleetSpec, out: Path | None, truth: Path | None) -> Emitted:
    columns = (
        TextColumn("windows"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    with ExitStack() as stack:
        target = Files(out) if out is not None else Topics(BusSettings.load())
        stack.callback(target.close)
        kept = TruthFile(truth) if truth is not None else None
        if kept is not None:
            stack.callback(kept.close)
        shown = Progress(*columns, console=console, disable=not console.is_terminal)
        progress = stack.enter_context(shown)
        task = progress.add_task("", total=(spec.end_ns - spec.start_ns) // spec.window_ns)
        true = kept.add if kept is not None else None
        return emit(spec, target, lambda done: progress.update(task, completed=done), true)
