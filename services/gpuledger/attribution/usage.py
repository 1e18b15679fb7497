"""How much was asked of the devices: counted, never used as a share of time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuledger.attribution.gather import (
    ALLOCATE,
    D2D,
    D2H,
    D2H_WAIT,
    FREE,
    FREE_WAIT,
    H2D,
    KINDS,
    LAUNCH,
    WAIT,
    Pass,
    Prepared,
)
from gpuledger.attribution.timeline import state_time
from gpuledger.contract.columns import Longs
from gpuledger.contract.windows import NS_PER_S

BYTES_GRAIN = 4096  # a page; byte-ns of a 192 GiB device over a minute would overflow 63 bits without it
MAX_SUM = 1 << 53  # up to here a float64 holds every integer; what sums to more is shown as this much
MAX_RESIDENT_BYTES = 1 << 39  # pages times ns of a minute fit a long up to here, then floats must do


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
    volume = _sum(key, columns.size, cells).reshape(-1, KINDS)
    waited = _sum(key, columns.duration, cells).reshape(-1, KINDS)
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
        waited[:, WAIT],
        errors,
    )


def _sum(key: Any, weights: Longs | None, size: int) -> Longs:
    """Sums by key; exact, since a float64 holds integers below 2**53 (9 PB, 104 days) without loss."""
    return np.minimum(np.bincount(key, weights, size), MAX_SUM).astype(np.int64)


def _less(sums: Longs, failed: Longs) -> Longs:
    """What is left of sums without the calls that failed, not below 0 where the sums were cut short."""
    left: Longs = np.maximum(sums - failed, 0)
    return left


class Memory(NamedTuple):
    """Device memory of a consumer on a device over the window."""

    peak_bytes: int
    byte_seconds: float


def memory(columns: Pass, owner: Longs) -> dict[tuple[int, int], Memory]:
    """Peak and byte-seconds by (owner, device of the pass); ``owner`` numbers the consumer of each pair.

    Each state of the node says what is resident; between two states, allocations and frees move it.
    """
    rows = np.flatnonzero(
        ((columns.kind == ALLOCATE) | (columns.kind == FREE) | (columns.kind == FREE_WAIT))
        & (columns.result == 0)
    )
    sign = np.where(columns.kind[rows] == ALLOCATE, 1, -1)
    pair = columns.pair[rows].astype(np.int64)
    moves = _Moves(
        owner[pair], columns.pair_device[pair].astype(np.int64), columns.time[rows], sign * columns.size[rows]
    )
    found: dict[tuple[int, int], Memory] = {}
    window_of = np.searchsorted([prepared.first_pair for prepared in columns.windows], pair, side="right") - 1
    bounds = np.searchsorted(window_of, np.arange(len(columns.windows) + 1))
    for number, prepared in enumerate(columns.windows):
        part = slice(int(bounds[number]), int(bounds[number + 1]))
        _window_memory(prepared, _Moves(*(column[part] for column in moves)), owner, found)
    return found


class _Moves(NamedTuple):
    owner: Longs
    device: Longs
    time: Longs
    change: Longs


def _window_memory(
    prepared: Prepared, moves: _Moves, owner: Longs, found: dict[tuple[int, int], Memory]
) -> None:
    levels = _levels(prepared, owner)
    start, end = (at - prepared.window.window_start_ns for at in prepared.window.life_ns)
    keys = {key for _, level in levels for key in level}
    keys.update(zip(moves.owner.tolist(), moves.device.tolist(), strict=True))
    for key in sorted(keys):
        mine = (moves.owner == key[0]) & (moves.device == key[1])
        time, change = moves.time[mine], moves.change[mine]
        peak, area = 0, 0
        for index, (since, level) in enumerate(levels):
            until = levels[index + 1][0] if index + 1 < len(levels) else end
            inside = (time >= since) & (time < until)
            cuts = np.concatenate(([max(since, start)], time[inside], [until]))
            resident = _resident(level.get(key, 0), change[inside])
            peak = max(peak, int(resident.max()))
            pages, spent = resident // BYTES_GRAIN, np.diff(cuts)
            if peak <= MAX_RESIDENT_BYTES:
                area += int((pages * spent).sum())
            else:
                area += int((pages.astype(np.float64) * spent).sum())
        found[key] = Memory(peak, area * BYTES_GRAIN / NS_PER_S)


def _resident(level: int, change: Longs) -> Longs:
    """Bytes resident before, and after each change; 0 to MAX_SUM."""
    sums = np.cumsum(np.concatenate(([min(level, MAX_SUM)], change)), dtype=np.float64)
    return np.clip(sums, 0, MAX_SUM).astype(np.int64)


def _levels(prepared: Prepared, owner: Longs) -> list[tuple[int, dict[tuple[int, int], int]]]:
    """(since, bytes by (owner, device)) of each state of the window."""
    levels: list[tuple[int, dict[tuple[int, int], int]]] = []
    for state in prepared.records.holdings:
        if state.header.amendment:
            continue
        since = state_time(prepared.window, state) - prepared.window.window_start_ns
        numbers = prepared.people.add(state.processes)
        level: dict[tuple[int, int], int] = {}
        for process, device, size in zip(
            state.resident_process.tolist(),
            state.resident_device.tolist(),
            state.resident_bytes.tolist(),
            strict=True,
        ):
            place = prepared.device_numbers.get(state.layout.devices[device].uuid, prepared.unknown)
            pair = prepared.pair(numbers[process], place)
            key = int(owner[pair]), prepared.first_device + place
            level[key] = level.get(key, 0) + size
        levels.append((since, level))
    return sorted(levels, key=lambda item: item[0]) or [(0, {})]
