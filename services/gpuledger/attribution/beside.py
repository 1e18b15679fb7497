"""What stands beside the money: usage, and how complete it all is."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.gather import Pass, Prepared
from gpuledger.attribution.pieces import Piece, is_open
from gpuledger.attribution.residency import Owners, Resident
from gpuledger.attribution.rows import Row, RowKey
from gpuledger.attribution.settle import Ledger
from gpuledger.attribution.usage import Usage
from gpuledger.contract.rows import Flag


def add_usage(
    columns: Pass,
    ledgers: Sequence[Ledger],
    owners: Owners,
    found: Usage,
    resident: dict[tuple[int, int], Resident],
    done: npt.NDArray[np.bool_],
) -> None:
    """Usage of each consumer on each device that is not ``done`` to its row; on one that it neither held nor
    used, a row of its own without money. Calls on devices that are not known only leave a flag."""
    pairs = np.flatnonzero((found.calls > 0) & ~done[columns.pair_device])
    used = zip(pairs.tolist(), *(column[pairs].tolist() for column in found[1:]), strict=True)
    for pair, launches, threads, h2d, d2h, d2d, wait_ns, errors in used:
        index, consumer, container = owners.keys[int(owners.of_pair[pair])]
        prepared, ledger = columns.windows[index], ledgers[index]
        number = (pair - prepared.first_pair) % prepared.width
        if number == prepared.unknown:
            _flag_consumer(ledger, consumer, Flag.DEVICE_UNKNOWN)
            continue
        row = _row(prepared, ledger, number, consumer, container)
        row.launches += launches
        row.launched_threads += threads
        row.bytes_h2d += h2d
        row.bytes_d2h += d2h
        row.bytes_d2d += d2d
        row.synchronize_wait_ns += wait_ns
        row.api_errors += errors
    for (owner, place), held in resident.items():
        index, consumer, container = owners.keys[owner]
        prepared, ledger = columns.windows[index], ledgers[index]
        if not done[place] and place - prepared.first_device != prepared.unknown and held.peak_bytes:
            _add_memory(_row(prepared, ledger, place - prepared.first_device, consumer, container), held)


def _add_memory(row: Row, held: Resident) -> None:
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
