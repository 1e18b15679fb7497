"""``gpuledger dead-letters list|show|retry``: what was refused, why, and sending a mended copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gpuledger.bus import BusSettings
from gpuledger.contract.avro.limits import MAX_RECORD_BYTES
from gpuledger.contract.errors import EXIT_FAILED, ConfigError, Refused
from gpuledger.deadletters.book import Refusal, Wanted, name_of, place_from
from gpuledger.deadletters.reading import read_book, read_whole
from gpuledger.deadletters.retry import Retries
from gpuledger.deadletters.show import as_values, page_of, table_of, whole_values
from gpuledger.pricing.yaml_values import instant_ns
from gpuledger.processor.settings import ProcessorSettings

PIPED_WIDTH = 200  # whole lines for whoever reads them
JSON_BYTES_A_BYTE = 32  # a mended body as JSON is so much larger than as Avro, and no larger

app = typer.Typer(
    help="Records that could not be used: which, why, and sending mended copies.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; times in ns since the Unix epoch.")]
Topic = Annotated[str, typer.Option(help="Only records of this topic.")]
Reason = Annotated[str, typer.Option(help="Only those refused for this reason, such as truncated.")]
Cluster = Annotated[str, typer.Option(help="Only this cluster's.")]
OfNode = Annotated[str, typer.Option("--node", help="Only this node's.")]
Since = Annotated[str | None, typer.Option(help="Refused since then, such as 2026-11-30T12:00:00Z.")]
Until = Annotated[str | None, typer.Option(help="Refused before then.")]


@app.command("list", short_help="Every refused record: where it lay, and why.")
def list_letters(
    topic: Topic = "",
    reason: Reason = "",
    cluster: Cluster = "",
    node: OfNode = "",
    since: Since = None,
    until: Until = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only those that were not retried.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many, the newest.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Every refused record: where it lay, why it was refused, and whether it was retried."""
    wanted = _wanted(topic, reason, cluster, node, since, until, waiting)
    with Retries(BusSettings.load(), ProcessorSettings()) as retries:
        book = read_book(retries.reader, retries.registry, wanted.since_ns)
    found = [refusal for refusal in book.refusals.values() if wanted.has(refusal)]
    shown = found[-limit:]
    if as_json:
        letters = [as_values(refusal) for refusal in shown]
        print(json.dumps({"letters": letters, "found": len(found), "unreadable_letters": book.unreadable}))
        return
    console = _console()
    console.print(table_of(shown))
    if len(found) > len(shown):
        console.print(f"{len(found) - len(shown)} older ones are not shown; see --limit, --since, --reason.")
    if book.unreadable:
        console.print(f"{book.unreadable} letters can not be read themselves.")


