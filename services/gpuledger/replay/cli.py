"""`gpuledger replay`: history computed again, compared, asked about, published."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from gpuledger.attribution import Policy
from gpuledger.bus import BusSettings
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import EXIT_FAILED, Refused
from gpuledger.documents import whoever_calls
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay import asked
from gpuledger.replay.announcing import keep_plan
from gpuledger.replay.checking import compare
from gpuledger.replay.distributed import replay_distributed
from gpuledger.replay.publishing import publish as publish_replay
from gpuledger.replay.recorded import read_recorded
from gpuledger.replay.request import Request
from gpuledger.replay.running import Progress, partitions_of
from gpuledger.replay.running import replay as run_replay
from gpuledger.replay.show import comparison_as_json, lines_as_json, print_comparison, print_lines
from gpuledger.replay.warehouse_checking import compare_with_warehouse
from gpuledger.replay.what_if import TABLE, explain, recorded_amounts, write_table
from gpuledger.warehouse import DEFAULT_URL, connect


class Ledger(Enum):
    """Where the ledger is read."""

    KAFKA = "kafka"
    WAREHOUSE = "warehouse"
    BOTH = "both"


def replay(
    from_: Annotated[str, typer.Option("--from", help="First instant, such as 2026-11-01T00:00:00Z.")],
    to: Annotated[str, typer.Option("--to", help="The instant behind the last; it must be over.")],
    cluster: Annotated[str | None, typer.Option(help="One cluster only.")] = None,
    archive: Annotated[
        str | None, typer.Option(help="Read the archive at this URL, not Kafka: for what retention took.")
    ] = None,
    prices: Annotated[Path | None, typer.Option(help="Other prices than those recorded.")] = None,
    teams: Annotated[Path | None, typer.Option(help="Other team rules than those recorded.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="Another policy, such as burst=reserved_first; repeat it.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the ledger; exit code 1 where anything differs.")
    ] = False,
    against: Annotated[
        Ledger | None,
        typer.Option(
            help="What --check compares with: gpu.charges (the default), the warehouse's rows, or both."
        ),
    ] = None,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Write a table beside the ledger, and say what differs and why.")
    ] = False,
    table: Annotated[str | None, typer.Option(help=f"The table of --what-if. Default: {TABLE}.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Announce a generation, and make this the ledger.")
    ] = False,
    why: Annotated[str, typer.Option(help="Why it is published; kept with the generation.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Publish without asking.")] = False,
    url: Annotated[
        str, typer.Option("--url", envvar="GPULEDGER_WAREHOUSE_URL", help="The warehouse.")
    ] = DEFAULT_URL,
    state: Annotated[
        Path | None,
        typer.Option(help="Where it keeps what it has computed. Default: a place of its own for each call."),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="How many work at once. Default: all cores.")] = (
        os.cpu_count() or 1
    ),
    distributed: Annotated[
        bool,
        typer.Option("--distributed", help="Feed topics of its own, for workers on any number of machines."),
    ] = False,
    workers: Annotated[
        int, typer.Option(min=0, help="With --distributed: how many workers this machine starts.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON document.")] = False,
) -> None:
    """Compute the charges of a range again, from Kafka or from an archive.

    Without prices, teams or a policy it computes with what was recorded, and comes to the same bytes. A call
    that was interrupted goes on where it was when it is repeated.
    """
    modes = [name for name, on in (("--check", check), ("--what-if", what_if), ("--publish", publish)) if on]
    if len(modes) > 1:
        raise Refused(f"{' and '.join(modes)} do not go together")
    for option, given, mode in (
        ("--against", against, "--check"), ("--table", table, "--what-if"), ("--why", why, "--publish"),
        ("--yes", yes, "--publish"),
    ):  # fmt: skip
        if given and mode not in modes:
            raise Refused(f"{option} goes with {mode}")
    against, table = against or Ledger.KAFKA, table or TABLE
    if check and (prices or teams or policy):
        raise Refused("--check compares what was recorded; leave --prices, --teams and --policy out")
    if workers and not distributed:
        raise Refused("--workers goes with --distributed; without it, --processes says how many work")
    settings, bus, clock = ProcessorSettings(), BusSettings.load(), SystemClock()
    request = Request(
        asked.instant(from_, "--from"),
        asked.instant(to, "--to"),
        settings,
        bus.plain(),
        frozenset({cluster} if cluster else ()),
        archive,
        asked.prices_of(prices),
        asked.teams_of(teams),
        Policy.settings_of(policy or ()),
    )
    asked.check_range(request.from_ns, request.to_ns, clock.unix_ns(), settings.rules().silence_ns)
    directory = asked.state_directory(state, request, modes)
    if publish:
        _ask(yes, as_json)
        generations = asked.generations_of(request, directory, whoever_calls(), why, clock)
        keep_plan(directory, generations)
        request = replace(request, prices=None, teams=None, policy={}, generations=generations)
    partitions = partitions_of(request)
    reads_charges = check and against is not Ledger.WAREHOUSE
    with _bar("records") as bar:

        def told(progress: Progress) -> None:
            bar(progress.read, progress.total)

        if distributed:
            done = replay_distributed(request, directory, bus, workers, told, _say_how_to_join)
            for number in range(partitions if reads_charges else 0):
                read_recorded(request, number, directory)
        else:
            done = run_replay(request, directory, processes, told, read_recorded if reads_charges else None)
    if cluster is not None and not done.windows:
        _forget(state, directory)
        raise Refused(
            f"there is nothing of a cluster {cluster!r} in this range: is it spelt as its agents do?"
        )
    answer, failed = _outcome(request, partitions, directory, modes, against, url, table, as_json)
    if as_json:
        print(json.dumps({**asdict(done), **answer}))
    else:
        _print_done(done)
    _forget(state, directory)
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _outcome(
    request: Request,
    partitions: int,
    directory: Path,
    modes: list[str],
    against: Ledger,
    url: str,
    table: str,
    as_json: bool,
) -> tuple[dict[str, object], bool]:
    """What becomes of what was computed: (for programs, whether it failed); printed for people."""
    match modes:
        case ["--check"]:
            found = {}
            if against is not Ledger.WAREHOUSE:
                found["gpu.charges"] = compare(request, partitions, directory)
            if against is not Ledger.KAFKA:
                with closing(connect(url)) as warehouse:
                    found["the warehouse"] = compare_with_warehouse(request, partitions, directory, warehouse)
            if not as_json:
                for name, comparison in found.items():
                    print_comparison(comparison, name)
            different = any(comparison.different for comparison in found.values())
            return {"ledgers": {n: comparison_as_json(one) for n, one in found.items()}}, different
        case ["--what-if"]:
            with closing(connect(url)) as warehouse:
                lines = explain(request, partitions, directory, recorded_amounts(warehouse, request))
                rows = write_table(warehouse, table, partitions, directory, request, SystemClock().unix_ns())
            if not as_json:
                print_lines(lines, table, rows)
            return {"table": table, "rows": rows, "teams": lines_as_json(lines)}, False
        case ["--publish"]:
            with closing(connect(url)) as warehouse, _bar("hours") as told:
                hours = publish_replay(request, partitions, directory, warehouse, SystemClock(), told)
            numbers = [generation.number for generation in request.generations]
            if not as_json:
                print(f"generation {', '.join(map(str, numbers))}: {hours} hours published")
            return {"generations": numbers, "hours": hours}, False
    return {}, False


def _say_how_to_join(replay: str) -> None:
    print(f"workers join with: gpuledger replay-worker {replay}", file=sys.stderr, flush=True)


def _ask(yes: bool, as_json: bool) -> None:
    if as_json and not yes:
        raise Refused("--json asks nobody: give --yes with it")
    if not yes:
        typer.confirm("This becomes the ledger, for everybody. Publish?", abort=True)


def _forget(state: Path | None, directory: Path) -> None:
    """What nobody asked to keep."""
    if state is None:
        shutil.rmtree(directory, ignore_errors=True)


def _print_done(done: Progress) -> None:
    print(f"{done.windows} windows computed from {done.events} events")


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    columns = (
        TextColumn(what), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
