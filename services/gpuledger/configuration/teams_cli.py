"""`gpuledger teams explain`: which rule says whose a pod is, and why no other does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gpuledger.configuration.ledger import LedgerPod, pod_in_ledger
from gpuledger.configuration.reading import instant, published_or_file
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import TeamMapVersion
from gpuledger.pricing import Consumer, TeamMap
from gpuledger.pricing.check import day
from gpuledger.pricing.explain import TeamDecision, explain_team

PIPED_WIDTH = 200  # columns; whole lines for whoever reads them

app = typer.Typer(
    help="Whose a pod is, and why.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.callback()
def _story() -> None:
    """Whose a pod is, and why."""


@app.command("explain", short_help="Say which rule decides whose a pod is.")
def explain(
    pod: Annotated[str, typer.Argument(help="namespace/name; with --url also a name or a uid.")],
    cluster: Annotated[str, typer.Option(help="Cluster.")] = "",
    labels: Annotated[
        list[str] | None, typer.Option("--labels", "-l", help="key=value; several with commas, or again.")
    ] = None,
    annotations: Annotated[
        list[str] | None, typer.Option("--annotations", help="key=value, as labels.")
    ] = None,
    owner: Annotated[str, typer.Option(help="Controlling owner, such as Deployment/web.")] = "",
    node_pool: Annotated[str, typer.Option(help="Node pool.")] = "",
    kind: Annotated[str, typer.Option(help="Consumer kind: pod, host_process, pool, ...")] = "pod",
    at: Annotated[
        str | None, typer.Option(help="Instant such as 2025-07-01T00:00:00Z; default: now.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A team map; default: what is published.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", help="A warehouse; what its newest row up to then says of the pod is taken over."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which rule decides whose a pod is, which others were considered, and why they did not match."""
    at_ns = instant(at, "--at")
    found = pod_in_ledger(url, pod, cluster, at_ns) if url else None
    owner_kind, _, owner_name = (owner or (found.workload if found else "")).partition("/")
    consumer = Consumer(
        kind=found.consumer_kind if found else kind,
        cluster=found.cluster if found else cluster,
        node_pool=node_pool,
        namespace=found.namespace if found else _namespace(pod, kind),
        owner_kind=owner_kind,
        owner_name=owner_name,
        labels=pairs(labels or (), "--labels"),
        annotations=pairs(annotations or (), "--annotations"),
    )
    document, places = published_or_file(TeamMapVersion, file, at_ns)
    decision = explain_team(TeamMap(document), consumer, at_ns)
    if as_json:
        print(json.dumps(_as_json(decision, consumer, found, places)))
    else:
        _print(decision, consumer, found, places, at_ns)


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """``a=b,c=d`` as a mapping. Raises ConfigError."""
    found: dict[str, str] = {}
    for text in (part for whole in texts for part in whole.split(",") if part):
        key, sign, value = text.partition("=")
        if not key or not sign:
            raise ConfigError(f"{text!r} is no key=value", option)
        found[key] = value
    return found


def _namespace(pod: str, kind: str) -> str:
    namespace, slash, _ = pod.partition("/")
    if not slash and kind == "pod":
        raise ConfigError(f"{pod!r} has no namespace; write namespace/name, or give --url", "POD")
    return namespace if slash else ""


def _print(
    decision: TeamDecision,
    consumer: Consumer,
    found: LedgerPod | None,
    places: dict[str, str],
    at_ns: int,
) -> None:
    by = f"rule {decision.rule}, {places.get(decision.rule, '')}" if decision.rule else decision.otherwise
    centre = f", cost centre {decision.team.cost_centre}" if decision.team.cost_centre else ""
    print(f"{decision.team.team or '(nobody)'}{centre}: {by}")
    told = replace(consumer, labels={}, annotations={})
    facts = [
        f"{name} {value}"
        for name in told.__slots__
        if isinstance(value := getattr(told, name), str) and value
    ]
    facts += [f"label {key}={value}" for key, value in sorted(consumer.labels.items())]
    facts += [f"annotation {key}={value}" for key, value in sorted(consumer.annotations.items())]
    print(f"At {day(at_ns)}, knowing: {', '.join(facts)}.")
    if found:
        print(f"The ledger charged it to {found.team or '(nobody)'} in the window of {found.window_start}.")
        if not consumer.labels:
            print("The ledger keeps no labels, annotations and node pools: give those that it had.")
    table = Table("rule", "where", "would say", "why not", title="In the order in which they are asked")
    table.title_justify = "left"
    for one in decision.considered:
        table.add_row(one.id, places.get(one.id, ""), one.outcome, "; ".join(one.reasons) or "decides")
    console = Console()
    (console if console.is_terminal else Console(width=PIPED_WIDTH)).print(table)


def _as_json(
    decision: TeamDecision, consumer: Consumer, found: LedgerPod | None, places: dict[str, str]
) -> dict[str, Any]:
    return {
        "team": decision.team.team,
        "cost_centre": decision.team.cost_centre,
        "rule": decision.rule or None,
        "where": places.get(decision.rule),
        "otherwise": decision.otherwise or None,
        "ledger": None if found is None else {"team": found.team, "window_start": found.window_start},
        "consumer": {
            "kind": consumer.kind,
            "cluster": consumer.cluster,
            "node_pool": consumer.node_pool,
            "namespace": consumer.namespace,
            "owner_kind": consumer.owner_kind,
            "owner_name": consumer.owner_name,
            "labels": dict(consumer.labels),
            "annotations": dict(consumer.annotations),
        },
        "considered": [
            {"id": one.id, "where": places.get(one.id), "why_not": list(one.reasons)}
            for one in decision.considered
        ],
    }
