"""Charge sets as the Arrow tables of the warehouse: charge_rows and charge_windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuledger.contract.charge_columns import (
    DOUBLE_COLUMNS,
    EFFECTIVE_COLUMNS,
    LONG_COLUMNS,
    NANO_COLUMNS,
    ROW_COLUMNS,
    TEXT_COLUMNS,
    money_name,
)
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.revision import Revision

_MONEY = pa.decimal128(38, 9)  # Decimal(38, 9) of the warehouse: nano-units without rounding
_TIME = pa.timestamp("ms", tz="UTC")
NS_PER_MS = 1_000_000

_row_columns = attrgetter(*ROW_COLUMNS)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A charge set as it came: where it lay in Kafka, and when the broker took it (ms since the epoch).

    The time is the broker's, so that a record read twice makes the same bytes.
    """

    charges: ChargeSet
    topic: str
    partition: int
    offset: int
    received_ms: int

    @property
    def rows(self) -> int:
        """Number of charge rows."""
        return len(self.charges.device)

    @property
    def revision(self) -> int:
        """The revision as one number."""
        c = self.charges
        return Revision(c.generation, c.inputs, c.digest, c.core_version).packed


def charge_rows(arrivals: Sequence[Arrival]) -> pa.Table:
    """All rows of the sets, in order, with the columns of the table charge_rows. At least one set."""
    sets = [a.charges for a in arrivals]
    counts = np.array([a.rows for a in arrivals], np.int64)
    parts = zip(*map(_row_columns, sets), strict=True)
    joined = {name: _joined(name, part) for name, part in zip(ROW_COLUMNS, parts, strict=True)}
    priced, effective = joined["priced"] != 0, joined["effective_known"] != 0
    columns: dict[str, pa.Array] = {
        "cluster": _repeated([s.cluster for s in sets], counts),
        "node": _repeated([s.node for s in sets], counts),
        "window_start": _times([s.window_start_ns // NS_PER_MS for s in sets], counts),
        "revision": pa.array(np.repeat(np.array([a.revision for a in arrivals], np.uint64), counts)),
        "window_length_ns": pa.array(
            np.repeat(np.array([s.window_length_ns for s in sets], np.int64), counts)
        ),
        "state": _repeated([s.state for s in sets], counts),
        "booking_period": _repeated([s.booking_period for s in sets], counts),
        "received_at": _times([a.received_ms for a in arrivals], counts),
    }
    columns |= _texts(sets, counts, joined)
    for name in LONG_COLUMNS:
        columns[name] = pa.array(joined[name])
    for name in DOUBLE_COLUMNS:
        columns[name] = pa.array(joined[name], mask=np.isnan(joined[name]))  # NaN: missing
    for name in NANO_COLUMNS:
        columns[money_name(name)] = _money(joined[name], priced)
    time, money = EFFECTIVE_COLUMNS
    columns[time] = pa.array(joined[time], mask=~effective)
    columns[money_name(money)] = _money(joined[money], priced & effective)
    return pa.table(columns)


def charge_windows(arrivals: Sequence[Arrival]) -> pa.Table:
    """One row per set, with the columns of the table charge_windows."""
    sets = [a.charges for a in arrivals]
    ones = np.ones(len(sets), np.int64)
    return pa.table(
        {
            "cluster": _repeated([s.cluster for s in sets], ones),
            "node": _repeated([s.node for s in sets], ones),
            "window_start": _times([s.window_start_ns // NS_PER_MS for s in sets], ones),
            "revision": pa.array([a.revision for a in arrivals], pa.uint64()),
            "window_length_ns": pa.array([s.window_length_ns for s in sets], pa.int64()),
            "rows": pa.array([a.rows for a in arrivals], pa.uint32()),
            "state": _repeated([s.state for s in sets], ones),
            "generation": pa.array([s.generation for s in sets], pa.uint16()),
            "inputs": pa.array([s.inputs for s in sets], pa.uint32()),
            "core_version": pa.array([s.core_version for s in sets], pa.uint8()),
            "price_version": pa.array([s.price_version for s in sets], pa.int32()),
            "team_version": pa.array([s.team_version for s in sets], pa.int32()),
            "booking_period": _repeated([s.booking_period for s in sets], ones),
            "telemetry_partition": pa.array([s.partition for s in sets], pa.int32()),
            "offset_starts": pa.array([s.offset_starts for s in sets], pa.list_(pa.int64())),
            "offset_counts": pa.array([s.offset_counts for s in sets], pa.list_(pa.int64())),
            "completeness": pa.array([_completeness(s) for s in sets], pa.float64()),
            "lost_events": pa.array([int(s.lost_events.max(initial=0)) for s in sets], pa.int64()),
            "received_at": _times([a.received_ms for a in arrivals], ones),
            "kept_by": _lists([f"{keeper.namespace}/{keeper.pod}" for keeper in s.keepers] for s in sets),
            "kept_by_workload": _lists([keeper.workload for keeper in s.keepers] for s in sets),
            "kept_by_why": _lists([",".join(keeper.why) for keeper in s.keepers] for s in sets),
            "kept_by_count": pa.array([s.keepers_count for s in sets], pa.int64()),
        }
    )


def _lists(texts: Iterable[Sequence[str]]) -> pa.Array:
    return pa.array(list(texts), pa.list_(pa.string()))


def _joined(name: str, parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The columns of all sets as one: np.concatenate takes twice as long for thousands of short ones."""
    octets = b"".join(cast("Sequence[bytes]", parts))  # an array is a buffer, which its type does not say
    return np.frombuffer(octets, np.float64 if name in DOUBLE_COLUMNS else np.int64)


def _texts(
    sets: Sequence[ChargeSet], counts: npt.NDArray[np.int64], joined: Mapping[str, npt.NDArray[np.int64]]
) -> dict[str, pa.Array]:
    """The text columns; each one's dictionary holds only the texts that occur in it."""
    numbers: dict[str, int] = {}
    own = [numbers.setdefault(text, len(numbers)) for s in sets for text in s.texts]
    number = np.array(own, np.int64)  # of each text of each set, in the common dictionary
    values = pa.array(numbers, pa.string())
    base = np.repeat(np.cumsum([0, *(len(s.texts) for s in sets[:-1])]), counts)
    columns = {}
    for name in TEXT_COLUMNS:
        codes = number[joined[name] + base]
        used = np.zeros(len(values), bool)
        used[codes] = True
        chosen = np.flatnonzero(used)
        places = (np.cumsum(used) - 1).astype(_index_type(len(chosen)))
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(places[codes]), values.take(pa.array(chosen)))
    return columns


def _repeated(values: Sequence[str], counts: npt.NDArray[np.int64]) -> pa.DictionaryArray:
    numbers: dict[str, int] = {}
    own = [numbers.setdefault(value, len(numbers)) for value in values]
    codes = np.array(own, _index_type(len(numbers)))
    return pa.DictionaryArray.from_arrays(pa.array(np.repeat(codes, counts)), pa.array(numbers, pa.string()))


def _index_type(size: int) -> type[np.unsignedinteger[Any]]:
    """The narrowest index of a dictionary of ``size``: most columns of a batch have few different texts."""
    if size <= 1 << 8:
        return np.uint8
    return np.uint16 if size <= 1 << 16 else np.uint32


def _times(values_ms: Sequence[int], counts: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.repeat(np.array(values_ms, np.int64), counts)).cast(_TIME)


def _money(nano: npt.NDArray[np.int64], known: npt.NDArray[np.bool_]) -> pa.Array:
    """Nano-units as Decimal(38, 9), without a Python object per value; unknown ones are null."""
    words = np.empty((len(nano), 2), np.int64)  # little-endian 128 bits: low word, sign extension
    words[:, 0] = nano
    words[:, 1] = nano >> 63
    valid = np.packbits(known, bitorder="little")
    return pa.Array.from_buffers(_MONEY, len(nano), [pa.py_buffer(valid), pa.py_buffer(words)])


def _completeness(charges: ChargeSet) -> float | None:
    known = charges.completeness[~np.isnan(charges.completeness)]
    return float(known.min()) if len(known) else None