@app.command("show", short_help="One refused record, whole.")
def show(
    record: Annotated[str, typer.Argument(help="TOPIC/PARTITION/OFFSET, as `list` has it.")],
    body: Annotated[Path | None, typer.Option(help="Write the value there, byte for byte.")] = None,
    mendable: Annotated[
        Path | None,
        typer.Option(help="Write the decoded record there as JSON, to mend it for `retry --edit`."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """One refused record, whole: reason, headers, the value in hex and decoded where it can be."""
    with Retries(BusSettings.load(), ProcessorSettings()) as retries:
        refusal = read_book(retries.reader, retries.registry).at(_place(record))
        letter = read_whole(retries.reader, retries.registry, refusal)
        if body is not None:
            body.write_bytes(letter.value or b"")
        if mendable is not None:
            _write_mendable(mendable, whole_values(refusal, letter, retries.registry))
        if as_json:
            print(json.dumps(whole_values(refusal, letter, retries.registry)))
            return
        for line in page_of(refusal, letter, retries.registry):
            Console(soft_wrap=True, highlight=False).print(line, markup=False)


@app.command("retry", short_help="Send a copy again, to the record's own topic.")
def retry(
    records: Annotated[
        list[str] | None, typer.Argument(help="TOPIC/PARTITION/OFFSET, as `list` has it.")
    ] = None,
    edit: Annotated[
        Path | None,
        typer.Option(help="The mended body of one record: JSON as `show --mendable` writes it, or a value."),
    ] = None,
    topic: Topic = "",
    reason: Reason = "",
    cluster: Cluster = "",
    node: OfNode = "",
    since: Since = None,
    until: Until = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, and send nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send a copy with the next mend number to the record's topic, which restates its window.

    Without records: all that are waiting and fit the options. A record is retried once; where its copy is
    refused too, that is another record. Exit code 1 where one could not be retried.
    """
    wanted = _wanted(topic, reason, cluster, node, since, until, waiting=True)
    if records and wanted != Wanted(waiting=True):
        raise ConfigError("name records, or say which by options, not both")
    if not records and wanted == Wanted(waiting=True):
        raise ConfigError("say which: records as `list` has them, or --reason, --node, --topic, --since")
    if edit is not None and len(records or ()) != 1:
        raise ConfigError("a mended body is that of one record: name it", where="--edit")
    with Retries(BusSettings.load(), ProcessorSettings()) as retries:
        book = read_book(retries.reader, retries.registry, wanted.since_ns)
        if records:
            chosen = [book.at(place) for place in dict.fromkeys(map(_place, records))]
        else:
            chosen = [refusal for refusal in book.refusals.values() if wanted.has(refusal)]
        if not (yes or dry_run or records):
            typer.confirm(f"Retry {len(chosen)} records?", abort=True)
        edited = None if edit is None else _read(edit)
        outcomes = [_retried(retries, refusal, edited, dry_run) for refusal in chosen]
    if as_json:
        print(json.dumps({"dry_run": dry_run, "records": outcomes}))
    else:
        for outcome in outcomes:
            Console(soft_wrap=True, highlight=False).print(_said(outcome), markup=False)
    if any(outcome["why_not"] for outcome in outcomes):
        raise typer.Exit(EXIT_FAILED)


def _retried(retries: Retries, refusal: Refusal, edited: bytes | None, dry_run: bool) -> dict[str, Any]:
    outcome: dict[str, Any] = {"record": name_of(refusal.place), "copy": None, "why_not": None}
    try:
        ready = retries.ready(refusal, edited)
        if not dry_run:
            outcome["copy"] = name_of(retries.send(ready))
    except Refused as error:
        outcome["why_not"] = str(error)
    return outcome


def _said(outcome: dict[str, Any]) -> str:
    if outcome["why_not"]:
        return f"{outcome['record']} can not be retried: {outcome['why_not']}"
    copy = outcome["copy"]
    return f"{outcome['record']} retried as {copy}" if copy else f"{outcome['record']} can be retried"


def _wanted(
    topic: str, reason: str, cluster: str, node: str, since: str | None, until: str | None, waiting: bool
) -> Wanted:
    return Wanted(
        topic, reason, cluster, node, _instant(since, "--since"), _instant(until, "--until"), waiting
    )


def _instant(text: str | None, option: str) -> int | None:
    try:
        return None if text is None else instant_ns(text)
    except ValueError as error:
        raise ConfigError(str(error), where=option) from None


def _place(text: str) -> Any:
    try:
        return place_from(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no TOPIC/PARTITION/OFFSET such as gpu.telemetry/0/17") from None


def _read(path: Path) -> bytes:
    if path.stat().st_size > JSON_BYTES_A_BYTE * MAX_RECORD_BYTES:
        raise ConfigError("too large for a record", where=str(path))
    return path.read_bytes()


def _write_mendable(path: Path, values: dict[str, Any]) -> None:
    if values["body"] is None:
        raise Refused(f"it can not be decoded: {values['not_decoded']}")
    path.write_text(json.dumps(values["body"], indent=1))


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=PIPED_WIDTH, highlight=False)
