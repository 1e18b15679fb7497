"""`gpuledger config check|apply`: prices, teams and budgets from YAML."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from gpuledger.bus import BusSettings
from gpuledger.configuration.announcing import Announcer
from gpuledger.configuration.diff import diff
from gpuledger.configuration.foresight import foresee
from gpuledger.configuration.plan import Applied
from gpuledger.configuration.publish import Documents
from gpuledger.configuration.reading import instant, read_files
from gpuledger.configuration.show import (
    console,
    effect_as_json,
    generation_as_json,
    generation_sentence,
    print_change,
    print_document,
    print_left,
    sentence,
    summary,
)
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import Refused
from gpuledger.contract.records import BudgetsVersion, Generation
from gpuledger.documents import whoever_calls
from gpuledger.pricing.restating import Published, owed

LEFT = "announced after an interruption"  # why, of a generation that an earlier call had not come to
EXIT_WOULD_CHANGE = 4  # --dry-run: a version would be published; 0: none would

app = typer.Typer(
    help="Prices, teams and budgets: documents in git, numbered versions in Kafka.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Files = Annotated[list[Path], typer.Argument(help="YAML files; each holds prices, teams or budgets.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("check", short_help="Say what documents hold, or every mistake with its line.")
def check(files: Files, as_json: AsJson = False) -> None:
    """Say what documents hold and where they have no price, or every mistake with its line (exit code 2)."""
    documents = read_files(files)
    if as_json:
        print(json.dumps({"documents": [summary(document) for document in documents]}))
        return
    out = console()
    for document in documents:
        print_document(out, document)


@app.command("apply", short_help="Show what documents change, ask, and publish them.")
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
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            envvar="GPULEDGER_WAREHOUSE_URL",
            help="The warehouse, to say by how much the past would change, and whose.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Publish without asking.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Publish nothing. Exit code 4 where something would be, else 0."),
    ] = False,
    no_restate: Annotated[
        bool, typer.Option("--no-restate", help="Leave the past as it was charged: announce no generation.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what documents change and to what effect, ask, and publish them as the next version of their kind.

    The past that they charge otherwise is then announced as a generation, and the processors restate it. An
    unchanged document publishes nothing, and of documents with a mistake none is published.
    """
    if as_json and not (yes or dry_run):
        raise Refused("--json asks nobody: give --yes or --dry-run with it")
    documents = read_files(files)
    at = None if active_from is None else instant(active_from, "--active-from")
    published = Documents(BusSettings.load(), SystemClock())
    announcer = Announcer(BusSettings.load(), SystemClock())
    charging = any(not isinstance(document, BudgetsVersion) for document in documents)
    before = announcer.published() if charging else Published()
    who = author if author is not None else whoever_calls()
    planned = [published.apply(document, at, who, comment, dry_run=True) for document in documents]
    shown = _show(planned, before, url or None, as_json, restates=not no_restate)
    changed = any(not one.unchanged for one in planned)
    left = owed(before)  # by versions whose apply was interrupted
    if left and not as_json:
        print_left(console(), left)
    announced: list[Generation] = []
    if not dry_run:
        if changed:
            _ask(yes)
        if charging:
            announced = announcer.announce(who, LEFT)
    if changed and not dry_run:
        planned = [
            published.apply(document, at, who, comment, seen=one, restates_past=not no_restate)
            for document, one in zip(documents, planned, strict=True)
        ]
        if charging:
            announced += announcer.announce(who, comment)
    if as_json:
        applied = [_applied(one) | more for one, more in zip(planned, shown, strict=True)]
        told = [generation_as_json(one) for one in announced]
        print(json.dumps({"dry_run": dry_run, "applied": applied, "generations": told}))
    elif not dry_run:
        for one in planned:
            print(sentence(one, published=True))
        for generation in announced:
            print(generation_sentence(generation))
    if (changed or left) and dry_run:
        raise typer.Exit(EXIT_WOULD_CHANGE)


def _show(
    planned: list[Applied], before: Published, url: str | None, as_json: bool, restates: bool
) -> list[dict[str, object]]:
    """Print what would change; as JSON give it back."""
    out = console()
    found: list[dict[str, object]] = []
    for one in planned:
        if one.unchanged:
            found.append({})
            if not as_json:
                out.print(sentence(one, published=False), markup=False)
            continue
        lines = diff(one.last, one.version)
        effect = foresee(one, before.announced, url)
        found.append(
            {
                "diff": [{"sign": line.sign, "id": line.id, "what": line.what} for line in lines],
                "effect": effect_as_json(effect, asked=url is not None),
            }
        )
        if not as_json:
            print_change(out, one, lines, effect, asked=url is not None, restates=restates)
    return found


def _ask(yes: bool) -> None:
    """Raises Refused where nobody says yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused("nobody is there to say yes; --yes publishes without asking")
    if not typer.confirm("Publish?", err=True):
        raise Refused("nothing was published")


def _applied(one: Applied) -> dict[str, object]:
    return {
        "kind": one.kind,
        "version": one.version.version,
        "active_from_ns": one.version.active_from_ns,
        "unchanged": one.unchanged,
    }
