"""How much was asked of the devices: counted, never used as a share of time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuledger.attribution.gather import (
    D2D,
    D2H,
    D2H_WAIT,
    H2D,
    KINDS,
    LAUNCH,
    WAIT,
    Pass,
)
from gpuledger.contract.columns import MAX_SUM, Longs


class Usage(NamedTuple):
    """Per pair, as columns of the pass's length."""

    calls: Longs
    launches: Longs
    threads: Longs
    bytes_h2d: Longs
    bytes_d2h: Longs
    bytes_d2d: Longs
    wait_ns: Longs
    errors: Longs


def usage(columns: Pass) -> Usage:
    """Sums over the events of each pair. A call that failed counts as an error and moves nothing."""
    cells = columns.pairs * KINDS
    key = columns.pair * np.int32(KINDS) + columns.kind
    counts = _sum(key, None if columns.tallied is None else columns.count, cells).reshape(-1, KINDS)
    moving = np.flatnonzero(columns.size)
    volume = _sum(key[moving], columns.size[moving], cells).reshape(-1, KINDS)
    waiting = np.flatnonzero(columns.kind == WAIT)
    waited = _sum(columns.pair[waiting], columns.duration[waiting], columns.pairs)
    threads = _sum(columns.pair, columns.threads, columns.pairs)
    launches = counts[:, LAUNCH]
    errors = np.zeros(columns.pairs, np.int64)
    failed = np.flatnonzero(columns.result)
    if len(failed):
        of_pair, of_key, times = columns.pair[failed], key[failed], columns.count[failed]
        errors = _sum(of_pair, times, columns.pairs)
        launches = _less(launches, _sum(of_key, times, cells).reshape(-1, KINDS)[:, LAUNCH])
        volume = _less(volume, _sum(of_key, columns.size[failed], cells).reshape(-1, KINDS))
        threads = _less(threads, _sum(of_pair, columns.threads[failed], columns.pairs))
    return Usage(
        counts.sum(axis=1),
        launches,
        threads,
        volume[:, H2D],
        volume[:, D2H] + volume[:, D2H_WAIT],
        volume[:, D2D],
        waited,
        errors,
    )


def _sum(key: Any, weights: Longs | None, size: int) -> Longs:
    """Sums by key; exact, since a float64 holds integers below 2**53 (9 PB, 104 days) without loss."""
    return np.minimum(np.bincount(key, weights, size), MAX_SUM).astype(np.int64)


def _less(sums: Longs, failed: Longs) -> Longs:
    """What is left of sums without the calls that failed, not below 0 where the sums were cut short."""
    left: Longs = np.maximum(sums - failed, 0)
    return left
