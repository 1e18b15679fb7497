"""What stands on the row of each claim: its parts of the cost, and what remarks.py, beside.py and silicon.py
say beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.abreast.divided import Costs, Parts
from gpuledger.attribution.abreast.explained import Explained
from gpuledger.attribution.abreast.integers import scaled, scaled_up
from gpuledger.attribution.abreast.seen import Resident, Seen
from gpuledger.attribution.abreast.table import Bools, Table
from gpuledger.attribution.formula import Category
from gpuledger.attribution.gather import Prepared
from gpuledger.attribution.remarks import PPB
from gpuledger.attribution.residency import byte_seconds
from gpuledger.attribution.silicon import Silicon
from gpuledger.attribution.usage import Usage
from gpuledger.contract.columns import MAX_SUM, Doubles, Longs, longs
from gpuledger.contract.rows import EVIDENCE_ORDER, Flag

Columns = dict[str, npt.NDArray[Any]]
CATEGORIES = tuple(category.name.lower() for category in Category)
BUSY_ESTIMATED, DEVICE_TOTAL, NONE = map(EVIDENCE_ORDER.index, ("busy_estimated", "device_total", "none"))
USAGE = {
    "launches": "launches",
    "launched_threads": "threads",
    "bytes_h2d": "bytes_h2d",
    "bytes_d2h": "bytes_d2h",
    "bytes_d2d": "bytes_d2d",
    "synchronize_wait_ns": "wait_ns",
    "api_errors": "errors",
}
"""Columns of rows, and those of Usage that they sum."""


class Claims(NamedTuple):
    """Rows: ``claim`` and its device by number, the code of its evidence, and all columns of numbers."""

    claim: Longs
    device: Longs
    evidence: Longs
    columns: Columns


@dataclass(slots=True)
class Known:
    """All that is known of the devices of a table; ``chosen`` are those whose rows are made here."""

    table: Table
    there: Seen
    found: Explained
    costs: Costs
    chosen: Bools

    @property
    def workers(self) -> Longs:
        """The processes at work on the devices chosen, as rows of ``found``."""
        return np.flatnonzero(self.chosen[self.found.device])


class _Who(NamedTuple):
    """By claim: whether it is the pool's, has a holder, a process that is known there, a part of the cost."""

    pool: Bools
    held: Bools
    viewed: Bools
    paying: Bools


def claims_of(
    known: Known, parts: Parts, usage: Usage, resident: Resident, silicon: Silicon, ready: Sequence[Prepared]
) -> Claims:
    """The rows of the devices chosen, in order; those with nothing to say are left out."""
    table = known.table
    size, device = table.claims, table.row_of_claim()
    who = _who(known, parts, size)
    columns: Columns = {}
    _money(known, parts, size, columns)
    _remarks(known, size, columns)
    _effective(known, parts, size, columns)
    _usage(known, usage, resident, size, columns)
    counts = [*(columns[name] for name in USAGE if name != "launched_threads")]
    counts += [columns["memory_peak_bytes"], columns["busy_ns"]]
    amounts = [columns[f"{name}_{unit}"] for name in CATEGORIES for unit in ("ns", "nano")]
    something = np.any([column != 0 for column in (*amounts, *counts)], axis=0)
    rows = np.flatnonzero(known.chosen[device] & something)
    device = device[rows]
    columns["flags"] = _flags(known, who, columns["memory_peak_bytes"] > 0, ready)
    columns = {name: column[rows] for name, column in columns.items()}
    columns |= silicon.of_devices(table.place[device], known.there.cell[device])
    joules = columns["energy_joules"]
    total = sum(columns[f"{name}_ns"] for name in CATEGORIES)
    columns["energy_joules"] = joules * total / known.costs.time[device]
    priced = np.array([cost is not None and cost.priced for cost in known.costs.of], np.int64)
    columns["priced"] = priced[device]
    of_window = [_of_window(ready[index]) for index in table.windows]
    window = table.window[device]
    columns["completeness"] = np.array([one[0] for one in of_window], np.float64)[window]
    columns["lost_events"] = longs([one[1] for one in of_window])[window]
    evidence = np.where(known.found.by_device, DEVICE_TOTAL, BUSY_ESTIMATED)[device]
    evidence = np.where(who.viewed[rows], BUSY_ESTIMATED, evidence)
    unknown = ~(who.viewed | who.held | who.pool)[rows]
    return Claims(rows, device, np.where(unknown, NONE, evidence), columns)


