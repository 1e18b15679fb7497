"""Measurements of the silicon, brought to the cells of the devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.gather import Prepared, dictionaries
from gpuledger.attribution.sharing import Cells, spread
from gpuledger.contract.columns import Doubles, Longs, doubles, longs
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.windows import NS_PER_S

SOURCE_PREFERENCE = (
    SampleSource.GPM,
    SampleSource.DCGM_EXPORTER,
    SampleSource.NVML,
    SampleSource.SIMULATED,
    SampleSource.UNKNOWN,
)
"""Of several sources of one field on one device, the first speaks; they are never averaged."""

MAX_SLACK_NS = NS_PER_S // 2  # a sampler at 1 Hz may come late by that much without a hole
SLACK_RATIO = 0.05  # of the window; for windows below 10 s
FIELD_BITS = 16  # codes are 0..65535
MAX_RATIO = 2.0  # of a device: values above 1 were seen on MIG (DCGM#152) and count as 1; beyond is absurd
MAX_VALUE = 2.0**53  # bytes, joules, watts, codes: nothing that is measured on a device is more
DEVICE_RATIOS = (
    Field.SM_ACTIVE,
    Field.SM_OCCUPANCY,
    Field.TENSOR_ACTIVE,
    Field.DRAM_ACTIVE,
    Field.ENGINE_ACTIVE,
    Field.GPU_UTILIZATION,
)


class Samples(NamedTuple):
    """Samples of a pass: sorted by (device, field, start), one source a (device, field).

    ``device`` is the number in the pass, ``pair`` that of a process's value, -1 for the whole device.
    Times are ns since the start of the device's window.
    """

    device: Longs
    pair: Longs
    field: Longs
    start: Longs
    duration: Longs
    value: Doubles

    def chosen(self, rows: npt.NDArray[Any]) -> Samples:
        """The samples of some rows."""
        return Samples(*(column[rows] for column in self))


def gather_samples(windows: Sequence[Prepared]) -> Samples:
    """All samples that can be used: on devices of the layout, not negative, none absurd.

    A device's ratio somewhat above 1 stays: the occupied share is then clamped and flagged. NVML has been
    seen to give 37100 % of a process; such a value is missing, not large.
    """
    parts: list[list[npt.NDArray[Any]]] = [[] for _ in range(7)]
    for prepared in windows:
        for batch in prepared.records.samples:
            if not len(batch.value):
                continue
            process_of, device_of = dictionaries(prepared, batch.processes, batch.devices)
            place = device_of[batch.device].astype(np.int64)
            pair = np.where(batch.process >= 0, np.append(process_of, 0)[batch.process] + place, -1)
            columns = (
                place + prepared.first_device,
                pair,
                batch.field,
                batch.start_ns - prepared.window.window_start_ns,
                batch.duration_ns,
                batch.value,
                np.where(place == prepared.unknown, -1, batch.source),
            )
            for part, column in zip(parts, columns, strict=True):
                part.append(column)
    if not parts[0]:
        return Samples(longs([]), longs([]), longs([]), longs([]), longs([]), doubles([]))
    device, pair, field, start, duration, value, source = (np.concatenate(part) for part in parts)
    rank = np.full(256, len(SOURCE_PREFERENCE))
    for position, code in enumerate(SOURCE_PREFERENCE):
        rank[code] = position
    limit = np.where(np.isin(field, DEVICE_RATIOS), MAX_RATIO, MAX_VALUE)
    limit[field == Field.PROCESS_SM_UTILIZATION] = 1.0
    good = (value >= 0) & (value <= limit) & (source >= 0) & (source < 256)
    rows = np.flatnonzero(good)
    grade = rank[source[rows]]
    series = device[rows] << FIELD_BITS | field[rows]
    order = np.lexsort((value[rows], pair[rows], duration[rows], start[rows], grade, series))
    rows, grade, series = rows[order], grade[order], series[order]
    opens = np.r_[True, series[1:] != series[:-1]] if len(series) else np.zeros(0, bool)
    best = grade[np.flatnonzero(opens)][np.cumsum(opens) - 1] if len(series) else grade
    rows = rows[grade == best]
    found = Samples(*(column[rows] for column in (device, pair, field, start, duration, value)))
    return _once(found)


def _once(samples: Samples) -> Samples:
    """A sample that is repeated in several records counts once."""
    if len(samples.device) < 2:
        return samples
    same = np.ones(len(samples.device) - 1, bool)
    for column in samples[:5]:
        same &= column[1:] == column[:-1]
    return samples.chosen(np.flatnonzero(np.r_[True, ~same]))


def of_field(samples: Samples, field: Field) -> Samples:
    """The samples of one field."""
    return samples.chosen(np.flatnonzero(samples.field == field))


class CellMeans(NamedTuple):
    """Per cell of one field: the integral of value over covered time (value x ns), and that time in ns."""

    integral: Doubles
    covered: Doubles


def cell_means(samples: Samples, cells: Cells) -> CellMeans:
    """Each cell's part of the samples of one field. Values at an instant (duration 0) have none."""
    rows, cell, start, end = spread(samples.device, samples.start, samples.start + samples.duration, cells)
    length = (end - start).astype(np.float64)
    count = len(cells.start)
    return CellMeans(
        np.bincount(cell, length * samples.value[rows], count).astype(np.float64),
        np.bincount(cell, length, count).astype(np.float64),
    )


class Hole(NamedTuple):
    """A stretch of a device's window that no sample of the series covers."""

    device: int
    start: int
    end: int


def holes(samples: Samples, lengths: Longs) -> list[Hole]:
    """Stretches without a sample, longer than a sampler's own unevenness, on devices that have samples.

    ``samples`` are of one field; ``lengths`` is the window's length by device of the pass.
    """
    if not len(samples.device):
        return []
    device, start = samples.device, samples.start
    end = np.minimum(start + samples.duration, lengths[device])
    first = np.r_[True, device[1:] != device[:-1]]
    last = np.r_[first[1:], True]
    # ends as one rising number a device, so that the running maximum stays within it
    step = int(lengths.max()) + 1
    reach = np.maximum.accumulate(np.maximum(end, 0) + device * step) - device * step
    before = np.where(first, 0, np.r_[0, reach[:-1]])
    slack = np.minimum(MAX_SLACK_NS, (lengths[device] * SLACK_RATIO).astype(np.int64))
    found = [
        Hole(int(device[i]), int(before[i]), int(min(start[i], lengths[device[i]])))
        for i in np.flatnonzero(start - before > slack)
    ]
    found += [
        Hole(int(device[i]), int(reach[i]), int(lengths[device[i]]))
        for i in np.flatnonzero(last & (lengths[device] - reach > slack))
    ]
    return sorted(found)
