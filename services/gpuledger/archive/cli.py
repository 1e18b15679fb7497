"""`gpuledger archive`: history to files, and whether it is whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from gpuledger.archive import metrics
from gpuledger.archive.compact import compact as compact_store
from gpuledger.archive.log import chain_of, identity_of, partitions_of
from gpuledger.archive.service import serve
from gpuledger.archive.store import Store, open_store
from gpuledger.archive.verify import verify as verify_store
from gpuledger.bus import BusSettings
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import EXIT_FAILED, ConfigError
from gpuledger.serving import LOOPBACK, MetricsAddress, MetricsPort, serve_metrics

app = typer.Typer(
    help="Copy every input topic to files, byte for byte, and say whether they are whole.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
Url = Annotated[
    str | None,
    typer.Argument(
        metavar="URL",
        envvar="GPULEDGER_ARCHIVE_URL",
        help="Where the archive is: a directory, s3://bucket/prefix, or another URL that fsspec reaches.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON document.")]
NS_PER_MS = 1_000_000


@app.command("run", short_help="Archive every input topic, each record exactly once.")
def run(
    url: Url = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds that a record waits to be committed.")] = 60,
    once: Annotated[bool, typer.Option(help="Archive what lies there now, and end.")] = False,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    as_json: AsJson = False,
) -> None:
    """Archive gpu.telemetry, gpu.nodes, prices, teams, budgets, generations and dead letters.

    Each record is archived exactly once, whenever this is killed: where to go on from is read from the
    archive's own manifest. Run one for an archive; a second one is refused at its first commit.
    """
    store = open_store(_given(url))
    serve_metrics(metrics_port, metrics_address, metrics.REGISTRY)
    done = serve(BusSettings.load(), store, SystemClock(), every, once)
    print(json.dumps(asdict(done)) if as_json else f"{done.records} records in {done.commits} commits")


@app.command("list", short_help="What an archive holds of each partition.")
def show(url: Url = None, as_json: AsJson = False) -> None:
    """What an archive holds of each partition: offsets, times, records, files, bytes."""
    store = _archive(url)
    rows = []
    for topic, partition in partitions_of(store):
        commits = chain_of(store, topic, partition).commits
        files = [file for commit in commits for file in commit.files]
        times = [commit for commit in commits if commit.records]
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "first": commits[0].first,
                "end": commits[-1].end,
                "from": _time(min((c.append_from_ms for c in times), default=None)),
                "to": _time(max((c.append_to_ms for c in times), default=None)),
                "records": sum(commit.records for commit in commits),
                "lost": sum(commit.end - commit.first for commit in commits if commit.lost),
                "clusters": sorted({file.cluster for file in files}),
                "commits": len(commits),
                "files": len(files),
                "bytes": sum(file.size_bytes for file in files),
            }
        )
    if as_json:
        print(json.dumps(rows))
        return
    _print_table(rows)


@app.command("verify")
def verify(url: Url = None, as_json: AsJson = False) -> None:
    """Read every byte: checksums, holes, repeats. Exit code 1 where anything is wrong."""
    store = _archive(url)
    total = sum(
        len(commit.files)
        for place in partitions_of(store)
        for commit in chain_of(store, *place).commits
    )  # fmt: skip
    with _progress(total) as told:
        verdict = verify_store(store, told)
    if as_json:
        print(json.dumps(asdict(verdict)))
    else:
        for problem in verdict.problems:
            print(problem)
        said = f"{len(verdict.problems)} problems" if verdict.problems else "whole"
        print(
            f"{verdict.records} records in {verdict.files} files of {verdict.commits} commits, "
            f"{verdict.size_bytes} bytes: {said}"
        )
        if verdict.lost:
            print(f"{verdict.lost} offsets were deleted by Kafka's retention before they were archived")
        if verdict.unnamed:
            print(f"{verdict.unnamed} files that a crash left belong to nothing; compact deletes them")
    if verdict.problems:
        raise typer.Exit(EXIT_FAILED)


@app.command("compact", short_help="Join the small files of the hours that are over.")
def compact(url: Url = None, as_json: AsJson = False) -> None:
    """Join the small files of the hours that are over, and delete what a crash left behind."""
    done = compact_store(_archive(url), SystemClock().unix_ns() // NS_PER_MS)
    line = f"{done.before} commits are now {done.after}; {done.deleted} objects deleted"
    print(json.dumps(asdict(done)) if as_json else line)


def _archive(url: str | None) -> Store:
    """The store of an archive that is there: a mistyped URL is no empty archive. Raises ConfigError."""
    store = open_store(_given(url))
    if not partitions_of(store):  # one that holds nothing yet says whose it is
        identity_of(store)
    return store


def _given(url: str | None) -> str:
    if not url:
        raise ConfigError("where is the archive? give its URL, or set GPULEDGER_ARCHIVE_URL")
    return url


def _time(unix_ms: int | None) -> str | None:
    return None if unix_ms is None else datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat()


def _print_table(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0] if rows else ():
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(", ".join(v) if isinstance(v, list) else str(v) for v in row.values()))
    Console(width=None if Console().is_terminal else 200).print(table)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    console = Console(stderr=True)
    columns = (
        TextColumn("files"), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda done: progress.update(task, completed=done)
