"""`gpuledger config check|apply`: prices and teams from YAML."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gpuledger.bus import BusSettings
from gpuledger.configuration.plan import Applied
from gpuledger.configuration.publish import Documents
from gpuledger.configuration.reading import read_files
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.money import format_nano
from gpuledger.contract.records import PriceBookVersion, PriceEntry, TeamMapVersion, TeamRule
from gpuledger.pricing import MATCH_FIELDS
from gpuledger.pricing.check import day
from gpuledger.pricing.yaml_documents import Version
from gpuledger.pricing.yaml_values import instant_ns

app = typer.Typer(
    help="Prices and teams: documents in git, numbered versions in Kafka.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

PIPED_WIDTH = 200

Files = Annotated[list[Path], typer.Argument(help="YAML files; each holds prices or teams.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("check")
def check(files: Files, as_json: AsJson = False) -> None:
    """Say what documents hold, or every mistake with its line. A mistake is exit code 2."""
    documents = read_files(files)
    if as_json:
        print(json.dumps({"documents": [_summary(document) for document in documents]}))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)  # whole lines for whoever reads them
    for document in documents:
        console.print(_table(document))


@app.command("apply")
def apply(
    files: Files,
    active_from: Annotated[
        str | None,
        typer.Option(
            help="Instant such as 2025-07-01T00:00:00Z, at least 60 s ahead. Default: as soon as may be."
        ),
    ] = None,
    comment: Annotated[str, typer.Option(help="Why; kept with the version.")] = "",
    author: Annotated[str | None, typer.Option(help="Who; default: you.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be published.")] = False,
    as_json: AsJson = False,
) -> None:
    """Publish documents as the next version of their kind. An unchanged document publishes nothing."""
    documents = read_files(files)
    at = _instant(active_from)
    published = Documents(BusSettings.load(), SystemClock())
    who = author if author is not None else getpass.getuser()
    applied = [published.apply(document, at, who, comment, dry_run) for document in documents]
    if as_json:
        print(json.dumps({"dry_run": dry_run, "applied": [_applied(one) for one in applied]}))
        return
    for one in applied:
        print(_sentence(one, dry_run))


def _instant(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return instant_ns(text)
    except ValueError as error:
        raise ConfigError(str(error), "--active-from") from None


def _summary(document: Version) -> dict[str, Any]:
    if isinstance(document, PriceBookVersion):
        prices = [_price_line(entry) for entry in document.entries]
        return {"kind": "prices", "currency": document.currency, "prices": prices}
    rules = [{"id": rule.id, "team": rule.team, "from_label": rule.label_key} for rule in document.rules]
    return {"kind": "teams", "default_team": document.default_team, "rules": rules}


def _price_line(entry: PriceEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "per": entry.per,
        "unit_price_per_hour": format_nano(entry.unit_price_nano_per_hour),
        "currency": entry.currency,
        "match": {name: getattr(entry, name) for name in MATCH_FIELDS if getattr(entry, name)},
    }


def _table(document: PriceBookVersion | TeamMapVersion) -> Table:
    if isinstance(document, PriceBookVersion):
        table = Table(
            "id", "per", "per hour", "applies to", "from", "to", title=f"Prices in {document.currency}"
        )
        for entry in document.entries:
            price = f"{format_nano(entry.unit_price_nano_per_hour, 4)} {entry.currency}"
            since = day(entry.effective_from_ns) if entry.effective_from_ns else "the beginning"
            until = "further notice" if entry.effective_to_ns is None else day(entry.effective_to_ns)
            table.add_row(entry.id, entry.per, price, _match_text(entry), since, until)
        return table
    table = Table("id", "team", "cost centre", "priority", title="Teams")
    for rule in document.rules:
        table.add_row(rule.id, _team_text(rule), rule.cost_centre, str(rule.priority))
    rest = document.default_team or ("the namespace" if document.rules else "label team, else the namespace")
    table.add_row("(no rule)", rest, "", "")
    return table


def _match_text(entry: PriceEntry) -> str:
    texts = [f"{name}={getattr(entry, name)}" for name in MATCH_FIELDS if getattr(entry, name)]
    return " ".join(texts) or "everything"


def _team_text(rule: TeamRule) -> str:
    return rule.team or f"label {rule.label_key}"


def _applied(one: Applied) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "version": one.version.version,
        "active_from_ns": one.version.active_from_ns,
        "unchanged": one.unchanged,
    }


def _sentence(one: Applied, dry_run: bool) -> str:
    version = one.version
    if one.unchanged:
        return f"{one.kind}: unchanged, version {version.version} stays."
    since = f"from {day(version.active_from_ns)}" if version.active_from_ns else "from the beginning"
    return f"{one.kind}: version {version.version} {'would hold' if dry_run else 'holds'} {since}."
