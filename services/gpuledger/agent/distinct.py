"""The distinct values of a column, and which of them each row has.

`numpy.unique` with an inverse sorts row numbers along with the values: 80 ns a row, six times for each event.
Columns of events have few values: processes and threads are small numbers close together that come in runs,
functions are addresses: a few values spread over all 64 bits, which find a place of their own in a table by
their product with an odd number.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuledger.contract.columns import Longs

_FEW = 1024  # distinct values up to which looking them up is faster than sorting rows
_RUN_ROWS = 4  # rows of a run from which on runs are worth finding
_TABLE_ROWS = 4  # places of a table for each row, at most
_LEAST_PLACES = 1 << 16  # 64 KiB, which lie in the cache
_PRODUCT_BITS: Final = 13  # places of a product's table, 64 KiB: fifty values meet one time in seven
_FACTORS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_WORD_BITS: Final = 64

Column = npt.NDArray[Any]


def distinct(values: Column) -> tuple[Column, Longs]:
    """(distinct values in order, position of each row's value among them). ``values``: integers, 1-D."""
    if not len(values):
        return values[:0].copy(), np.empty(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low < max(_TABLE_ROWS * len(values), _LEAST_PLACES):
        return _by_table(values, low, high - low + 1)
    heads = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    if _RUN_ROWS * len(heads) <= len(values):
        found, place = _by_order(values[heads])
        return found, np.repeat(place, np.diff(np.append(heads, len(values))))
    return _by_order(values)


def values_of(values: Column) -> Column:
    """The distinct values in order. `numpy.unique`, asked for no more, imports numpy.ma: 2 MB."""
    ordered = np.sort(values)
    begins = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return ordered[begins]


def first_rows(positions: Longs, count: int) -> Longs:
    """The first row of each of ``count`` distinct values, by the positions that `distinct` gives."""
    first = np.empty(count, np.int64)
    first[positions[::-1]] = np.arange(len(positions) - 1, -1, -1)  # of several writes the last one stays
    return first


def _by_table(values: Column, low: int, places: int) -> tuple[Column, Longs]:
    offset = (values - values.dtype.type(low)).astype(np.int64)
    seen = np.zeros(places, np.bool_)
    seen[offset] = True
    found = np.flatnonzero(seen)
    place = np.empty(places, np.int64)
    place[found] = np.arange(len(found))
    return found.astype(values.dtype) + values.dtype.type(low), place[offset]


def _by_product(values: Column) -> tuple[Column, Longs] | None:
    """None where two values fall on one place, whichever factor is taken: they are many."""
    for factor in _FACTORS:
        place_of = (values.astype(np.uint64) * factor) >> np.uint64(_WORD_BITS - _PRODUCT_BITS)
        place_of = place_of.view(np.int64)
        owner = np.empty(1 << _PRODUCT_BITS, values.dtype)
        owner[place_of] = values
        if (owner[place_of] == values).all():
            seen = np.zeros(1 << _PRODUCT_BITS, np.bool_)
            seen[place_of] = True
            taken = np.flatnonzero(seen)
            found = owner[taken]
            order = np.argsort(found)
            position = np.empty(1 << _PRODUCT_BITS, np.int64)
            position[taken[order]] = np.arange(len(found))
            return found[order], position[place_of]
    return None


def _by_order(values: Column) -> tuple[Column, Longs]:
    if len(values) >= _FEW and (few := _by_product(values)) is not None:
        return few
    found = values_of(values)
    if len(found) > _FEW:
        found, place = np.unique(values, return_inverse=True)
        return found, place.astype(np.int64)
    return found, np.searchsorted(found, values).astype(np.int64, copy=False)
