"""What was booked of closed months is kept before it changes: the state of each hour, by its version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from gpuledger.contract.errors import WarehouseUnavailable
from gpuledger.contract.periods import Booked, keep, period_of
from gpuledger.contract.windows import NS_PER_S
from gpuledger.sink.hours import HourKeeper, Key, key_columns, scope_of, uint128
from gpuledger.warehouse.client import Warehouse

ATTEMPTS = 20  # an hour of a closed month that changes at each reading is written by several at once
MAX_REMEMBERED = 1_000_000  # hours, some 200 MB; beyond that the warehouse is asked again

_KEPT = """
SELECT cluster, node, toUnixTimestamp(hour) AS hour_s, through, booking_period, version
FROM charge_bookings FINAL
WHERE (cluster, node, toUnixTimestamp(hour)) IN {hours:Array(Tuple(String, String, UInt32))}
    AND hour >= fromUnixTimestamp({first:UInt32}) AND hour < fromUnixTimestamp({end:UInt32})
"""
_DIRTY = """
SELECT cluster, node, toUnixTimestamp(hour) AS hour_s
FROM charge_dirty_hours
WHERE (cluster, node, hour_s) IN {hours:Array(Tuple(String, String, UInt32))}
"""
_STORED = """
SELECT cluster, node, toUnixTimestamp(hour) AS hour_s, version
FROM charge_hours FINAL
WHERE (cluster, node, toUnixTimestamp(hour)) IN {hours:Array(Tuple(String, String, UInt32))}
    AND hour >= fromUnixTimestamp({first:UInt32}) AND hour < fromUnixTimestamp({end:UInt32})
"""


class BookedHours:
    """Keeps the states of hours that are booked. Owned by the writer's thread; raises as Warehouse does."""

    def __init__(self, warehouse: Warehouse, hours: HourKeeper) -> None:
        self._warehouse = warehouse
        self._hours = hours
        self._kept: set[tuple[Key, str]] = set()  # with the month through which it was closed

    def keep(self, changing: Mapping[Key, str]) -> None:
        """Before hours change: keep what was booked of them, where their month is closed and it is not kept
        yet. ``changing`` has the last month that is closed for what changes them.
        """
        closed = {
            key: through
            for key, through in changing.items()
            if through and period_of(key[2] * NS_PER_S) <= through and (key, through) not in self._kept
        }
        if not closed:
            return
        states = self._states(list(closed))
        kept = self._read_kept(list(closed))
        news: list[tuple[Key, Booked]] = []
        for key, through in closed.items():
            one = keep(kept.get(key, ()), period_of(key[2] * NS_PER_S), through, states.get(key, 0))
            if one is not None:
                news.append((key, one))
        self._write(news)
        if len(self._kept) > MAX_REMEMBERED:
            self._kept.clear()
        self._kept.update(closed.items())

    def _states(self, keys: list[Key]) -> dict[Key, int]:
        """The versions of the hours' sums as they stand, once those are stored; none of one without any."""
        scope = scope_of(keys)
        dirty = {(r[0], r[1], r[2]) for r in self._warehouse.rows(_DIRTY, {"hours": keys})}
        for _ in range(ATTEMPTS):
            dirty -= self._hours.store(sorted(dirty)) if dirty else set()
            if not dirty:
                found = self._warehouse.rows(_STORED, scope)
                return {(r[0], r[1], r[2]): int(r[3]) for r in found}
        raise WarehouseUnavailable("hours of a closed month change too fast to be kept")

    def _read_kept(self, keys: list[Key]) -> dict[Key, list[Booked]]:
        found: dict[Key, list[Booked]] = {}
        for cluster, node, hour_s, through, period, version in self._warehouse.rows(_KEPT, scope_of(keys)):
            found.setdefault((cluster, node, hour_s), []).append(Booked(through, period, int(version)))
        return found

    def _write(self, news: Sequence[tuple[Key, Booked]]) -> None:
        if not news:
            return
        columns = key_columns([key for key, _ in news]) | {
            "through": pa.array([one.through for _, one in news], pa.string()),
            "booking_period": pa.array([one.booking_period for _, one in news], pa.string()),
            "version": uint128([one.version for _, one in news]),
        }
        self._warehouse.insert_arrow("charge_bookings", pa.table(columns))
