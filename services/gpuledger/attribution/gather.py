"""The columns of many node-windows as one set of columns.

A *pair* is a (process, device) of one window; pairs are numbered through all windows, so that one pass of
numpy serves the lot. What a window's numbers come out as never depends on which other windows are in the
pass: sums are of integers, or run over one window's values in their canonical order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.consumers import POD, ConsumerKey, People, people_of
from gpuledger.attribution.pieces import DevicePieces
from gpuledger.attribution.timeline import Records, Timeline
from gpuledger.attribution.window import NodeWindow
from gpuledger.contract.columns import Longs, longs
from gpuledger.contract.operations import (
    ALLOCATIONS,
    COPIES_D2D,
    COPIES_D2H,
    COPIES_H2D,
    FREES,
    LAUNCHES,
    QUERIES,
    SYNCHRONIZING,
    Operation,
)
from gpuledger.contract.records import EventBatch, Process

if TYPE_CHECKING:
    from gpuledger.attribution.frames import Frame

Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]

# what an operation counts as; several operations of a kind need not be told apart any more
OTHER, LAUNCH, WAIT, D2H_WAIT, FREE_WAIT, H2D, D2H, D2D, ALLOCATE, FREE, QUERY = range(11)
KINDS = 11
NEEDED_FOR_INTERVALS = frozenset({"duration_ns", "result"})
"""Columns without which calls do not say when work was outstanding: those of such batches only count."""
OPERATION_CODES = 1 << 16  # the schema bounds codes to 0..65535


def _kind_table() -> Bytes:
    table = np.zeros(OPERATION_CODES, np.uint8)
    for operations, kind in (
        (LAUNCHES, LAUNCH),
        (COPIES_H2D, H2D),
        (COPIES_D2H, D2H),
        (COPIES_D2D, D2D),
        (ALLOCATIONS, ALLOCATE),
        (FREES, FREE),
        (SYNCHRONIZING, WAIT),
        (QUERIES, QUERY),
    ):
        table[list(operations)] = kind
    table[Operation.COPY_DEVICE_TO_HOST] = D2H_WAIT
    table[Operation.FREE_DEVICE] = FREE_WAIT
    return table


KIND_OF_OPERATION = _kind_table()
IS_WAIT = np.zeros(KINDS, bool)
IS_WAIT[[WAIT, D2H_WAIT, FREE_WAIT]] = True
IS_WORK = IS_WAIT.copy()
IS_WORK[LAUNCH] = True


@dataclass(slots=True)
class Prepared:
    """One window, read: its place in the pass and all that Python has to know of it.

    Devices of a window are numbered as in ``devices``; the number after the last is "not known". The pair
    of a process and a device is ``first_pair + process * (len(devices) + 1) + device``, the device's
    number in the pass is ``first_device + device``.
    """

    window: NodeWindow
    records: Records
    timeline: Timeline
    people: People
    devices: list[DevicePieces]
    first_pair: int = 0
    first_device: int = 0
    device_numbers: dict[str, int] = field(default_factory=dict)
    containers: dict[ConsumerKey, str] = field(default_factory=dict)  # the one container that holds for it
    frame: Frame | None = None  # what it shares with other windows of its node
    _resident: dict[int, set[int]] | None = None

    @property
    def unknown(self) -> int:
        """Number of the device that is not known."""
        return len(self.devices)

    @property
    def width(self) -> int:
        """Pairs a process."""
        return len(self.devices) + 1

    @property
    def pairs(self) -> int:
        """Pairs of the window."""
        return len(self.people.processes) * self.width

    def pair(self, process: int, device: int) -> int:
        """Number of a pair in the pass."""
        return self.first_pair + process * self.width + device

    @property
    def resident(self) -> dict[int, set[int]]:
        """By device, the processes that have memory on it."""
        if self._resident is None:
            self._resident = {}
            for state in self.records.holdings:
                numbers = self.people.numbers_of(state.processes)
                for process, place in zip(
                    state.resident_process.tolist(), state.resident_device.tolist(), strict=True
                ):
                    number = self.device_numbers.get(state.layout.devices[place].uuid, self.unknown)
                    self._resident.setdefault(number, set()).add(numbers[process])
        return self._resident

    def container(self, process: int) -> str:
        """The container of a process; where only its id is known and its pod's devices are all given to one
        container, that container's name."""
        found = self.people.processes[process]
        return found.container or self.containers.get(self.people.consumer(process)) or found.container_id


def prepare(window: NodeWindow, records: Records, line: Timeline, devices: list[DevicePieces]) -> Prepared:
    """A window with its people and devices numbered."""
    prepared = Prepared(window, records, line, people_of(records), devices)
    for number, device in enumerate(devices):
        if any(piece.slot.whole_or_instance for piece in device.pieces):
            prepared.device_numbers[device.key.uuid] = number
    given: dict[ConsumerKey, set[str]] = {}
    for state in records.holdings:
        for holder in state.holders:
            key = ConsumerKey(holder.consumer_kind or POD, holder.consumer)
            given.setdefault(key, set()).add(holder.container)
    prepared.containers = {key: min(names) for key, names in given.items() if len(names) == 1}
    return prepared


