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
from gpuledger.attribution.formula import Category, pay
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
    users = np.bincount(found.device[found.used > 0], minlength=len(chosen))
    claim, used = (np.zeros(len(chosen), np.int64) for _ in range(2))  # of the only user of a device
    using = np.flatnonzero(found.used > 0)
    claim[found.device[using]], used[found.device[using]] = found.claim[using], found.used[using]
    alone = (users == 1) & (table.facts.sole >= 0) & (claim == table.claim + table.facts.sole)
    weights = [
        *_unused(table, there, found, chosen & (users == 0)),
        *_one_user(table, there, found, chosen & alone, claim, used),
    ]
    rows = _Weights(*(np.concatenate(columns) for columns in zip(*weights, strict=True)))
    rows = _Weights(*(column[rows.weight > 0] for column in rows))
    order = np.lexsort((rows.category, rows.claim))
    rows = _Weights(*(column[order] for column in rows))
    total = there.length * np.where(alone, 1, table.facts.denominator)
    amounts = [
        remainders_given(rows.device, amount[rows.device], rows.weight, total[rows.device])
        for amount in costs.amounts
    ]
    many = _one_by_one(table, there, found, costs, chosen & (users > 0) & ~alone)
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


def _one_user(
    table: Table, there: Seen, found: Explained, chosen: Bools, claim: Longs, used: Longs
) -> list[_Weights]:
    """What the user, who holds all of a device, and the pool get."""
    rows = np.flatnonzero(chosen)
    whose = claim[rows]
    return [
        _weights(rows, whose, Category.USED, used[rows]),
        _weights(rows, whose, Category.HELD_IDLE, (there.length - found.occupied)[rows]),
        _weights(
            rows,
            (table.claim + table.facts.unexplained)[rows],
            Category.UNOBSERVED,
            (found.occupied - used)[rows],
        ),
    ]


def _weights(device: Longs, claim: Longs, category: Category, weight: Longs) -> _Weights:
    return _Weights(device, claim, np.full(len(device), int(category)), weight)


def _one_by_one(table: Table, there: Seen, found: Explained, costs: Costs, chosen: Bools) -> Parts:
    used: dict[int, dict[int, int]] = {row: {} for row in np.flatnonzero(chosen).tolist()}
    using = np.flatnonzero(chosen[found.device] & (found.used > 0))
    for row, claim, part in zip(
        found.device[using].tolist(), found.claim[using].tolist(), found.used[using].tolist(), strict=True
    ):
        used[row][claim] = part
    parts: list[tuple[int, int, int, int, int]] = []
    for row, of_claim in used.items():
        window = int(table.window[row])
        frame, first = table.frames[window], int(table.claim[row])
        holding = frame.pieces[row - int(table.first_row[window])].pieces[0].holding
        by_consumer = {frame.seats[claim - first].consumer: part for claim, part in of_claim.items()}
        weighted = pay(int(there.length[row]), int(found.occupied[row]), by_consumer, holding)
        amounts = [weighted.divide(int(amount[row])) for amount in costs.amounts]
        for one, ns, nano, unpriced in zip(weighted.parts, *amounts, strict=True):
            seat = frame.seat_of[Seat(one.consumer, one.reason)]
            parts.append((first + seat, int(one.category), ns, nano, unpriced))
    return Parts(*longs(parts).reshape(-1, 5).T)
