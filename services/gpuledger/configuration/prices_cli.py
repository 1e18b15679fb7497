"""`gpuledger prices import|commitments|explain`: a price list from an export, and why a device costs that."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gpuledger.configuration.commitments_cli import commitments
from gpuledger.configuration.reading import instant, published_or_file
from gpuledger.contract.capacity import capacity_word
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.money import format_nano
from gpuledger.contract.records import PriceBookVersion
from gpuledger.pricing import PriceBook, PricedDevice
from gpuledger.pricing.check import day
from gpuledger.pricing.explain import PriceDecision, explain_price
from gpuledger.pricing.imports import FORMATS, BadRow, as_yaml, read_export
from gpuledger.pricing.imports.offers import Offers
from gpuledger.pricing.yaml_documents import place_of, read_prices

MAX_SHOWN_ROWS = 50  # of those that were not understood

app = typer.Typer(
    help="Price lists from the clouds' exports, and why a device costs what it costs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command("import", short_help="Make a price list from a CSV or a cloud's export.")
def import_prices(
    files: Annotated[list[Path], typer.Argument(help="The export: one file, or its pages.")],
    form: Annotated[str, typer.Option("--from", help="One of: " + ", ".join(FORMATS) + ".")],
    region: Annotated[str, typer.Option(help="Only this region, as the cloud names it.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the price list goes; default: here.")
    ] = None,
    dated: Annotated[
        bool, typer.Option("--dated", help="Each price holds only from the day that the export says.")
    ] = False,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Leave out what is not understood; it is reported all the same.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the output if it is there.")] = False,
) -> None:
    """Make a price list from a simple CSV or from an export of AWS, Azure or Google Cloud.

    Takes GPU machines (GPUs, with Google) on demand and spot. A row that is not understood is reported with
    its place; nothing is written then, unless --lenient. Exit code 2 for a file that is not of the format.
    """
    if form not in FORMATS:
        raise Refused(f"--from is one of {', '.join(FORMATS)}, not {form!r}")
    if output is not None and output.exists() and not force:
        raise Refused(f"{output} is there already; --force replaces it")
    offers = Offers(region=region)
    for path in files:
        if not path.is_file():
            raise ConfigError("is a directory" if path.is_dir() else "there is no such file", str(path))
        read_export(form, partial(_open, path), str(path), offers)
    names = ", ".join(path.name for path in files)
    text, contradictions = as_yaml(offers.offers, f"Prices from {names} ({form}). Check before use.", dated)
    bad = [*offers.bad, *contradictions]
    _report(bad, lenient)
    read_prices(text, str(output or "the price list"))
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
    said = f"{text.count('  - id: ')} prices"
    if offers.passed_over:
        said += f"; {offers.passed_over} rows are no hourly price of a GPU machine that was asked for"
    if bad:
        said += f"; {len(bad)} were left out"
    print(f"{said}.", file=sys.stderr)


def _open(path: Path) -> IO[bytes]:
    return path.open("rb")


def _report(bad: list[BadRow], lenient: bool) -> None:
    for row in bad[:MAX_SHOWN_ROWS]:
        print(f"{'left out' if lenient else 'not understood'}: {row}", file=sys.stderr)
    if len(bad) > MAX_SHOWN_ROWS:
        print(f"and {len(bad) - MAX_SHOWN_ROWS} more", file=sys.stderr)
    if bad and not lenient:
        raise Refused(f"{len(bad)} rows are not understood, nothing was written; --lenient leaves them out")


app.command("commitments")(commitments)


@app.command("explain")
def explain(
    cluster: Annotated[str, typer.Option(help="Cluster.")] = "",
    region: Annotated[str, typer.Option(help="Region.")] = "",
    zone: Annotated[str, typer.Option(help="Zone.")] = "",
    instance_type: Annotated[str, typer.Option(help="Instance type.")] = "",
    capacity_type: Annotated[
        str, typer.Option(help="on_demand, spot, reserved or owned; default: on demand.")
    ] = "",
    node_pool: Annotated[str, typer.Option(help="Node pool.")] = "",
    gpu_model: Annotated[str, typer.Option(help="GPU model, as NVML names it.")] = "",
    mig_profile: Annotated[str, typer.Option(help="MIG profile.")] = "",
    at: Annotated[
        str | None, typer.Option(help="Instant such as 2025-07-01T00:00:00Z; default: now.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A price list; default: what is published.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which price applies to a device, and why no other does."""
    capacity = capacity_word(capacity_type)
    device = PricedDevice(cluster, region, zone, instance_type, capacity, node_pool, gpu_model, mig_profile)
    at_ns = instant(at, "--at")
    document, places = published_or_file(PriceBookVersion, file, at_ns)
    book = PriceBook(document)
    decision = explain_price(book, device, at_ns)
    unit = book.pieces(device, at_ns, at_ns + 1)[0].unit_price_nano_per_hour
    if as_json:
        print(json.dumps(_as_json(decision, unit, book, places)))
        return
    entry = decision.entry
    if entry is None:
        print(f"No price at {day(at_ns)}: it is charged in GPU time, with its money missing.")
    else:
        provisional = ", provisional: the last known price" if entry.provisional else ""
        print(
            f"{entry.id}: {format_nano(unit, 6)} {book.currency} an hour per {entry.per}{provisional}"
            f"   {place_of(entry.id, places)}"
        )
    title = "What matches first, each in the order of precedence"
    table = Table("price", "where", "why not", title=title, title_justify="left")
    for considered in decision.considered:
        reasons = "; ".join(considered.reasons) or "applies"
        table.add_row(considered.id, place_of(considered.id, places), reasons)
    console = Console()
    (console if console.is_terminal else Console(width=200)).print(table)


def _as_json(decision: PriceDecision, unit: int, book: PriceBook, places: dict[str, str]) -> dict[str, Any]:
    entry = decision.entry
    return {
        "price": None if entry is None else entry.id,
        "unit_price_per_hour": None if entry is None else format_nano(unit),
        "per": None if entry is None else entry.per,
        "currency": book.currency,
        "provisional": entry is not None and entry.provisional,
        "considered": [
            {"id": one.id, "where": place_of(one.id, places), "why_not": list(one.reasons)}
            for one in decision.considered
        ],
    }
