"""``gpuledger sql``, and ``gpuledger warehouse``: serve the embedded engine, keep the tables up to date."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gpuledger.contract.errors import UserError, WarehouseError
from gpuledger.warehouse.client import DEFAULT_URL, connect
from gpuledger.warehouse.migrations import migrate as apply_migrations
from gpuledger.warehouse.migrations import missing
from gpuledger.warehouse.queries import NAMED, Grain, period
from gpuledger.warehouse.render import MAX_TABLE_ROWS, as_csv, as_json, as_table
from gpuledger.warehouse.syntax import shortened, whole

# Every digit must survive JSON: money is decimal, revisions have 64 bits.
_EXACT = {"output_format_json_quote_64bit_integers": 1, "output_format_json_quote_decimals": 1}
HOUR_S = 3600
PIPE_WIDTH = 10_000  # characters; a table that goes to a file or a pipe is never folded
_OWN_FORMAT = re.compile(r"\bFORMAT\s+\w+\s*;?\s*$", re.IGNORECASE)

warehouse_app = typer.Typer(
    help="The ledger's tables in ClickHouse, and the embedded server.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Url = Annotated[
    str,
    typer.Option(
        "--url", envvar="GPULEDGER_WAREHOUSE_URL", help="clickhouse://user@host:port/database, or http(s)."
    ),
]


def sql(
    query: Annotated[str, typer.Argument(help="A statement; `-` reads it from standard input.")],
    url: Url = DEFAULT_URL,
    json_output: Annotated[bool, typer.Option("--json", help="Print a JSON array of objects.")] = False,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Syntax errors in ClickHouse's own words, as with --json.")
    ] = False,
) -> None:
    """Ask the ledger in SQL. Read `charges` (windows), `charges_hourly` (hours) and `bookings` (months).

    Errors carry ClickHouse's code. Exit codes: 1 the query failed, 2 wrong call, 3 no answer.
    """
    statement = sys.stdin.read() if query == "-" else query
    try:
        _print(statement, url, json_output, csv_output)
    except WarehouseError as error:
        if verbose or json_output:
            raise WarehouseError(whole(error), error.code) from error
        raise shortened(error, statement.strip()) from error


def _print(
    query: str, url: str, json_output: bool, csv_output: bool, parameters: dict[str, int] | None = None
) -> None:
    if json_output and csv_output:
        raise UserError("--json and --csv exclude each other")
    if not query.strip():
        raise UserError("the query is empty")
    warehouse = connect(url)
    try:
        body = warehouse.raw(query.strip().rstrip(";"), "JSONCompact", _EXACT, parameters or {})
    finally:
        warehouse.close()
    if not body.strip():
        return  # a statement without a result
    if _OWN_FORMAT.search(query):
        sys.stdout.buffer.write(body)
        return
    answer = json.loads(body)
    if json_output:
        typer.echo(as_json(answer))
    elif csv_output:
        typer.echo(as_csv(answer), nl=False)
    else:
        console = Console()
        if not console.is_terminal:
            console = Console(width=PIPE_WIDTH)
        console.print(as_table(answer))
        if len(answer["data"]) > MAX_TABLE_ROWS:
            Console(stderr=True).print(
                f"the first {MAX_TABLE_ROWS} of {len(answer['data'])} rows; --csv has all"
            )


@warehouse_app.command("serve")
def serve_command(
    path: Annotated[Path, typer.Option("--path", help="Folder that holds the data.")] = Path(
        "warehouse-data"
    ),
    host: Annotated[
        str, typer.Option("--host", help="Address; other than loopback needs a password.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 8123,
    user: Annotated[str, typer.Option("--user", help="The one user.")] = "default",
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", help="File with the user's password (no password without)."),
    ] = None,
) -> None:
    """Serve ClickHouse's engine over its HTTP protocol. For demo, tests and small installations.

    Prints the URL once it answers.
    """
    from gpuledger.warehouse.embedded import ServeOptions, serve  # the engine takes a second to load

    password = _password(password_file)
    serve(ServeOptions(path, host, port, user, password), lambda url: print(url, flush=True))


def _password(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        password = path.read_text("utf-8").strip()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if not password:
        raise UserError(f"{path} is empty")
    return password


@warehouse_app.command("migrate")
def migrate_command(
    url: Url = DEFAULT_URL,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be applied.")] = False,
) -> None:
    """Create or update the tables and views. Safe to repeat."""
    warehouse = connect(url, create_database=not dry_run)
    try:
        done = missing(warehouse) if dry_run else apply_migrations(warehouse)
    finally:
        warehouse.close()
    for migration in done:
        print(f"{'would apply' if dry_run else 'applied'} {migration.number:04} {migration.name}")
    if not done:
        print("Every table is as it should be.")


@warehouse_app.command("query")
def query_command(
    name: Annotated[str, typer.Argument(help="One of: " + ", ".join(NAMED))],
    hours: Annotated[int, typer.Option("--hours", min=1, help="How far back from now.")] = 24,
    grain: Annotated[str, typer.Option("--grain", help="window (35 days back) or hour.")] = "hour",
    url: Url = DEFAULT_URL,
    json_output: Annotated[bool, typer.Option("--json", help="Print a JSON array of objects.")] = False,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    show_sql: Annotated[
        bool, typer.Option("--show-sql", help="Print the statement instead of running it.")
    ] = False,
) -> None:
    """Ask a named question: who, which pod, which device, why."""
    if name not in NAMED:
        raise UserError(f"no query is named {name!r}; there are {', '.join(NAMED)}")
    if grain.upper() not in Grain.__members__:
        raise UserError(f"the grain is window or hour, not {grain!r}")
    statement = NAMED[name].sql(Grain[grain.upper()])
    if show_sql:
        print(statement)
        return
    now_s = int(time.time())
    _print(statement, url, json_output, csv_output, period(now_s - hours * HOUR_S, now_s + HOUR_S))
