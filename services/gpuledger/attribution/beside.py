"""What stands beside the money: usage, efficiency, energy, and how complete it all is."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan

import numpy as np

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.gather import Pass, Prepared
from gpuledger.attribution.pieces import Piece
from gpuledger.attribution.rows import Row, RowKey
from gpuledger.attribution.samples import Samples, cell_means, of_field
from gpuledger.attribution.settle import Ledger
from gpuledger.attribution.usage import Memory, Usage, memory
from gpuledger.attribution.views import CellMap, is_open
from gpuledger.contract.columns import Longs
from gpuledger.contract.fields import Field
from gpuledger.contract.rows import Flag
from gpuledger.contract.windows import NS_PER_S

MEANS = {
    "sm_active": Field.SM_ACTIVE,
    "sm_occupancy": Field.SM_OCCUPANCY,
    "tensor_active": Field.TENSOR_ACTIVE,
    "dram_active": Field.DRAM_ACTIVE,
    "framebuffer_used_bytes": Field.FRAMEBUFFER_USED_BYTES,
}
RATIOS = frozenset(MEANS) - {"framebuffer_used_bytes"}


class Owners:
    """The (window, consumer, container) that each pair of a pass belongs to, by number."""

    def __init__(self, columns: Pass) -> None:
        self.keys: list[tuple[int, ConsumerKey, str]] = []
        numbers: dict[tuple[int, ConsumerKey, str], int] = {}
        self.of_pair: Longs = np.zeros(columns.pairs, np.int64)
        for index, prepared in enumerate(columns.windows):
            for process in range(len(prepared.people.processes)):
                key = (index, prepared.people.consumer(process), prepared.container(process))
                number = numbers.setdefault(key, len(numbers))
                if number == len(self.keys):
                    self.keys.append(key)
                first = prepared.pair(process, 0)
                self.of_pair[first : first + prepared.width] = number


def add_usage(columns: Pass, ledgers: Sequence[Ledger], found: Usage) -> None:
    """Usage of each consumer on each device to its row; on a device that it neither held nor used, a row
    of its own without money. Calls on devices that are not known only leave a flag."""
    owners = Owners(columns)
    for pair in np.flatnonzero(found.calls).tolist():
        index, consumer, container = owners.keys[int(owners.of_pair[pair])]
        prepared, ledger = columns.windows[index], ledgers[index]
        number = (pair - prepared.first_pair) % prepared.width
        if number == prepared.unknown:
            _flag_consumer(ledger, consumer, Flag.DEVICE_UNKNOWN)
            continue
        row = _row(prepared, ledger, number, consumer, container)
        row.launches += int(found.launches[pair])
        row.launched_threads += int(found.threads[pair])
        row.bytes_h2d += int(found.bytes_h2d[pair])
        row.bytes_d2h += int(found.bytes_d2h[pair])
        row.bytes_d2d += int(found.bytes_d2d[pair])
        row.synchronize_wait_ns += int(found.wait_ns[pair])
        row.api_errors += int(found.errors[pair])
    for (owner, place), held in memory(columns, owners.of_pair).items():
        index, consumer, container = owners.keys[owner]
        prepared, ledger = columns.windows[index], ledgers[index]
        if place - prepared.first_device != prepared.unknown and held.peak_bytes:
            _add_memory(_row(prepared, ledger, place - prepared.first_device, consumer, container), held)


def _add_memory(row: Row, held: Memory) -> None:
    row.memory_peak_bytes = held.peak_bytes
    row.memory_byte_seconds = held.byte_seconds
    if row.flags & Flag.OFF_THE_BOOKS:
        row.flags |= Flag.UNBOOKED_MEMORY


def _row(prepared: Prepared, ledger: Ledger, number: int, consumer: ConsumerKey, container: str) -> Row:
    device = prepared.devices[number]
    key = RowKey(device.key.uuid, consumer, container, "none")
    known = key in ledger.rows
    piece = next((one for one in device.pieces if is_open(one)), device.pieces[0])
    row = ledger.row(key, piece)
    if not known and not any(_holds(one, consumer) for one in device.pieces):
        row.flags |= Flag.OFF_THE_BOOKS
    return row


def _holds(piece: Piece, consumer: ConsumerKey) -> bool:
    return not piece.holding.known or any(item.consumer == consumer for item in piece.holding.entitlements)


def _flag_consumer(ledger: Ledger, consumer: ConsumerKey, flag: Flag) -> None:
    for row in ledger.rows.values():
        if row.key.consumer == consumer:
            row.flags |= flag


class Silicon:
    """Efficiency and energy by cell and device of a pass."""

    def __init__(self, samples: Samples, mapped: CellMap) -> None:
        self._first = mapped.cells.first.tolist()
        self._piece = mapped.piece.tolist()
        self._means = {}
        for name, field in MEANS.items():
            means = cell_means(of_field(samples, field), mapped.cells)
            self._means[name] = means.integral.tolist(), means.covered.tolist()
        self._instants = _mean_of_instants(of_field(samples, Field.FRAMEBUFFER_USED_BYTES))
        self._joules = _joules(samples, mapped)
        xid = of_field(samples, Field.XID)
        self._xid = dict(zip(xid.device.tolist(), xid.value.astype(np.int64).tolist(), strict=True))

    def add(self, prepared: Prepared, ledger: Ledger) -> None:
        """A window's devices to its rows. A value is the mean over the pieces that the row was in; energy is
        divided as the device's GPU time is."""
        by_device: dict[str, list[Row]] = {}
        for row in ledger.rows.values():
            by_device.setdefault(row.key.device, []).append(row)
        for uuid, number in prepared.device_numbers.items():
            place = prepared.first_device + number
            rows = by_device.get(uuid, [])
            if self._first[place] == self._first[place + 1]:
                continue
            total = sum(row.total_ns for row in rows)
            energy = self._joules.get(place)
            cache: dict[frozenset[int], dict[str, float]] = {}
            for row in rows:
                parts = frozenset(row.parts)
                if parts not in cache:
                    cache[parts] = self._values(place, parts)
                for name, value in cache[parts].items():
                    setattr(row, name, value)
                row.xid = self._xid.get(place, 0)
                if energy is not None and total:
                    row.energy_joules = energy * row.total_ns / total

    def _values(self, place: int, parts: frozenset[int]) -> dict[str, float]:
        cells = [
            cell
            for cell in range(self._first[place], self._first[place + 1])
            if not parts or self._piece[cell] in parts
        ]
        values = {}
        for name, (integral, covered) in self._means.items():
            time = sum(covered[cell] for cell in cells)
            values[name] = sum(integral[cell] for cell in cells) / time if time else nan
            if name in RATIOS:
                values[name] = min(values[name], 1.0)
        if isnan(values["framebuffer_used_bytes"]):
            values["framebuffer_used_bytes"] = self._instants.get(place, nan)
        return values