@dataclass(slots=True)
class Pass:
    """The windows of a pass and their event columns, one after the other.

    ``time`` is ns since the start of the event's window; ``tallied`` says which values are no single calls,
    None where all are. ``size``, ``result`` and ``count`` are read only.
    """

    windows: list[Prepared]
    pairs: int
    devices: int
    pair_device: Ints
    pair: Ints
    kind: Bytes
    time: Longs
    duration: Longs
    size: Longs
    threads: Longs
    result: Longs
    count: Longs
    tallied: npt.NDArray[np.bool_] | None


def gather(windows: Sequence[Prepared]) -> Pass:
    """Number pairs and devices through all windows and lay the event columns one after the other."""
    pairs = devices = 0
    for prepared in windows:
        prepared.first_pair, prepared.first_device = pairs, devices
        pairs += prepared.pairs
        devices += prepared.width
    batches = [
        (prepared, batch) for prepared in windows for batch in prepared.records.events if len(batch.time_ns)
    ]
    count = _laid([batch.count for _, batch in batches])
    lengths = np.array([len(batch.time_ns) for _, batch in batches], np.int64)
    origins = np.array([prepared.window.window_start_ns for prepared, _ in batches], np.int64)
    columns = Pass(
        windows=list(windows),
        pairs=pairs,
        devices=devices,
        pair_device=_pair_devices(windows, pairs),
        pair=_pairs_of(batches, lengths),
        kind=KIND_OF_OPERATION.take(_joined(batch.operation for _, batch in batches), mode="clip"),
        time=_joined(batch.time_ns for _, batch in batches) - np.repeat(origins, lengths),
        duration=_joined(batch.duration_ns for _, batch in batches),
        size=_laid([batch.bytes for _, batch in batches]),
        threads=_joined(batch.launched_threads for _, batch in batches),
        result=_laid([batch.result for _, batch in batches]),
        count=count,
        tallied=None,
    )
    span = _laid([batch.span_ns for _, batch in batches])
    blind = np.array([not NEEDED_FOR_INTERVALS.isdisjoint(batch.missing) for _, batch in batches], bool)
    if blind.any() or span.any() or (count > 1).any():
        columns.tallied = (span > 0) | (count > 1) | np.repeat(blind, lengths)
    return columns


def _joined(columns: Iterable[Longs]) -> Longs:
    return np.concatenate([longs([]), *columns])


def _laid(columns: Sequence[Longs]) -> Longs:
    """As ``_joined``, of columns that have values; where all are one value, as results mostly are, it is
    there once, for nobody to write to."""
    first = columns[0][0] if columns else 0
    if columns and all(column.min() == first == column.max() for column in columns):
        return np.broadcast_to(first, (sum(map(len, columns)),))
    return _joined(columns)


def _pairs_of(batches: Sequence[tuple[Prepared, EventBatch]], lengths: Longs) -> Ints:
    """The pair of each call. A process that is not in its batch's dictionary is the nearest that is."""
    known = [dictionaries(prepared, batch.processes, batch.devices) for prepared, batch in batches]
    if not known:
        return np.empty(0, np.int32)
    (process_at, process_of), (device_at, device_of) = (
        _tables(tables) for tables in zip(*known, strict=True)
    )
    process = _joined(batch.process for _, batch in batches)
    last = np.diff(process_at) - 1
    if process.min() < 0 or process.max() > last.min():
        process = np.clip(process, 0, np.repeat(last, lengths))
    process += np.repeat(process_at[:-1], lengths)
    found: Ints = process_of[process]
    device = _joined(batch.device for _, batch in batches)
    unknown = device < 0
    if unknown.any():
        device = np.where(unknown, device + np.repeat(np.diff(device_at), lengths), device)
    device += np.repeat(device_at[:-1], lengths)
    found += device_of[device]
    return found


def _tables(tables: Sequence[Ints]) -> tuple[Longs, Ints]:
    """(where each table begins, with one more at the end; all of them)."""
    return np.cumsum([0, *(len(table) for table in tables)]), np.concatenate(tables)


def dictionaries(
    prepared: Prepared, processes: Sequence[Process], devices: Sequence[str]
) -> tuple[Ints, Ints]:
    """(first pair of each process, device number of each device with "not known" last) of a batch; the
    last serves the index -1."""
    kept = {} if prepared.frame is None else prepared.frame.dictionaries
    found = kept.get((id(processes), id(devices)))  # of a frame, which keeps them alive
    if found is None:
        numbers = prepared.people.numbers_of(processes)
        process_of = np.array([number * prepared.width for number in numbers], np.int32)
        known = prepared.device_numbers
        device_of = np.array(
            [*(known.get(uuid, prepared.unknown) for uuid in devices), prepared.unknown], np.int32
        )
        found = kept[id(processes), id(devices)] = process_of, device_of
    return found[0] + prepared.first_pair, found[1]


def _pair_devices(windows: Sequence[Prepared], pairs: int) -> Ints:
    """Device number in the pass of each pair."""
    table = np.empty(pairs, np.int32)
    for prepared in windows:
        part = table[prepared.first_pair : prepared.first_pair + prepared.pairs]
        part.reshape(-1, prepared.width)[:] = prepared.first_device + np.arange(
            prepared.width, dtype=np.int32
        )
    return table
