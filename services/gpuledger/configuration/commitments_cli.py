"""`gpuledger prices commitments`: what was committed to, and what of it was not used."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from gpuledger.bus import BusSettings
from gpuledger.configuration import commitments_metrics as metrics
from gpuledger.configuration.commitments import Commitments, Pass, keep_published
from gpuledger.configuration.reading import instant, span
from gpuledger.configuration.show import console
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.money import format_nano
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS, NS_PER_S
from gpuledger.logs import write_json_lines
from gpuledger.serving import LOOPBACK, MetricsAddress, MetricsPort, serve_metrics, stop_signals
from gpuledger.warehouse import DEFAULT_URL, parse_url

SETTLE_NS = HOUR_NS  # windows of the last hour may still come in
MAX_RANGE_NS = 35 * 24 * HOUR_NS  # as long as the ledger keeps windows
DEFAULT_BACK = "24h"
AMOUNTS = ("committed", "used", "unused", "over")


def commitments(
    since: Annotated[str | None, typer.Option("--from", help="First minute, instead of --back.")] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="End; default: the last full hour that has settled.")
    ] = None,
    back: Annotated[
        str, typer.Option("--back", help="How far back from the end: 24h, 8d; 35d at most.")
    ] = DEFAULT_BACK,
    url: Annotated[
        str, typer.Option("--url", envvar="GPULEDGER_WAREHOUSE_URL", help="The warehouse.")
    ] = DEFAULT_URL,
    publish: Annotated[
        bool, typer.Option("--publish", help="Write to the ledger what it lacks of this. Safe to repeat.")
    ] = False,
    every: Annotated[
        str | None, typer.Option("--every", help="With --publish: again each 1h, 30m, ... until SIGTERM.")
    ] = None,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how much of each commitment was used. What was not is a row of node `-`, reason commitment.

    With --publish only what the ledger lacks is written: minutes that are new, and those of which late data
    or a restatement says something else. Run it each hour, and each night with a longer --back.
    """
    parse_url(url)
    look_back_ns = span(back, "--back")
    every_ns = None if every is None else span(every, "--every")
    looker = Commitments(BusSettings.load(), url, SystemClock())
    if every_ns is None:
        found = looker.look(*_range(since, until, look_back_ns), publish)
        if not found.sums and not publish:
            raise Refused("no published price list has a commitment that holds then")
        _print(found, publish, as_json)
        return
    if not publish or since is not None or until is not None or as_json:
        raise ConfigError("goes with --publish, and not with --from, --to or --json", "--every")
    write_json_lines()
    stop = stop_signals()
    serve_metrics(metrics_port, metrics_address, metrics.REGISTRY)
    keep_published(
        lambda: looker.look(*_range(None, None, look_back_ns), publish=True),
        every_ns / NS_PER_S,
        stop,
        SystemClock(),
    )


def _range(since: str | None, until: str | None, back_ns: int) -> tuple[int, int]:
    now_ns = SystemClock().unix_ns()
    end_ns = now_ns - SETTLE_NS if until is None else instant(until, "--to")
    end_ns -= end_ns % (HOUR_NS if until is None else MINUTE_NS)
    start_ns = end_ns - back_ns if since is None else instant(since, "--from")
    start_ns -= start_ns % MINUTE_NS
    if not start_ns < end_ns <= start_ns + MAX_RANGE_NS:
        where = "--back" if since is None else "--from"
        raise ConfigError("the range must be forwards, and of 35 days at most", where)
    return start_ns, end_ns


def _print(found: Pass, publish: bool, as_json: bool) -> None:
    told = sorted(found.sums.items())
    if as_json:
        rows = [
            {"commitment": name, "currency": currency}
            | dict(zip(AMOUNTS, map(format_nano, sums), strict=True))
            for (name, currency), sums in told
        ]
        document = {"commitments": rows} | ({"published_minutes": found.published} if publish else {})
        print(json.dumps(document))
        return
    table = Table("commitment", "currency", *AMOUNTS, "used %", title="Commitments", title_justify="left")
    for (name, currency), sums in told:
        percent = f"{100 * (sums.committed - sums.unused) / sums.committed:.1f}"
        table.add_row(name, currency, *(format_nano(nano, 2) for nano in sums), percent)
    if told:
        console().print(table)
    else:
        print("No published price list has a commitment that holds then.")
    if any(sums.over for _, sums in told):
        print(
            "Over: more matches a commitment's rule than was committed to; name what it covers more narrowly."
        )
    if publish:
        print(f"Published {found.published} minutes; of {found.minutes - found.published} the ledger has it.")