def _mean_of_instants(samples: Samples) -> dict[int, float]:
    """Mean by device of values that speak for an instant only."""
    chosen = samples.chosen(np.flatnonzero(samples.duration == 0))
    found: dict[int, list[float]] = {}
    for device, value in zip(chosen.device.tolist(), chosen.value.tolist(), strict=True):
        found.setdefault(device, []).append(value)
    return {device: sum(values) / len(values) for device, values in found.items()}


def _joules(samples: Samples, mapped: CellMap) -> dict[int, float]:
    """Energy by device over its observed time: counted, else mean power times time."""
    found: dict[int, float] = {}
    for field, scale in ((Field.POWER_WATTS, 1 / NS_PER_S), (Field.ENERGY_JOULES, 1.0)):
        chosen = of_field(samples, field)
        chosen = chosen.chosen(np.flatnonzero(chosen.duration > 0))
        if field is Field.ENERGY_JOULES:
            chosen = chosen._replace(value=chosen.value / chosen.duration)
        means = cell_means(chosen, mapped.cells)
        for device in sorted(set(chosen.device.tolist())):
            first, last = mapped.cells.first[device], mapped.cells.first[device + 1]
            if means.covered[first:last].any():
                found[device] = sum(means.integral[first:last].tolist()) * scale
    return found


def finish(prepared: Prepared, ledger: Ledger) -> None:
    """What concerns every row of a window: losses, completeness, names still pending, evidence."""
    start, end = prepared.window.life_ns
    line = prepared.timeline
    completeness = line.observed_ns / (end - start) if end > start else nan
    pending = {
        prepared.people.consumer(number)
        for number, process in enumerate(prepared.people.processes)
        if process.pending and process.consumer not in prepared.people.pods
    }
    length = prepared.window.window_length_ns
    for row in ledger.rows.values():
        row.completeness = completeness
        row.lost_events = line.lost_events
        if line.lost_events:
            row.flags |= Flag.EVENTS_LOST
        if row.key.consumer in pending:
            row.flags |= Flag.PENDING
        row.entitlement = row.entitlement_ns / length
