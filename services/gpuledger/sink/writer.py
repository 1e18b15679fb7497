"""One batch into ClickHouse: rows, then what is booked of closed months, then marks, then heads. Any prefix
of these steps may be repeated.

Rows are seen only once the head of their window names their revision, so a crash between the steps shows
nothing half. A step that is repeated writes equal rows, which collapse: by the deduplication token while
ClickHouse remembers it, by the tables' keys for good.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpuledger.contract.clock import Clock
from gpuledger.contract.records import Generation
from gpuledger.contract.windows import NS_PER_S, hour_start
from gpuledger.sink.batcher import Batch
from gpuledger.sink.bookings import BookedHours
from gpuledger.sink.hours import HourKeeper, Key
from gpuledger.sink.tables import NS_PER_MS, Arrival
from gpuledger.sink.waiting import WaitingHeads
from gpuledger.warehouse.client import Warehouse


def nothing_is_closed(at_ns: int) -> str:
    """For a ledger whose months nobody closes."""
    return ""


def nothing_is_announced(number: int) -> Generation | None:
    """For a ledger without generations."""
    return None


class Writer:
    """Writes batches and keeps the stored hours in step with them.

    Owned by one thread, as is the connection. Raises WarehouseUnavailable (repeat the same batch) and
    WarehouseError (repeating does not help).
    """

    def __init__(
        self,
        warehouse: Warehouse,
        clock: Clock,
        closed_through: Callable[[int], str] = nothing_is_closed,
        generation_of: Callable[[int], Generation | None] = nothing_is_announced,
    ) -> None:
        """``closed_through`` says which month is the last closed one at an instant (Unix ns), empty: none;
        ``generation_of`` what was announced under a number."""
        self._warehouse = warehouse
        self._clock = clock
        self._closed_through = closed_through
        self._generation_of = generation_of
        self.id = uuid.uuid4().hex
        self._hours = HourKeeper(warehouse, clock, self.id)
        self._booked = BookedHours(warehouse, self._hours)
        self._waiting = WaitingHeads(warehouse, clock, generation_of)
        self._dirty: set[Key] = set()  # marked by this writer and not stored since: need no second mark
        self._last_mark_ns = 0

    def write(self, batch: Batch) -> int:
        """Write a batch and return the number of rows that it had."""
        for part in self._by_close(batch):
            self.write_rows(part)
            self.keep_booked(part.arrivals)
            self.mark(part.arrivals)
            self.publish(part)
        return sum(a.rows for a in batch.arrivals)

    def _by_close(self, batch: Batch) -> list[Batch]:
        """What reached Kafka before a month was closed apart from what came behind: it is booked in it."""
        parts: dict[str, list[Arrival]] = {}
        for arrival in batch.arrivals:
            through = self._closed_through(arrival.received_ms * NS_PER_MS)
            parts.setdefault(through, []).append(arrival)
        if len(parts) == 1:
            return [batch]
        return [Batch(parts[through]) for through in sorted(parts)]

    def write_rows(self, batch: Batch) -> None:
        """Step 1: the rows of every set."""
        if batch.rows is not None:
            self._warehouse.insert_arrow("charge_rows", batch.rows, f"rows {batch.token}")

    def keep_booked(self, arrivals: Sequence[Arrival], at_ns: int = 0) -> None:
        """Step 2: keep what is booked of hours of closed months, before they change.

        A month is closed for what reached Kafka later, or for what is written at ``at_ns``.
        """
        changing: dict[Key, str] = {}
        for arrival in arrivals:
            through = self._closed_through(max(at_ns, arrival.received_ms * NS_PER_MS))
            if through:
                key = _hour(arrival)
                changing[key] = max(through, changing.get(key, ""))
        self._booked.keep(changing)

    def mark(self, arrivals: Sequence[Arrival]) -> None:
        """Step 3: say which hours change, before they do."""
        self._mark({_hour(arrival) for arrival in arrivals})

    def _mark(self, keys: Iterable[Key]) -> None:
        hours = set(keys) - self._dirty
        if not hours:
            return
        # Grows for this writer also when the clock is set back.
        self._last_mark_ns = max(self._last_mark_ns + 1, self._clock.unix_ns())
        table = _marks(sorted(hours), self.id, self._last_mark_ns)
        self._warehouse.insert_arrow("charge_hour_marks", table, f"marks {self.id} {self._last_mark_ns}")
        self._dirty |= hours

    def publish(self, batch: Batch) -> None:
        """Step 4: the heads, which make the rows seen; those of a generation once their hour may be shown."""
        heads = batch.windows
        numbers = pc.unique(heads["generation"]).to_pylist()
        announced = [number for number in numbers if number and self._generation_of(number) is not None]
        restated = pc.is_in(heads["generation"], pa.array(announced, pa.uint16()))
        live, waiting = heads.filter(pc.invert(restated)), heads.filter(restated)
        if live.num_rows:
            self._warehouse.insert_arrow("charge_windows", live, f"heads {batch.token}")
        if waiting.num_rows:
            self._waiting.put(waiting, batch.token)
        self.show_waiting()

    @property
    def waits(self) -> bool:
        """Whether heads wait for others of their hour."""
        return self._waiting.any

    def show_waiting(self) -> None:
        """Show the hours that are complete, if it is time to look."""
        self._waiting.show(self._mark)

    def store_hours(self) -> int:
        """Store the sums of settled hours that changed; returns how many are clean now.

        Never between the steps of a batch: this writer's marks are cleaned for the heads that are in.
        """
        clean = self._hours.round()
        self._dirty -= clean
        return len(clean)


def _hour(arrival: Arrival) -> Key:
    charges = arrival.charges
    return charges.cluster, charges.node, hour_start(charges.window_start_ns) // NS_PER_S


def _marks(hours: Sequence[Key], writer: str, now_ns: int) -> pa.Table:
    return pa.table(
        {
            "cluster": pa.array([h[0] for h in hours], pa.string()),
            "node": pa.array([h[1] for h in hours], pa.string()),
            "hour": pa.array(np.array([h[2] for h in hours], np.int64)).cast(pa.timestamp("s", tz="UTC")),
            "writer": pa.array([writer] * len(hours), pa.string()),
            "dirty": pa.array([now_ns] * len(hours), pa.uint64()),
            "clean": pa.array([0] * len(hours), pa.uint64()),
        }
    )
