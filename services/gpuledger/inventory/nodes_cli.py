"""``gpuledger nodes list|retire``: what is known of nodes, and the end of one that will never speak again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gpuledger.bus import BusSettings
from gpuledger.contract.clock import NS_PER_S, SystemClock
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.identity import NodeKey
from gpuledger.inventory.book import Book
from gpuledger.inventory.nodes import WITHDRAWN_NS, KnownNode, ends, known_nodes

app = typer.Typer(
    help="Nodes: what is stated and known of each, and the end of one that is gone.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; times in ns since the Unix epoch.")]


@app.command("list", short_help="Every node that was stated or has sent a record.")
def list_nodes(
    cluster: Annotated[str | None, typer.Option(help="Only this cluster.")] = None,
    open_only: Annotated[bool, typer.Option("--open", help="Only those without an end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Every node that was stated or has sent a record: its lives, its last record, how far it is charged."""
    rows = [
        row
        for node in known_nodes(BusSettings.load())
        if cluster is None or node.key.cluster == cluster
        for row in _rows(node)
        if not open_only or row["ended_ns"] is None
    ]
    if as_json:
        print(json.dumps({"nodes": rows}))
        return
    table = Table("cluster", "node", "instance", "launched", "ended", "last record", "charged through")
    for row in rows:
        times = (row["launched_ns"], row["ended_ns"], row["last_record_ns"], row["charged_through_ns"])
        table.add_row(row["cluster"], row["node"], row["instance"], *map(_time, times))
    Console().print(table)


@app.command("retire", short_help="State the end of a node that will never speak again.")
def retire(
    cluster: Annotated[str, typer.Argument(help="Cluster.")],
    node: Annotated[str, typer.Argument(help="Node.")],
    at: Annotated[
        str | None, typer.Option(help="When it ended, such as 2026-11-30T12:00:00Z; else its last record.")
    ] = None,
    instance: Annotated[str | None, typer.Option(help="Only this instance of that node.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """State the end of a node that will never speak again: nothing is charged for it from then on.

    What was charged after that end is withdrawn. An end is never taken back; a node of the same name that
    is launched later begins a life of its own.
    """
    settings = BusSettings.load()
    found = ends(known_nodes(settings), NodeKey(cluster, node), instance, _instant(at))
    now_ns = SystemClock().unix_ns()
    end_ns = found[0].ended_ns or 0
    console = Console(soft_wrap=True, highlight=False)
    if end_ns < now_ns - WITHDRAWN_NS:
        days = WITHDRAWN_NS // (86_400 * NS_PER_S)
        console.print(f"Of what was charged since, only the last {days} days are withdrawn.", markup=False)
    if not yes:
        question = f"{cluster}/{node} ended at {_time(end_ns)}. An end is never taken back. State it?"
        typer.confirm(question, abort=True)
    for life in found:
        life.stated_ns = now_ns
    Book(settings, cluster).write(found)
    for life in found:
        name = f"{cluster}/{node} {life.layout.instance_id}".rstrip()
        console.print(f"{name} ended at {_time(end_ns)}", markup=False)


def _rows(node: KnownNode) -> Iterator[dict[str, Any]]:
    known = {"last_record_ns": node.last_record_ns, "charged_through_ns": node.charged_through_ns}
    names = {"cluster": node.key.cluster, "node": node.key.node}
    for instance, life in sorted(node.lives.items()):
        lived = {"launched_ns": life.launched_ns, "ended_ns": life.ended_ns, "stated_by": life.stated_by}
        yield names | {"instance": instance} | lived | known
    if not node.lives:
        yield names | {"instance": "", "launched_ns": None, "ended_ns": None, "stated_by": ""} | known


def _time(unix_ns: int | None) -> str:
    if unix_ns is None:
        return ""
    return datetime.fromtimestamp(unix_ns // NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _instant(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no time such as 2026-11-30T12:00:00Z", where="--at") from None
    if instant.tzinfo is None:
        raise ConfigError(f"{text!r} has no time zone; Z is UTC", where="--at")
    return int(instant.timestamp() * NS_PER_S)
