"""The rows of all windows of a pass into their sets: those made abreast, and those made one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpuledger.attribution.abreast.claims import Claims, Columns
from gpuledger.attribution.abreast.divided import Costs
from gpuledger.attribution.abreast.table import Table
from gpuledger.attribution.gather import Prepared
from gpuledger.attribution.rows import Row, RowKey, TextTable, lay, numbers_of, text_table, texts_of
from gpuledger.attribution.settle import Ledger
from gpuledger.contract.columns import Longs
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.rows import EVIDENCE_ORDER

MAX_TABLES = 32  # that a frame keeps: rows come and go with who is at work
MAX_TEXTS = 512  # of rows that a frame keeps: some ten a device


class Abreast(NamedTuple):
    """The rows that a pass made abreast; ``bounds`` are those of each window of the table."""

    table: Table
    claims: Claims
    costs: Costs
    bounds: Longs

    def rows_of(self, number: int) -> slice:
        """The rows of a window of the table."""
        return slice(int(self.bounds[number]), int(self.bounds[number + 1]))


def abreast_of(table: Table, claims: Claims, costs: Costs) -> Abreast:
    """The rows with their bounds by window."""
    return Abreast(table, claims, costs, np.searchsorted(claims.claim, table.first_claim))


def write(
    sets: Sequence[ChargeSet],
    ready: Sequence[Prepared],
    ledgers: Sequence[Ledger],
    rows: Sequence[Sequence[Row]],
    abreast: Abreast | None,
) -> None:
    """Fill the sets of a pass; ``rows`` are those of each window that were made one by one, in order."""
    single = [row for chosen in rows for row in chosen]
    numbers = numbers_of(single)
    if abreast is None:
        lay(sets, numbers, [text_table([texts_of(row) for row in chosen]) for chosen in rows])
        return
    number_of = {index: number for number, index in enumerate(abreast.table.windows)}
    tables: list[TextTable] = []
    order: list[Longs] = []
    first = len(abreast.claims.claim)  # where the single rows of the next window begin, behind all others
    for index, chosen in enumerate(rows):
        place = np.arange(first, first + len(chosen))
        first += len(chosen)
        number = number_of.get(index)
        if number is None:
            tables.append(text_table([texts_of(row) for row in chosen]))
            order.append(place)
            continue
        part = abreast.rows_of(number)
        made = np.arange(part.start, part.stop)
        if not chosen:
            tables.append(_table_of(abreast, number, ready[index], ledgers[index]))
            order.append(made)
            continue
        both = [*_texts_of(abreast, number, ready[index], ledgers[index]), *map(texts_of, chosen)]
        ranks = sorted(range(len(both)), key=lambda i: _key(both[i]))
        tables.append(text_table([both[i] for i in ranks]))
        order.append(np.concatenate((made, place))[ranks])
    lay(sets, _merged(abreast.claims.columns, numbers, order if single else None), tables)


def _key(texts: tuple[str, ...]) -> tuple[str, ...]:
    return texts[: len(RowKey._fields) + 1]


def _merged(made: Columns, single: Columns, order: list[Longs] | None) -> Columns:
    if order is None:
        return made
    places = np.concatenate(order)
    return {name: np.concatenate((made[name], column))[places] for name, column in single.items()}


def _table_of(abreast: Abreast, number: int, prepared: Prepared, ledger: Ledger) -> TextTable:
    """The texts of a window of a frame. They are the same again where the same claims have rows, with the
    same evidence, prices and teams."""
    frame, part = abreast.table.frames[number], abreast.rows_of(number)
    first, last = abreast.table.first_row[number], abreast.table.first_row[number + 1]
    key = (
        (abreast.claims.claim[part] - abreast.table.first_claim[number]).tobytes(),
        abreast.claims.evidence[part].tobytes(),
        tuple(cost and cost.entry_ids for cost in abreast.costs.of[first:last]),
        *_stamp(prepared, ledger),
    )
    known = frame.tables.get(key)
    if known is None:
        table = text_table(list(_texts_of(abreast, number, prepared, ledger)))
        if len(frame.tables) >= MAX_TABLES:
            frame.tables.clear()
        known = frame.tables[key] = ledger.teams, table
    return known[1]


def _stamp(prepared: Prepared, ledger: Ledger) -> tuple[str, int, int]:
    """What the texts of a frame's rows depend on beside their evidence and prices. Who keeps something by the
    id of a team map keeps the map, so that the id is no other's."""
    return ledger.book.currency, id(ledger.teams), ledger.teams.stretch(prepared.window.life_ns[0])


def _texts_of(abreast: Abreast, number: int, prepared: Prepared, ledger: Ledger) -> Iterator[tuple[str, ...]]:
    """The texts of a window's rows that were made abreast."""
    part = abreast.rows_of(number)
    frame = abreast.table.frames[number]
    first_row = int(abreast.table.first_row[number])
    local = (abreast.claims.claim[part] - abreast.table.first_claim[number]).tolist()
    stamp = _stamp(prepared, ledger)
    if len(frame.texts) >= MAX_TEXTS:
        frame.texts.clear()
    for claim, code in zip(local, abreast.claims.evidence[part].tolist(), strict=True):
        device, seat = divmod(claim, len(frame.seats))
        cost = abreast.costs.of[first_row + device]
        entries = cost.entry_ids if cost is not None else ()
        known = frame.texts.get((claim, code, entries, stamp))
        if known is None:
            consumer, reason = frame.seats[seat]
            key = RowKey(prepared.devices[device].key.uuid, consumer, frame.container[device, seat], reason)
            row = ledger.new_row(key, prepared.devices[device].pieces[0])
            if entries:
                row.currency, row.price_ids = ledger.book.currency, list(entries)
            row.evidence = EVIDENCE_ORDER[code]
            known = frame.texts[claim, code, entries, stamp] = ledger.teams, texts_of(row)
        yield known[1]
