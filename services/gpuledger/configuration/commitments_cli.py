"""`gpuledger prices commitments`: what was committed to, and what of it was not used."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.table import Table

from gpuledger.bus import BusSettings, Outgoing, Producer, SchemaRegistry, framed
from gpuledger.configuration.ledger import minutes_of, opened
from gpuledger.configuration.publish import CLIENT_ID, Documents
from gpuledger.configuration.reading import instant
from gpuledger.configuration.show import console
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.identity import NO_NODE
from gpuledger.contract.money import format_nano
from gpuledger.contract.records import ChargeSet, PriceBookVersion
from gpuledger.contract.topics import CHARGES
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS
from gpuledger.pricing.commitments import Minute, Usage, unused_rows, usage
from gpuledger.pricing.versions import Prices
from gpuledger.warehouse import DEFAULT_URL

SETTLE_NS = HOUR_NS  # windows of the last hour may still come in
MAX_RANGE_NS = 35 * 24 * HOUR_NS  # as long as the ledger keeps windows


def commitments(
    since: Annotated[
        str | None, typer.Option("--from", help="First minute; default: 24 hours before --to.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="End; default: the last full hour that has settled.")
    ] = None,
    url: Annotated[
        str, typer.Option("--url", envvar="GPULEDGER_WAREHOUSE_URL", help="The warehouse.")
    ] = DEFAULT_URL,
    publish: Annotated[
        bool, typer.Option("--publish", help="Write what was not used to the ledger. Safe to repeat.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how much of each commitment was used. What was not is a row of node `-`, reason commitment."""
    start_ns, end_ns = _range(since, until)
    settings = BusSettings.load()
    versions = Documents(settings, SystemClock()).versions(PriceBookVersion)
    books = {one.version: one for one in versions if isinstance(one, PriceBookVersion)}
    with opened(url) as warehouse:
        minutes, charged_with = minutes_of(warehouse, start_ns, end_ns, _ids(books.values()))
    prices = Prices(books.values())
    held = [
        (books[number], minute)
        for minute in minutes
        if (number := charged_with.get(minute.start_ns) or prices.at(minute.start_ns).version) in books
    ]
    _print(held, as_json)
    if publish:
        sets = [unused_rows(book, minute) for book, minute in held if usage(book, minute)]
        _publish(settings, sets)
        if not as_json:
            print(f"Published {len(sets)} minutes.")


def _range(since: str | None, until: str | None) -> tuple[int, int]:
    now_ns = SystemClock().unix_ns()
    end_ns = now_ns - SETTLE_NS if until is None else instant(until, "--to")
    end_ns -= end_ns % (HOUR_NS if until is None else MINUTE_NS)
    start_ns = end_ns - 24 * HOUR_NS if since is None else instant(since, "--from")
    start_ns -= start_ns % MINUTE_NS
    if not start_ns < end_ns <= start_ns + MAX_RANGE_NS:
        raise ConfigError("the range must be forwards, and of 35 days at most", "--from")
    return start_ns, end_ns


def _ids(books: Iterable[PriceBookVersion]) -> list[str]:
    found = {entry.id for book in books for entry in book.entries if entry.commitment_quantity}
    if not found:
        raise Refused("no published price list has a commitment")
    return sorted(found)


def _print(held: Sequence[tuple[PriceBookVersion, Minute]], as_json: bool) -> None:
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for book, minute in held:
        for one in usage(book, minute):
            for place, nano in enumerate(_amounts(one)):
                sums[one.id, book.currency][place] += nano
    names = ("committed", "used", "unused", "over")
    if as_json:
        rows = [
            {"commitment": name, "currency": currency} | dict(zip(names, map(format_nano, sum_), strict=True))
            for (name, currency), sum_ in sorted(sums.items())
        ]
        print(json.dumps({"commitments": rows}))
        return
    table = Table("commitment", "currency", *names, "used %", title="Commitments", title_justify="left")
    for (name, currency), sum_ in sorted(sums.items()):
        percent = f"{100 * (sum_[0] - sum_[2]) / sum_[0]:.1f}"
        table.add_row(name, currency, *(format_nano(nano, 2) for nano in sum_), percent)
    console().print(table)
    if any(sum_[3] for sum_ in sums.values()):
        print(
            "Over: more matches a commitment's rule than was committed to; name what it covers more narrowly."
        )


def _amounts(one: Usage) -> tuple[int, int, int, int]:
    return one.committed_nano, one.used_nano, one.unused_nano, one.over_nano


def _publish(settings: BusSettings, sets: Sequence[ChargeSet]) -> None:
    with SchemaRegistry(settings) as registry, Producer(settings, CLIENT_ID) as producer:
        producer.produce_all([Outgoing(CHARGES, NO_NODE.key, framed(registry, one)) for one in sets])
