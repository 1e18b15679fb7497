"""How much device memory each consumer had, and when."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.gather import ALLOCATE, FREE, FREE_WAIT, Pass, Prepared
from gpuledger.attribution.pieces import Piece
from gpuledger.attribution.timeline import state_time
from gpuledger.contract.columns import MAX_SUM, Longs, longs
from gpuledger.contract.windows import NS_PER_S

BYTES_GRAIN = 4096  # a page; byte-ns of a 192 GiB device over a minute would overflow 63 bits without it
MAX_RESIDENT_BYTES = 1 << 39  # pages times ns of a minute fit a long up to here, then floats must do

FEW_STEPS = 8  # up to here Python's integers are cheaper than the fixed cost of vector operations


class Owners:
    """The (window, consumer, container) that each pair of a pass belongs to, by number."""

    def __init__(self, columns: Pass, wanted: Sequence[bool]) -> None:
        """Those of the windows ``wanted``; the others' pairs have the number 0, which then means nothing."""
        self.keys: list[tuple[int, ConsumerKey, str]] = []
        numbers: dict[tuple[int, ConsumerKey, str], int] = {}
        self.of_pair: Longs = np.zeros(columns.pairs, np.int64)
        for index, prepared in enumerate(columns.windows):
            for process in range(len(prepared.people.processes) if wanted[index] else 0):
                key = (index, prepared.people.consumer(process), prepared.container(process))
                number = numbers.setdefault(key, len(numbers))
                if number == len(self.keys):
                    self.keys.append(key)
                first = prepared.pair(process, 0)
                self.of_pair[first : first + prepared.width] = number


class Resident(NamedTuple):
    """Bytes of an owner on a device, as steps: ``size`` from ``start`` to ``end``, ns of the window."""

    start: Longs
    end: Longs
    size: Longs

    @property
    def peak_bytes(self) -> int:
        """The most at one time."""
        return int(self.size.max(initial=0))

    @property
    def byte_seconds(self) -> float:
        """The integral over time, in whole pages."""
        if len(self.size) <= FEW_STEPS and self.peak_bytes <= MAX_RESIDENT_BYTES:
            steps = zip(self.start.tolist(), self.end.tolist(), self.size.tolist(), strict=True)
            return _byte_seconds(sum(size // BYTES_GRAIN * (end - start) for start, end, size in steps))
        pages, spent = self.size // BYTES_GRAIN, self.end - self.start
        if self.peak_bytes > MAX_RESIDENT_BYTES:
            pages = pages.astype(np.float64)
        return _byte_seconds(int((pages * spent).sum()))

    def page_ns(self, low: int, high: int) -> int:
        """The integral over [low, high) in pages x ns, of at most MAX_RESIDENT_BYTES."""
        spent = np.minimum(self.end, high) - np.maximum(self.start, low)
        pages = np.minimum(self.size, MAX_RESIDENT_BYTES) // BYTES_GRAIN
        return int((pages * np.maximum(spent, 0)).sum())


def _byte_seconds(page_ns: int) -> float:
    return page_ns * BYTES_GRAIN / NS_PER_S


def byte_seconds(size: int, span_ns: int) -> float:
    """``Resident.byte_seconds`` of one step."""
    if size <= MAX_RESIDENT_BYTES:
        return _byte_seconds(size // BYTES_GRAIN * span_ns)
    return Resident(longs([0]), longs([span_ns]), longs([size])).byte_seconds


def residency(columns: Pass, owner: Longs, wanted: Sequence[bool]) -> dict[tuple[int, int], Resident]:
    """What is resident by (owner, device of the pass) in the windows ``wanted``; ``owner`` numbers the
    consumer of each pair.

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
    found: dict[tuple[int, int], Resident] = {}
    window_of = np.searchsorted([prepared.first_pair for prepared in columns.windows], pair, side="right") - 1
    bounds = np.searchsorted(window_of, np.arange(len(columns.windows) + 1))
    for number, prepared in enumerate(columns.windows):
        if not wanted[number]:
            continue
        part = slice(int(bounds[number]), int(bounds[number + 1]))
        _window_residency(prepared, _Moves(*(column[part] for column in moves)), owner, found)
    return found


class _Moves(NamedTuple):
    owner: Longs
    device: Longs
    time: Longs
    change: Longs


def _window_residency(
    prepared: Prepared, moves: _Moves, owner: Longs, found: dict[tuple[int, int], Resident]
) -> None:
    levels = _levels(prepared, owner)
    start, end = (at - prepared.window.window_start_ns for at in prepared.window.life_ns)
    keys = {key for _, level in levels for key in level}
    if not len(moves.time):
        begins = longs([max(at, start) for at, _ in levels])
        stops = longs([*(at for at, _ in levels[1:]), end])
        for key in sorted(keys):
            held = longs([min(level.get(key, 0), MAX_SUM) for _, level in levels])
            found[key] = Resident(begins, stops, held)
        return
    keys.update(zip(moves.owner.tolist(), moves.device.tolist(), strict=True))
    for key in sorted(keys):
        mine = (moves.owner == key[0]) & (moves.device == key[1])
        time, change = moves.time[mine], moves.change[mine]
        starts, ends, sizes = [], [], []
        for index, (since, level) in enumerate(levels):
            until = levels[index + 1][0] if index + 1 < len(levels) else end
            inside = (time >= since) & (time < until)
            cuts = np.concatenate(([max(since, start)], time[inside], [until]))
            starts.append(cuts[:-1])
            ends.append(cuts[1:])
            sizes.append(_running(level.get(key, 0), change[inside]))
        found[key] = Resident(*(longs(np.concatenate(parts)) for parts in (starts, ends, sizes)))


def _running(level: int, change: Longs) -> Longs:
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
        numbers = prepared.people.numbers_of(state.processes)
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


class MemoryShares:
    """The holders' parts of a device's memory, for the policy max(slots,memory)."""

    def __init__(self, owners: Owners, resident: dict[tuple[int, int], Resident]) -> None:
        self._of_device: dict[tuple[int, int], list[tuple[ConsumerKey, Resident]]] = {}
        for (owner, place), steps in resident.items():
            window, consumer, _ = owners.keys[owner]
            self._of_device.setdefault((window, place), []).append((consumer, steps))

    def of(self, window: int, prepared: Prepared, number: int, piece: Piece) -> dict[ConsumerKey, Fraction]:
        """Mean resident memory in a piece / the device's, at most 1, of everybody who had some. Nothing where
        the device's memory is not known."""
        pages = piece.slot.memory_total_bytes // BYTES_GRAIN
        if pages <= 0:
            return {}
        origin, whole = prepared.window.window_start_ns, pages * piece.length_ns
        sums: dict[ConsumerKey, int] = {}
        for consumer, steps in self._of_device.get((window, prepared.first_device + number), ()):
            part = steps.page_ns(piece.start_ns - origin, piece.end_ns - origin)
            sums[consumer] = sums.get(consumer, 0) + part
        return {consumer: Fraction(min(part, whole), whole) for consumer, part in sums.items()}
