"""Rows of the ledger while they are summed, and their way into a ChargeSet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.formula import Category
from gpuledger.contract.records import ChargeSet
from gpuledger.pricing import PricedDevice


class RowKey(NamedTuple):
    """The key of a row within its window; its order is the order of the rows."""

    device: str
    consumer: ConsumerKey
    container: str
    reason: str


@dataclass(slots=True)
class Row:
    """One row. ``ns`` and ``nano`` are by Category; see schemas/charge_set.avsc for the rest."""

    key: RowKey
    ns: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    nano: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    unpriced_ns: int = 0
    priced: int = 0
    priced_as: PricedDevice | None = None
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    capacity_type: str = ""
    parent_uuid: str = ""
    gpu_model: str = ""
    mig_profile: str = ""
    sharing: str = ""
    namespace: str = ""
    pod: str = ""
    workload: str = ""
    team: str = ""
    cost_centre: str = ""
    effective_known: int = 0
    effectively_used_ns: int = 0
    effectively_used_nano: int = 0
    currency: str = ""
    borrowed_ns: int = 0
    borrowed_nano: int = 0
    entitlement_ns: float = 0.0  # integral of the entitlement over time
    entitlement: float = math.nan
    policy: str = ""
    price_ids: list[str] = field(default_factory=list)
    busy_ns: int = 0
    launches: int = 0
    launched_threads: int = 0
    bytes_h2d: int = 0
    bytes_d2h: int = 0
    bytes_d2d: int = 0
    memory_peak_bytes: int = 0
    memory_byte_seconds: float = math.nan
    synchronize_wait_ns: int = 0
    api_errors: int = 0
    sm_active: float = math.nan
    sm_occupancy: float = math.nan
    tensor_active: float = math.nan
    dram_active: float = math.nan
    framebuffer_used_bytes: float = math.nan
    energy_joules: float = math.nan
    xid: int = 0
    evidence: str = ""
    confidence_low_ns: int = 0
    confidence_high_ns: int = 0
    completeness: float = math.nan
    lost_events: int = 0
    flags: int = 0
    evidences: list[str] = field(default_factory=list)  # of what is not used
    used_evidences: list[str] = field(default_factory=list)
    parts: set[int] = field(default_factory=set)  # pieces of the device that it was in

    @property
    def total_ns(self) -> int:
        """GPU time of the row."""
        return sum(self.ns)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to say: no time, no money, no usage."""
        counts = (
            self.launches,
            self.bytes_h2d,
            self.bytes_d2h,
            self.bytes_d2d,
            self.memory_peak_bytes,
            self.synchronize_wait_ns,
            self.api_errors,
            self.busy_ns,
        )
        return not any(self.ns) and not any(self.nano) and not any(counts)


_TEXTS = (
    "region",
    "zone",
    "instance_type",
    "capacity_type",
    "parent_uuid",
    "gpu_model",
    "mig_profile",
    "sharing",
    "namespace",
    "pod",
    "workload",
    "team",
    "cost_centre",
    "currency",
    "policy",
    "evidence",
)
_LONGS = (
    "unpriced_ns",
    "priced",
    "effective_known",
    "effectively_used_ns",
    "effectively_used_nano",
    "borrowed_ns",
    "borrowed_nano",
    "busy_ns",
    "launches",
    "launched_threads",
    "bytes_h2d",
    "bytes_d2h",
    "bytes_d2d",
    "memory_peak_bytes",
    "synchronize_wait_ns",
    "api_errors",
    "xid",
    "confidence_low_ns",
    "confidence_high_ns",
    "lost_events",
    "flags",
)
_DOUBLES = (
    "entitlement",
    "memory_byte_seconds",
    "sm_active",
    "sm_occupancy",
    "tensor_active",
    "dram_active",
    "framebuffer_used_bytes",
    "energy_joules",
    "completeness",
)
_longs_of, _doubles_of, _texts_of = attrgetter(*_LONGS), attrgetter(*_DOUBLES), attrgetter(*_TEXTS)
_AMOUNTS = tuple((category.name.lower(), category) for category in Category)


TEXT_NAMES = ("device", "consumer_kind", "consumer", "container", "reason", *_TEXTS, "price_ids")
"""The columns of texts, in the order in which a row's texts are numbered."""

GREATEST = (1 << 63) - 1  # of a long; a count beyond it is shown as this, money is never cut
Columns: TypeAlias = dict[str, npt.NDArray[Any]]


class TextTable(NamedTuple):
    """The texts of a set, and for each of TEXT_NAMES the numbers of its rows' texts."""

    texts: list[str]
    numbers: npt.NDArray[np.int64]


def write_columns(sets: Sequence[tuple[ChargeSet, Sequence[Row]]]) -> None:
    """Fill the rows' columns of each set. The columns of all sets are built at once; a set has views."""
    rows = [row for _, chosen in sets for row in chosen]
    tables = [text_table([texts_of(row) for row in chosen]) for _, chosen in sets]
    lay([charge_set for charge_set, _ in sets], numbers_of(rows), tables)


def lay(sets: Sequence[ChargeSet], numbers: Columns, tables: Sequence[TextTable]) -> None:
    """Give each set its part of the columns of numbers, one after the other, and its texts."""
    names = list(numbers)
    at = 0
    for charge_set, table in zip(sets, tables, strict=True):
        part = slice(at, at + table.numbers.shape[1])
        at = part.stop
        for name in names:
            setattr(charge_set, name, numbers[name][part])
        charge_set.texts = list(table.texts)
        for name, column in zip(TEXT_NAMES, table.numbers, strict=True):
            setattr(charge_set, name, column)


def numbers_of(rows: Sequence[Row]) -> Columns:
    """All columns of numbers of some rows."""
    numbers: Columns = {}
    longs, doubles = _longs(rows), np.array([_doubles_of(row) for row in rows], np.float64)
    numbers.update(zip(_LONGS, longs.reshape(-1, len(_LONGS)).T.copy(), strict=True))
    numbers.update(zip(_DOUBLES, doubles.reshape(-1, len(_DOUBLES)).T.copy(), strict=True))
    for name, category in _AMOUNTS:
        numbers[f"{name}_ns"] = np.array([row.ns[category] for row in rows], np.int64)
        numbers[f"{name}_nano"] = np.array([row.nano[category] for row in rows], np.int64)
    return numbers


def _longs(rows: Sequence[Row]) -> npt.NDArray[np.int64]:
    try:
        return np.array([_longs_of(row) for row in rows], np.int64)
    except OverflowError:
        return np.array([[min(value, GREATEST) for value in _longs_of(row)] for row in rows], np.int64)


def texts_of(row: Row) -> tuple[str, ...]:
    """A row's texts, in the order of TEXT_NAMES."""
    key = row.key
    return (key.device, *key.consumer, key.container, key.reason, *_texts_of(row), ",".join(row.price_ids))


def text_table(rows: Sequence[tuple[str, ...]]) -> TextTable:
    """Texts are numbered in the order in which the rows, sorted by key, first need them."""
    known: dict[str, int] = {}
    numbers = [[known.setdefault(text, len(known)) for text in texts] for texts in rows]
    table = np.array(numbers, np.int64).reshape(-1, len(TEXT_NAMES)).T.copy()
    return TextTable(list(known), table)
