"""The column types of all batches."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Longs: TypeAlias = npt.NDArray[np.int64]
"""An Avro array<long>: one-dimensional int64."""

Doubles: TypeAlias = npt.NDArray[np.float64]
"""An Avro array<double>: one-dimensional float64."""

MAX_SUM = 1 << 53
"""Up to here a float64 holds every integer; what sums to more is shown as this much."""

LARGEST_LONG = (1 << 63) - 1
"""What a sum of any size is shown as where it is greater."""


def no_longs() -> Longs:
    """An empty column of longs."""
    return np.empty(0, np.int64)


def no_doubles() -> Doubles:
    """An empty column of doubles."""
    return np.empty(0, np.float64)


def longs(values: Any) -> Longs:
    """A column of longs from any sequence of integers."""
    return np.asarray(values, np.int64)


def doubles(values: Any) -> Doubles:
    """A column of doubles from any sequence of numbers; None becomes NaN (missing)."""
    return np.asarray([np.nan if v is None else v for v in values], np.float64)
