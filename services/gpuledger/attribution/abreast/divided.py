"""The cost of each device to its claims: the one formula under policy ``pay`` (formula.py), in columns.

Two cases have weights that fit into 63 bits, since the formula cancels (its Z is T D, and T - a):

   nobody used it: (T - A) n_i, (T - A) n_0 and A D, of T D
   the only user holds all of it: a, T - A and A - a, of T

All others are weighed one by one in integers of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuledger.attribution.abreast.explained import Explained
from gpuledger.attribution.abreast.integers import remainders_given
from gpuledger.attribution.abreast.seen import Seen
from gpuledger.attribution.abreast.table import Bools, Table
from gpuledger.attribution.formula import Category, Weighted, pay
from gpuledger.attribution.frame_columns import Seat
from gpuledger.contract.columns import Longs, longs
from gpuledger.pricing import Cost


class Costs(NamedTuple):
    """Columns by device: GPU time, money and GPU time without a price of its piece; ``of`` has the rest."""

    time: Longs
    nano: Longs
    unpriced: Longs
    of: Sequence[Cost | None]

    @property
    def amounts(self) -> tuple[Longs, Longs, Longs]:
        """What is divided."""
        return self.time, self.nano, self.unpriced


class Parts(NamedTuple):
    """Who gets which part, one row a (claim, category) whose weight is not 0."""

    claim: Longs
    category: Longs
    ns: Longs
    nano: Longs
    unpriced: Longs


class _Weights(NamedTuple):
    device: Longs
    claim: Longs
    category: Longs
    weight: Longs


def divided(table: Table, there: Seen, found: Explained, costs: Costs, chosen: Bools) -> Parts:
    """The parts of all devices chosen."""
    used = found.used > 0
    claim = np.append(table.claim_of_pair, -1)[found.pair]  # -1 where nobody was at work
    alone = (table.facts.sole >= 0) & (claim == table.claim + table.facts.sole)
    weights = [
        *_unused(table, there, found, chosen & ~used),
        *_one_user(table, there, found, chosen & used & alone, claim),
    ]
    rows = _Weights(*(np.concatenate(columns) for columns in zip(*weights, strict=True)))
    rows = _Weights(*(column[rows.weight > 0] for column in rows))
    order = np.lexsort((rows.category, rows.claim))
    rows = _Weights(*(column[order] for column in rows))
    total = there.length * np.where(used, 1, table.facts.denominator)
    amounts = [
        remainders_given(rows.device, amount[rows.device], rows.weight, total[rows.device])
        for amount in costs.amounts
    ]
    many = _one_by_one(table, there, found, costs, np.flatnonzero(chosen & used & ~alone), claim)
    return Parts(
        *(np.concatenate(both) for both in zip((rows.claim, rows.category, *amounts), many, strict=True))
    )


def _unused(table: Table, there: Seen, found: Explained, chosen: Bools) -> list[_Weights]:
    """What holders and the pool get of devices that nobody used."""
    idle = there.length - found.occupied
    holders = np.flatnonzero(chosen[table.holders.device])
    device = table.holders.device[holders]
    free = np.flatnonzero(chosen)
    return [
        _weights(
            device,
            table.holders.seat[holders],
            Category.HELD_IDLE,
            idle[device] * table.holders.weight[holders],
        ),
        _weights(
            free,
            (table.claim + table.facts.free)[free],
            Category.UNALLOCATED,
            (idle * table.facts.free_weight)[free],
        ),
        _weights(
            free,
            (table.claim + table.facts.unexplained)[free],
            Category.UNOBSERVED,
            (found.occupied * table.facts.denominator)[free],
        ),
    ]


def _one_user(table: Table, there: Seen, found: Explained, chosen: Bools, claim: Longs) -> list[_Weights]:
    """What the user, who holds all of a device, and the pool get."""
    rows = np.flatnonzero(chosen)
    whose = claim[rows]
    return [
        _weights(rows, whose, Category.USED, found.used[rows]),
        _weights(rows, whose, Category.HELD_IDLE, (there.length - found.occupied)[rows]),
        _weights(
            rows,
            (table.claim + table.facts.unexplained)[rows],
            Category.UNOBSERVED,
            (found.occupied - found.used)[rows],
        ),
    ]


def _weights(device: Longs, claim: Longs, category: Category, weight: Longs) -> _Weights:
    return _Weights(device, claim, np.full(len(device), int(category)), weight)


def _one_by_one(
    table: Table, there: Seen, found: Explained, costs: Costs, rows: Longs, claim: Longs
) -> Parts:
    parts: list[tuple[int, int, int, int, int]] = []
    for row in rows.tolist():
        window = int(table.window[row])
        frame = table.frames[window]
        first = int(table.claim[row])
        piece = frame.pieces[row - int(table.first_row[window])].pieces[0]
        user = frame.seats[int(claim[row]) - first].consumer
        weighted: Weighted = pay(
            int(there.length[row]), int(found.occupied[row]), {user: int(found.used[row])}, piece.holding
        )
        amounts = [weighted.divide(int(amount[row])) for amount in costs.amounts]
        for part, *values in zip(weighted.parts, *amounts, strict=True):
            seat = frame.seat_of[Seat(part.consumer, part.reason)]
            parts.append((first + seat, int(part.category), *values))
    return Parts(*longs(parts).reshape(-1, 5).T)
