"""`gpuledger recommend`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import ConfigError
from gpuledger.recommend.advice import Recommendation
from gpuledger.recommend.gather import gather
from gpuledger.recommend.rules import recommend as recommendations
from gpuledger.recommend.rules.slices import unknown_models
from gpuledger.recommend.settings import read_settings
from gpuledger.recommend.show import as_json, nothing, shown, without_advice
from gpuledger.spend import span_of
from gpuledger.warehouse import DEFAULT_URL, connect

PIPE_WIDTH = 10_000  # characters; a pipe folds nothing


def recommend(
    team: Annotated[str, typer.Option("--team", help="Its workloads, and the nodes that it held last.")] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="Only this cluster.")] = "",
    since: Annotated[
        str, typer.Option("--since", help="How far back the evidence goes: 24h, 7d, 4w; or an instant.")
    ] = "7d",
    until: Annotated[str | None, typer.Option("--until", help="An instant; now without it.")] = None,
    settings: Annotated[
        Path | None, typer.Option("--settings", help="YAML with limits, for everybody and by team.")
    ] = None,
    manifests: Annotated[bool, typer.Option("--manifests", help="Show the manifests.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the manifests there, a directory for each.")
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="A JSON array; money in nano-units a month.")
    ] = False,
    url: Annotated[
        str,
        typer.Option("--url", envvar="GPULEDGER_WAREHOUSE_URL", help="The warehouse."),
    ] = DEFAULT_URL,
) -> None:
    """What to do about idle GPUs: what it saves a month, what may go wrong, and the manifest to apply.

    Of several changes to one workload, node or GPU the one that saves most is shown, and it names the others.
    """
    limits = read_settings(settings)
    span = span_of(since, until, SystemClock().unix_ns())
    warehouse = connect(url)
    try:
        evidence = gather(warehouse, span, team, cluster)
    finally:
        warehouse.close()
    found = recommendations(evidence, limits)
    unknown = unknown_models(evidence)
    if out is not None:
        _write(out, found)
    if json_output:
        print(json.dumps([as_json(one) for one in found]))
        if unknown:
            Console(stderr=True, highlight=False, soft_wrap=True).print(without_advice(unknown))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(width=PIPE_WIDTH, highlight=False)
    if not found:
        console.print(nothing(evidence, limits.of(team)))
    for text in shown(found, manifests, console.width):
        console.print(text)
    if unknown:
        console.print(without_advice(unknown))


def _write(out: Path, found: list[Recommendation]) -> None:
    try:
        for number, one in enumerate(found, 1):
            if not one.manifests:
                continue
            directory = out / f"{number:03}-{one.rule.replace('_', '-')}"
            directory.mkdir(parents=True, exist_ok=True)
            for name, manifest in one.manifests.items():
                (directory / name).write_text(manifest, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", str(out)) from error
