"""Efficiency and energy beside the money.

The silicon counts for a device, never for a process. Where one consumer alone used or held an exclusive
device or an instance, its values are that consumer's; on all other rows of consumers they are the device's,
and the row is flagged SILICON_SHARED. What can be said of a sharer is in its other columns: used time, bytes,
launches and memory are its own; energy is the device's in the proportion of GPU time, which is an allocation
and no measurement.
"""

from __future__ import annotations

from math import isnan, nan
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.consumers import THE_POOL, ConsumerKey
from gpuledger.attribution.gather import Prepared
from gpuledger.attribution.rows import Row
from gpuledger.attribution.samples import Samples, cell_means, of_field
from gpuledger.attribution.settle import Ledger
from gpuledger.attribution.views import CellMap
from gpuledger.contract.columns import Doubles, Longs
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


SHARED = frozenset(("time_slicing", "mps", "fractional"))

Bools: TypeAlias = npt.NDArray[np.bool_]
Stuck: TypeAlias = set[tuple[int, int]]
"""(device of the pass, piece) in which the profiling counters stood at 0 though the device worked."""


class Silicon:
    """Efficiency and energy by cell and device of a pass."""

    def __init__(self, samples: Samples, mapped: CellMap) -> None:
        self._first = mapped.cells.first.tolist()
        self._piece = mapped.piece.tolist()
        self._by_cell = {
            name: cell_means(of_field(samples, field), mapped.cells) for name, field in MEANS.items()
        }
        self._means = {
            name: (means.integral.tolist(), means.covered.tolist()) for name, means in self._by_cell.items()
        }
        self._instants = _mean_of_instants(of_field(samples, Field.FRAMEBUFFER_USED_BYTES))
        self._joules = _joules(samples, mapped)
        self._devices = len(mapped.cells.first)
        xid = of_field(samples, Field.XID)
        self._xid = dict(zip(xid.device.tolist(), xid.value.astype(np.int64).tolist(), strict=True))

    def add(self, prepared: Prepared, ledger: Ledger, stuck: Stuck, abreast: Bools) -> None:
        """A window's devices to its rows, but for those ``abreast``. A value is the mean over the pieces that
        the row was in, without profiling values in ``stuck`` ones; energy is divided as the device's GPU time
        is."""
        by_device: dict[str, list[Row]] = {}
        for row in ledger.rows.values():
            by_device.setdefault(row.key.device, []).append(row)
        for uuid, number in prepared.device_numbers.items():
            place = prepared.first_device + number
            if abreast[place]:
                continue
            rows = by_device.get(uuid, [])
            _flag_shared(rows)
            if self._first[place] == self._first[place + 1]:
                continue
            total = sum(row.total_ns for row in rows)
            energy = self._joules.get(place)
            cache: dict[frozenset[int], dict[str, float]] = {}
            for row in rows:
                parts = frozenset(row.parts)
                if parts not in cache:
                    cache[parts] = self._values(place, parts, stuck)
                for name, value in cache[parts].items():
                    setattr(row, name, value)
                row.xid = self._xid.get(place, 0)
                if energy is not None and total:
                    row.energy_joules = energy * row.total_ns / total

    def of_devices(self, place: Longs, cell: Longs) -> dict[str, npt.NDArray[Any]]:
        """The values of devices with one cell each, in none of which counters stood; energy is the device's
        own, NaN where it is not known."""
        values: dict[str, npt.NDArray[Any]] = {}
        for name, means in self._by_cell.items():
            covered = means.covered[cell]
            values[name] = np.full(len(cell), nan)
            np.divide(means.integral[cell], covered, out=values[name], where=covered > 0)
            if name in RATIOS:
                values[name] = np.minimum(values[name], 1.0)
        instants, joules = (_laid(found, self._devices)[place] for found in (self._instants, self._joules))
        used = values["framebuffer_used_bytes"]
        values["framebuffer_used_bytes"] = np.where(np.isnan(used), instants, used)
        values["energy_joules"] = joules
        xid = np.zeros(self._devices, np.int64)
        xid[list(self._xid)] = list(self._xid.values())
        values["xid"] = xid[place]
        return values

    def _values(self, place: int, parts: frozenset[int], stuck: Stuck) -> dict[str, float]:
        cells = [
            cell
            for cell in range(self._first[place], self._first[place + 1])
            if not parts or self._piece[cell] in parts
        ]
        values = {}
        alive = [cell for cell in cells if (place, self._piece[cell]) not in stuck]
        for name, (integral, covered) in self._means.items():
            chosen = alive if name in RATIOS else cells
            time = sum(covered[cell] for cell in chosen)
            values[name] = sum(integral[cell] for cell in chosen) / time if time else nan
            if name in RATIOS:
                values[name] = min(values[name], 1.0)
        if isnan(values["framebuffer_used_bytes"]):
            values["framebuffer_used_bytes"] = self._instants.get(place, nan)
        return values


def _laid(found: dict[int, float], size: int) -> Doubles:
    """By number, NaN where there is none."""
    laid = np.full(size, nan)
    laid[list(found)] = list(found.values())
    return laid


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


def _flag_shared(rows: list[Row]) -> None:
    """Flag the rows of consumers that were not alone in each of their pieces of a device."""
    users: dict[int, set[ConsumerKey]] = {}
    for row in rows:
        if row.key.consumer != THE_POOL:
            for part in row.parts:
                users.setdefault(part, set()).add(row.key.consumer)
    for row in rows:
        others = any(len(users[part]) > 1 for part in row.parts if part in users)
        if row.key.consumer != THE_POOL and (others or not row.parts or row.sharing in SHARED):
            row.flags |= Flag.SILICON_SHARED