def _who(known: Known, parts: Parts, size: int) -> _Who:
    table = known.table
    pool, held, viewed, paying = (np.zeros(size, bool) for _ in range(4))
    pool[table.claim + table.facts.free] = True
    pool[table.claim + table.facts.unexplained] = True
    held[table.holders.seat] = True
    there = table.claim_of_pair[known.there.viewed]
    viewed[there[there >= 0]] = True
    paying[parts.claim] = True
    return _Who(pool, held, viewed, paying)


def _money(known: Known, parts: Parts, size: int, columns: Columns) -> None:
    for unit, amount in (("ns", parts.ns), ("nano", parts.nano), ("unpriced", parts.unpriced)):
        laid = np.zeros((len(Category), size), np.int64)
        laid[parts.category, parts.claim] = amount
        if unit == "unpriced":
            columns["unpriced_ns"] = laid.sum(axis=0)
        else:
            columns |= {f"{name}_{unit}": laid[code] for code, name in enumerate(CATEGORIES)}


def _remarks(known: Known, size: int, columns: Columns) -> None:
    """Busy time, its bounds, what was borrowed, entitlement (remarks.py)."""
    table, found, costs = known.table, known.found, known.costs
    workers = known.workers
    claim, rows = found.claim[workers], found.device[workers]
    used, low, high = found.used[workers], found.low[workers], found.high[workers]
    length, denominator = known.there.length[rows], table.facts.denominator[rows]
    weight = np.zeros(size, np.int64)
    weight[table.holders.seat] = table.holders.weight
    above = np.maximum(0, used * denominator - weight[claim] * length)
    for name, values in (
        ("busy_ns", found.busy[workers]),
        ("confidence_low_ns", scaled(costs.time[rows], low, length)[0]),
        ("confidence_high_ns", scaled_up(costs.time[rows], high, length)),
        ("borrowed_ns", scaled(costs.time[rows], above, length * denominator)[0]),
        ("borrowed_nano", scaled(costs.nano[rows], above, length * denominator)[0]),
    ):
        columns[name] = np.zeros(size, np.int64)
        columns[name][claim] = values
    entitlement = np.zeros(size)
    holders = table.holders
    part_ns = holders.part * known.there.length[holders.device]
    windows = np.array([frame.window_length_ns for frame in table.frames], np.float64)
    entitlement[holders.seat] = part_ns / windows[table.window[holders.device]]
    columns["entitlement"] = entitlement


def _effective(known: Known, parts: Parts, size: int, columns: Columns) -> None:
    """Used x SM active, at most used; where SM-time is shared all of it (remarks.py, ``effective``)."""
    facts, found = known.table.facts, known.found
    using = np.flatnonzero(parts.category == Category.USED)
    claim = parts.claim[using]
    device = np.searchsorted(known.table.claim, claim, side="right") - 1
    active = known.there.sm_active[device]
    users = np.bincount(found.device[found.used > 0], minlength=len(known.chosen))
    rated = ~facts.by_sm[device] & ~facts.sliced[device] & ~np.isnan(active) & (users[device] == 1)
    used = np.ones(size, np.int64)
    used[found.claim] = found.used
    ratio = _ratio(np.where(rated, active, 0.0), known.there.length[device], used[claim])
    ratio = np.where(facts.by_sm[device], PPB, ratio)
    whole = np.full(len(claim), PPB)
    for name, values in (
        ("effective_known", (rated | facts.by_sm[device]).astype(np.int64)),
        ("effectively_used_ns", scaled(parts.ns[using], ratio, whole)[0]),
        ("effectively_used_nano", scaled(parts.nano[using], ratio, whole)[0]),
    ):
        columns[name] = np.zeros(size, np.int64)
        columns[name][claim] = values


