"""What is waiting to be written, and when it is time: pure, with the clock passed in."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import pyarrow as pa

from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.sink.tables import Arrival, charge_rows, charge_windows

Place = tuple[str, int]
"""Topic and partition."""

MAX_WAIT_S = 0.25  # of the 5 s that a row may take from window end to query
MAX_ROWS = 100_000  # some 50 MB of Arrow, 0.3 s of insert: more rows at once make it no faster
MAX_SETS = 20_000  # bounds the heads of a batch of empty sets
HELD_BATCHES = 4  # beyond these the source is paused: memory stays bounded while ClickHouse is away


class Flow(Enum):
    """What the source should do now."""

    OPEN = "open"
    PAUSED = "paused"


@dataclass
class Batch:
    """Arrivals to be written together, and the offsets to commit once they are in.

    ``through`` is, for each partition, the offset behind the last record that this batch answers for
    (written here, refused, or empty).
    """

    arrivals: list[Arrival] = field(default_factory=list)
    through: dict[Place, int] = field(default_factory=dict)

    @cached_property
    def rows(self) -> pa.Table | None:
        """The rows of all sets for charge_rows; None when every set is empty."""
        filled = [arrival for arrival in self.arrivals if arrival.rows]
        return charge_rows(filled) if filled else None

    @cached_property
    def windows(self) -> pa.Table:
        """One row per set for charge_windows."""
        return charge_windows(self.arrivals)

    def prepare(self) -> None:
        """Build both tables now, in the thread that reads, while another batch is being written."""
        _ = self.rows, self.windows

    def forget(self, places: Collection[Place]) -> None:
        """Do not commit these partitions: they are no longer ours."""
        for place in places:
            self.through.pop(place, None)

    @cached_property
    def token(self) -> str:
        """Names the content: topic, partition, offsets, and a digest of windows and revisions.

        An insert repeated with it is dropped. The digest is there because offsets begin anew when a topic
        is made anew, and then other rows must not pass for these.
        """
        spans: dict[Place, list[int]] = {}
        digest = hashlib.blake2b(digest_size=16)
        for arrival in self.arrivals:
            span = spans.setdefault((arrival.topic, arrival.partition), [arrival.offset, arrival.offset])
            span[0], span[1] = min(span[0], arrival.offset), max(span[1], arrival.offset)
            charges = arrival.charges
            window = (arrival.offset, arrival.received_ms, charges.window_start_ns, arrival.revision)
            digest.update(f"{charges.cluster}/{charges.node}/{window}".encode())
        parts = (f"{t}/{p}:{low}-{high}" for (t, p), (low, high) in sorted(spans.items()))
        return f"{','.join(parts)}#{digest.hexdigest()}"


class Batcher:
    """Collects arrivals in the order in which they come.

    One thread owns it. ``add`` and ``skip`` never refuse; the caller looks at ``flow`` and stops reading.
    """

    def __init__(self, clock: Clock, max_rows: int = MAX_ROWS, max_wait_s: float = MAX_WAIT_S) -> None:
        self._clock = clock
        self._max_rows = max_rows
        self._max_wait_ns = int(max_wait_s * NS_PER_S)
        self._waiting = Batch()
        self._rows = 0
        self._since_ns: int | None = None

    @property
    def flow(self) -> Flow:
        """Whether more may be read; an empty set counts as a row."""
        held = self._rows + len(self._waiting.arrivals)
        return Flow.PAUSED if held >= HELD_BATCHES * self._max_rows else Flow.OPEN

    @property
    def waiting(self) -> Batch:
        """What ``take`` would hand over."""
        return self._waiting

    def add(self, arrival: Arrival) -> None:
        """Take a charge set that is to be written."""
        self._waiting.arrivals.append(arrival)
        self._rows += arrival.rows
        self._answer(arrival.topic, arrival.partition, arrival.offset)

    def skip(self, topic: str, partition: int, offset: int) -> None:
        """Take note of a record that needs no row: refused and kept elsewhere."""
        self._answer(topic, partition, offset)

    def _answer(self, topic: str, partition: int, offset: int) -> None:
        self._waiting.through[(topic, partition)] = offset + 1
        if self._since_ns is None:
            self._since_ns = self._clock.boot_ns()

    def due(self) -> bool:
        """Whether the oldest has waited long enough, or enough has come together."""
        if self._since_ns is None:
            return False
        enough = self._rows >= self._max_rows or len(self._waiting.arrivals) >= MAX_SETS
        return enough or self._clock.boot_ns() - self._since_ns >= self._max_wait_ns

    def take(self) -> Batch:
        """Hand over all that waits; the batcher is empty afterwards."""
        batch, self._waiting = self._waiting, Batch()
        self._rows, self._since_ns = 0, None
        return batch

    def drop(self, places: Collection[Place]) -> None:
        """Forget what came from partitions that are no longer ours; their next owner reads it again."""
        kept = [a for a in self._waiting.arrivals if (a.topic, a.partition) not in places]
        self._waiting.forget(places)
        self._waiting.arrivals = kept
        self._rows = sum(a.rows for a in kept)
        if not self._waiting.through:
            self._since_ns = None
