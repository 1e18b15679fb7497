"""Products and quotients of columns, exact beyond 63 bits."""

from __future__ import annotations

import numpy as np

from gpuledger.contract.columns import Longs

LARGEST_DIVISOR = 1 << 61
LARGEST_QUOTIENT = 1 << 48


def scaled(amount: Longs, weight: Longs, total: Longs) -> tuple[Longs, Longs]:
    """(floor, remainder) of ``amount`` x ``weight`` / ``total``, none negative.

    The product may be any: it wraps around 64 bits, and so does what is taken off it. What is left, the
    remainder, is less than a divisor, which must be below LARGEST_DIVISOR, and so comes out whole. The
    quotient must be below LARGEST_QUOTIENT: a float64 then misses it by one at most, which the remainder
    tells.
    """
    whole = (amount.astype(np.float64) * weight / total).astype(np.int64)
    rest = amount * weight - whole * total
    low, high = rest < 0, rest >= total
    whole += high.astype(np.int64) - low
    rest += np.where(low, total, 0) - np.where(high, total, 0)
    return whole, rest


def scaled_up(amount: Longs, weight: Longs, total: Longs) -> Longs:
    """The least integer that is not below ``amount`` x ``weight`` / ``total``."""
    whole, rest = scaled(amount, weight, total)
    return whole + (rest > 0)


def remainders_given(group: Longs, amount: Longs, weight: Longs, total: Longs) -> Longs:
    """Each group's ``amount`` in proportion to its weights, which sum to its ``total``, by largest remainder;
    ties go to the earlier (formula.py, ``largest_remainder``). Rows lie group by group, 0, 1, ..."""
    whole, rest = scaled(amount, weight, total)
    if not len(group):
        return whole
    opens = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    left = amount[opens] - np.add.reduceat(whole, opens)
    order = np.lexsort((-rest, group))
    rank = np.empty(len(group), np.int64)
    number = np.repeat(np.arange(len(opens)), np.diff(np.append(opens, len(group))))
    rank[order] = np.arange(len(group)) - opens[number]
    return whole + (rank < left[number])
