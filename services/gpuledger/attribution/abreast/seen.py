"""What is known of each device of a table, and which of them are simple enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuledger.attribution.abreast.table import Bools, Table
from gpuledger.attribution.gather import ALLOCATE, FREE, FREE_WAIT, KINDS, Pass, Prepared
from gpuledger.attribution.samples import Samples, cell_means, of_field
from gpuledger.attribution.sharing import Shares, spread
from gpuledger.attribution.silicon import Silicon
from gpuledger.attribution.usage import Usage
from gpuledger.attribution.views import LONG_SAMPLE_RATIO, CellMap
from gpuledger.contract.columns import Doubles, Longs, longs
from gpuledger.contract.fields import Field

MAX_PRESENT = 500  # processes of a device: sums of what is cut to 2**53 each are far below 63 bits
IS_MOVE = np.zeros(KINDS, bool)
IS_MOVE[[ALLOCATE, FREE, FREE_WAIT]] = True


class Facts(NamedTuple):
    """What calls and samples of a pass say, as columns. ``lengths``: of the window, by device of the pass."""

    columns: Pass
    samples: Samples
    mapped: CellMap
    shares: Shares
    lengths: Longs
    usage: Usage
    silicon: Silicon


class Resident(NamedTuple):
    """Bytes that processes keep, by pair of the pass."""

    pair: Longs
    size: Longs


def resident_of(table: Table, ready: Sequence[Prepared]) -> Resident:
    """What the states of a table's windows say is resident."""
    pairs, sizes = [longs([])], [longs([])]
    for index, frame in zip(table.windows, table.frames, strict=True):
        state = ready[index].records.holdings[0]
        if len(state.resident_process):
            pair = frame.state_processes[state.resident_process] + frame.state_devices[state.resident_device]
            pairs.append(pair + ready[index].first_pair)
            sizes.append(state.resident_bytes)
    return Resident(np.concatenate(pairs), np.concatenate(sizes))


class Seen(NamedTuple):
    """Columns by device of a table: its one cell and that cell's length; ratios of the silicon, NaN where
    missing; how many processes are known there. ``simple``: what is not said here does not matter. By pair
    of the pass: its device in the table, -1 for others, whether it is ``viewed``, known to be on its device,
    and what NVML measured of it and for how long.
    """

    cell: Longs
    length: Longs
    simple: Bools
    engine: Doubles
    utilization: Doubles
    sm_active: Doubles
    processes: Longs
    row_of_pair: Longs
    viewed: Bools
    measured: Doubles
    cover: Doubles


def seen(table: Table, facts: Facts, resident: Resident) -> Seen:
    """See ``Seen``. A device is simple that has one observed piece, no sample beyond its window, and on it
    only processes whose calls are seen, whose container is that of their seat, and whose memory stays; and no
    call of the window is on a device that is not known."""
    columns, samples, mapped, shares, lengths, found, _ = facts
    cells = mapped.cells
    first, count = cells.first[table.place], np.diff(cells.first)[table.place]
    one = table.facts.abreast & (count == 1)
    cell = np.where(one, first, 0)
    ratios = [
        _ratio(samples, field, mapped)[cell]
        for field in (Field.ENGINE_ACTIVE, Field.GPU_UTILIZATION, Field.SM_ACTIVE)
    ]
    row_of_pair = table.row_of_place[columns.pair_device]
    measured, cover = _measured(samples, mapped, columns.pairs)
    viewed = np.zeros(columns.pairs, bool)
    viewed[resident.pair] = True
    viewed[shares.pair] = True
    viewed |= cover > 0
    present = viewed | (found.calls > 0)
    odd = (present & ~table.fits) | (viewed & ~table.witnessed) | _moving(columns)
    rows = len(table.place)
    lost = columns.pair_device[(found.calls > 0) & (table.claim_of_pair < 0)]
    blind = np.isin(table.unknown, lost)[table.window]
    many = _count(present, row_of_pair, rows) > MAX_PRESENT
    return Seen(
        cell=cell,
        length=(cells.end - cells.start)[cell],
        simple=one & ~(_any(odd, row_of_pair, rows) | _long(samples, lengths)[table.place] | blind | many),
        engine=ratios[0] * table.facts.scale,
        utilization=ratios[1],
        sm_active=ratios[2],
        processes=_count(viewed, row_of_pair, rows),
        row_of_pair=row_of_pair,
        viewed=viewed,
        measured=measured,
        cover=cover,
    )


def _moving(columns: Pass) -> Bools:
    """The pairs whose memory changes within the window."""
    moving = np.zeros(columns.pairs, bool)
    moving[columns.pair[IS_MOVE[columns.kind]]] = True
    return moving


def _count(chosen: Bools, row: Longs, rows: int) -> Longs:
    """How many of the pairs chosen are on each device of the table."""
    of = row[chosen]
    return np.bincount(of[of >= 0], minlength=rows)


def _any(chosen: Bools, row: Longs, rows: int) -> Bools:
    found: Bools = _count(chosen, row, rows) > 0
    return found


def _ratio(samples: Samples, field: Field, mapped: CellMap) -> Doubles:
    """Mean by cell, NaN where nothing covers it."""
    means = cell_means(of_field(samples, field), mapped.cells)
    ratio = np.full(len(means.covered), np.nan)
    np.divide(means.integral, means.covered, out=ratio, where=means.covered > 0)
    return ratio


def _long(samples: Samples, lengths: Longs) -> Bools:
    """By device of the pass: whether a sample of its occupied share is longer than its window."""
    found = np.zeros(len(lengths), bool)
    long = samples.duration > lengths[samples.device] * LONG_SAMPLE_RATIO
    long &= (samples.field == Field.ENGINE_ACTIVE) | (samples.field == Field.SM_ACTIVE)
    found[samples.device[long]] = True
    return found


def _measured(samples: Samples, mapped: CellMap, pairs: int) -> tuple[Doubles, Doubles]:
    """(busy ns, covered ns) by pair, by NVML; only where a device has one cell."""
    chosen = of_field(samples, Field.PROCESS_SM_UTILIZATION)
    chosen = chosen.chosen(np.flatnonzero((chosen.pair >= 0) & (chosen.duration > 0)))
    rows, _, start, end = spread(chosen.device, chosen.start, chosen.start + chosen.duration, mapped.cells)
    length, pair = end - start, chosen.pair[rows]
    return (
        np.bincount(pair, chosen.value[rows] * length, pairs).astype(np.float64),
        np.bincount(pair, length, pairs).astype(np.float64),
    )