def _ratio(active: Doubles, length: Longs, used: Longs) -> Longs:
    """SM active over the occupied share of the one who used it, at most 1, in 1/PPB."""
    share = np.rint(active * PPB)
    beyond = share * length >= 2.0 * PPB * used
    found = scaled(np.where(beyond, 0.0, share).astype(np.int64), length, used)[0]
    return np.where(beyond, PPB, np.minimum(PPB, found))


def _usage(known: Known, usage: Usage, resident: Resident, size: int, columns: Columns) -> None:
    """What was asked of the devices, and the memory that was kept (beside.py)."""
    table = known.table
    pairs = np.flatnonzero((usage.calls > 0) & (table.claim_of_pair >= 0))
    claim = table.claim_of_pair[pairs]
    for name, field in USAGE.items():
        columns[name] = np.zeros(size, np.int64)
        np.add.at(columns[name], claim, getattr(usage, field)[pairs])
    held = np.zeros(size, np.int64)
    rows = np.flatnonzero(table.claim_of_pair[resident.pair] >= 0)
    np.add.at(held, table.claim_of_pair[resident.pair[rows]], np.minimum(resident.size[rows], MAX_SUM))
    columns["memory_peak_bytes"] = np.minimum(held, MAX_SUM)
    seconds = np.full(size, np.nan)
    some = np.flatnonzero(held)
    device = np.searchsorted(table.claim, some, side="right") - 1
    spans = known.there.length[device].tolist()
    seconds[some] = [
        byte_seconds(bytes_held, span)
        for bytes_held, span in zip(columns["memory_peak_bytes"][some].tolist(), spans, strict=True)
    ]
    columns["memory_byte_seconds"] = seconds


def _flags(known: Known, who: _Who, remembered: Bools, ready: Sequence[Prepared]) -> Longs:
    table, facts = known.table, known.table.facts
    device = table.row_of_claim()
    flags = np.zeros(len(device), np.int64)
    claim, rows = known.found.claim, known.found.device
    intruding = (known.found.used > 0) & ~who.held[claim] & (facts.holders[rows] > 0)
    intruded = np.zeros(len(facts.holders), bool)
    intruded[rows[intruding]] = True
    flags[who.held & intruded[device]] |= int(Flag.INTRUDER)
    flags[claim[intruding]] |= int(Flag.INTRUDER)
    off = ~who.held & ~who.pool
    flags[off] |= int(Flag.OFF_THE_BOOKS)
    flags[off & remembered] |= int(Flag.UNBOOKED_MEMORY)
    flags[who.viewed & who.paying & known.found.scaled_down[device]] |= int(Flag.SCALED_DOWN)
    there = who.held | who.viewed
    sharers = np.bincount(device[there], minlength=len(facts.holders))
    shared = (sharers > 1) | facts.by_sm | facts.sliced
    flags[~who.pool & (shared[device] | ~there)] |= int(Flag.SILICON_SHARED)
    provisional = np.array([cost is not None and cost.provisional for cost in known.costs.of], bool)
    flags[provisional[device]] |= int(Flag.PRICE_PROVISIONAL)
    lost = np.array([ready[index].timeline.lost_events > 0 for index in table.windows], bool)
    flags[lost[table.window[device]]] |= int(Flag.EVENTS_LOST)
    for number, frame in enumerate(table.frames):
        if frame.pending.any():
            mine = slice(int(table.first_claim[number]), int(table.first_claim[number + 1]))
            flags[mine][np.tile(frame.pending, len(frame.pieces))] |= int(Flag.PENDING)
    return flags


def _of_window(prepared: Prepared) -> tuple[float, int]:
    """(completeness, lost events) of a window."""
    start, end = prepared.window.life_ns
    return prepared.timeline.observed_ns / (end - start), prepared.timeline.lost_events
