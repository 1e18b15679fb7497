"""What launches take by the durations that the agent learned while their process was alone.

The keyframe states them by process, kernel function and launched threads; without any, nothing is known. The
agent learns only from stable work (emulator study, E5: at least 5 episodes or 100 launches alone, and the
middle 80 % within 35 % of the median). sharing.py checks them against what the window itself shows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.gather import LAUNCH, Pass, Prepared
from gpuledger.contract.columns import Longs, longs

LONGEST_NS = 60_000_000_000  # of one launch: a window is no longer, and sums of more would not fit a long
# odd constants, so that keys which differ differ in their product too
PAIR_FACTOR, FUNCTION_FACTOR, THREADS_FACTOR = (
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
)


class _Table(NamedTuple):
    """Durations by (pair of the process and the first device, function, threads), sorted by ``key``."""

    key: npt.NDArray[np.uint64]
    pair: Longs
    function: Longs
    threads: Longs
    duration: Longs


def learned_durations(columns: Pass, rows: npt.NDArray[np.intp]) -> Longs | None:
    """ns that each of the calls ``rows`` keeps its device busy: 0 for one that is no launch, -1 where it is
    not known. None where no window of the pass states any durations."""
    table = _table(columns.windows)
    if table is None:
        return None
    found = np.where(columns.kind[rows] == LAUNCH, np.int64(-1), np.int64(0))
    process = _process_pairs(columns)[columns.pair[rows]]
    has = np.zeros(columns.pairs, bool)
    has[table.pair] = True
    asked = np.flatnonzero(has[process] & (found < 0))
    functions = _functions(columns)[rows[asked]]
    threads, pair = columns.threads[rows[asked]], process[asked]
    at = np.searchsorted(table.key, _key(pair, functions, threads))
    at = np.minimum(at, len(table.key) - 1)
    same = (table.pair[at] == pair) & (table.function[at] == functions) & (table.threads[at] == threads)
    found[asked] = np.where(same, table.duration[at], -1)
    return found


def _table(windows: list[Prepared]) -> _Table | None:
    parts: list[tuple[Any, ...]] = []
    for prepared in windows:
        states = [state for state in prepared.records.holdings if not state.header.amendment]
        state = next((state for state in states if len(state.learned_process)), None)
        if state is None:
            continue
        numbers = prepared.people.numbers_of(state.processes)
        pairs = longs([prepared.pair(number, 0) for number in numbers])
        parts.append(
            (
                pairs[state.learned_process],
                state.learned_function,
                state.learned_threads,
                np.minimum(state.learned_duration_ns, LONGEST_NS),
            )
        )
    if not parts:
        return None
    pair, function, threads, duration = (np.concatenate(column) for column in zip(*parts, strict=True))
    key = _key(pair, function, threads)
    order = np.lexsort((duration, threads, function, pair, key))
    return _Table(key[order], pair[order], function[order], threads[order], duration[order])


def _key(pair: Longs, function: Longs, threads: Longs) -> npt.NDArray[np.uint64]:
    mixed: npt.NDArray[np.uint64] = (
        pair.astype(np.uint64) * PAIR_FACTOR
        + function.astype(np.uint64) * FUNCTION_FACTOR
        + threads.astype(np.uint64) * THREADS_FACTOR
    )
    return mixed


def _process_pairs(columns: Pass) -> Longs:
    """By pair: the pair of the same process and the first device."""
    table = np.empty(columns.pairs, np.int64)
    for prepared in columns.windows:
        part = np.arange(prepared.pairs, dtype=np.int64)
        table[prepared.first_pair : prepared.first_pair + prepared.pairs] = (
            prepared.first_pair + part - part % prepared.width
        )
    return table


def _functions(columns: Pass) -> Longs:
    """The function handle of each call, in the order of the pass; -1 where there is none."""
    parts = [longs([])]
    for prepared in columns.windows:
        for batch in prepared.records.events:
            handles = np.append(batch.functions, -1)
            parts.append(handles[batch.function])
    return np.concatenate(parts)
