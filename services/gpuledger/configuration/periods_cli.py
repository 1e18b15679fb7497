"""`gpuledger period close|list`: months that finance has closed."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from typing import Annotated, Any

import typer
from rich.table import Table

from gpuledger.bus import BusSettings
from gpuledger.configuration.ledger import opened
from gpuledger.configuration.periods import Periods, plan_close
from gpuledger.configuration.show import console
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.periods import is_period
from gpuledger.contract.records import PeriodsVersion
from gpuledger.documents import whoever_calls
from gpuledger.pricing.check import day

app = typer.Typer(
    help="Months that are closed: what was booked in them stays.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="GPULEDGER_WAREHOUSE_URL", help="The warehouse, to say what is booked in the month."
    ),
]
_BOOKED = """
SELECT currency, sum(b.total), sumIf(b.total, correction = 1)
FROM bookings AS b
WHERE booking_period = {period:String} AND currency != ''
GROUP BY currency
ORDER BY currency
"""


@app.command("close", short_help="Close a month: what is booked in it stays.")
def close(
    period: Annotated[str, typer.Argument(metavar="PERIOD", help="The month (UTC), such as 2026-11.")],
    comment: Annotated[str, typer.Option(help="Why; kept with the version.")] = "",
    author: Annotated[str | None, typer.Option(help="Who; default: you.")] = None,
    url: Url = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Close without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Close a month: what is booked in it stays, and what changes of it later is a correction in the next.

    Months are closed in order, once they are over. It can not be undone.
    """
    if as_json and not yes:
        raise Refused("--json asks nobody: give --yes with it")
    if not is_period(period):  # said at once, not when Kafka has answered
        raise ConfigError(f"{period!r} is no month such as 2026-11", "PERIOD")
    periods = Periods(BusSettings.load(), SystemClock())
    who = author if author is not None else whoever_calls()
    plan_close(period, periods.versions(), SystemClock().unix_ns())
    booked = _booked(url, period)
    if not as_json:
        _print_booked(period, booked)
    if not yes:
        if not sys.stdin.isatty():
            raise Refused("nobody is there to say yes; --yes closes without asking")
        if not typer.confirm(f"Close {period}, for good?", err=True):
            raise Refused("nothing was closed")
    closed = periods.close(period, who, comment)
    if as_json:
        print(json.dumps(_as_json(closed) | {"booked": booked}))
    else:
        print(f"{period} is closed for all that is charged from {day(closed.active_from_ns)} on.")


@app.command("list", short_help="Show which months are closed, since when, by whom.")
def list_(url: Url = None, as_json: AsJson = False) -> None:
    """Show which months are closed, since when, and by whom; with --url what is booked in each."""
    versions = Periods(BusSettings.load(), SystemClock()).versions()
    found = [(one, _booked(url, one.closed_through)) for one in versions]
    if as_json:
        print(json.dumps({"periods": [_as_json(one) | {"booked": booked} for one, booked in found]}))
        return
    if not versions:
        print("No month is closed.")
        return
    table = Table("month", "closed from", "by", "why", "booked", "of it corrections")
    for one, booked in found:
        amounts = "\n".join(f"{row['total']} {row['currency']}" for row in booked or ())
        corrections = "\n".join(f"{row['corrections']} {row['currency']}" for row in booked or ())
        table.add_row(
            one.closed_through, day(one.active_from_ns), one.author, one.comment, amounts, corrections
        )
    console().print(table)


def _booked(url: str | None, period: str) -> list[dict[str, str]] | None:
    """What is booked in a month, by currency; None where no warehouse was given."""
    if not url:
        return None
    with opened(url) as warehouse:
        rows = warehouse.rows(_BOOKED, {"period": period})
    return [
        {"currency": currency, "total": _money(total), "corrections": _money(corrections)}
        for currency, total, corrections in rows
    ]


def _money(amount: Decimal | None) -> str:
    return f"{amount or Decimal(0):.9f}"


def _print_booked(period: str, booked: list[dict[str, str]] | None) -> None:
    if booked is None:
        print(f"What is booked in {period} is not known: no warehouse was given (--url).")
        return
    for row in booked:
        of_it = f", {row['corrections']} of it corrections" if Decimal(row["corrections"]) else ""
        print(f"Booked in {period}: {row['total']} {row['currency']}{of_it}.")
    if not booked:
        print(f"Nothing is booked in {period}.")


def _as_json(one: PeriodsVersion) -> dict[str, Any]:
    return {
        "version": one.version,
        "period": one.closed_through,
        "active_from_ns": one.active_from_ns,
        "author": one.author,
        "comment": one.comment,
    }
