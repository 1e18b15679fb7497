"""The node's one queue: every record goes to the journal first, and leaves in the same order.

Newest entries are kept in memory too, so that in ordinary times nothing is read back. When Kafka is away the
memory overflows and the older ones wait on disk alone; live ones line up behind them. A disk that fails
leaves the entries in memory, up to the memory's bound, and gets them, in order, once it works again. What is
handed out stays until it is acknowledged, so a new producer can be given everything again, in order, from the
first record that was not delivered.

Nothing that was queued is ever dropped. As the journal fills, the oldest windows that wait become coarser
instead (`gpuledger.agent.coarser`): first tallies, then frames without events or samples, whose loss the
header counts and a gap explains. Where that does not make room soon enough the windows that come are coarse
from the beginning (`Pressure`). Only when even frames have no room is the newest record refused: its window
shows the missing part. It is the newest, since what waits may have been sent in part, and is in order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from gpuledger.agent.spool.entry import Entry
from gpuledger.agent.spool.journal import Journal, JournalFull
from gpuledger.agent.spool.marks import Position

MEMORY_BYTES = 4 << 20  # five minutes of a busy node; more waits on disk alone
MEMORY_PART = 16  # of the bound at most: what is in memory is not made coarser
# of the journal's bound; from a half on what waits is made coarser, these are reached where that is too slow
TALLY_FROM = 0.7  # from here on events are tallied as they come, which makes them some 50 times less
HOLLOW_FROM = 0.9  # from here on windows keep their frame and lose their events, counted: room for frames


class Pressure(IntEnum):
    """How full the queue is, and so how coarse the next window has to be; the header's ``coarsening``."""

    NONE = 0
    TALLY = 1
    HOLLOW = 2


class Ticket(NamedTuple):
    """An entry that was handed out: give it back to `NodeQueue.acknowledge` once Kafka has it."""

    number: int
    entry: Entry
    behind: Position | None
    """Position behind it in the journal; None where the disk did not take it."""


class NodeQueue:
    """Append on one thread, take and acknowledge on another. Owns its journal."""

    def __init__(self, journal: Journal, memory_bytes: int | None = None) -> None:
        """``memory_bytes``: `MEMORY_BYTES`, less where the journal's bound is small."""
        self._journal = journal
        self._memory_bytes = memory_bytes or min(MEMORY_BYTES, journal.max_bytes // MEMORY_PART)
        self._lock = threading.Lock()
        self._more = threading.Condition(self._lock)
        self._again: deque[Ticket] = deque()  # handed out to a producer that broke
        self._disk_from = journal.begin  # entries from here ...
        self._disk_to = journal.end  # ... to here are on disk alone
        self._disk: Iterator[tuple[Position, Entry]] | None = None
        self._disk_stop = self._disk_to
        self._tail: deque[tuple[Position | None, Entry]] = deque()
        self._tail_bytes = 0
        self._unwritten = 0  # so many entries at the tail's end are in memory alone
        self._flying: deque[Ticket] = deque()
        self._number = 0
        self.refused = 0
        """Entries that nothing had room for."""
        self.disk_errors = 0

    def append(self, entry: Entry) -> bool:
        """Put an entry behind all others; False where neither disk nor memory has room for it."""
        with self._lock:
            behind: Position | None = None
            try:
                self._write_the_unwritten()
                behind = self._journal.append(entry)
            except JournalFull:
                self.refused += 1
                return False
            except OSError:
                self.disk_errors += 1
                self._evict(self._memory_bytes - entry.size)
                if self._tail_bytes + entry.size > self._memory_bytes:
                    self.refused += 1
                    return False
                self._unwritten += 1
            self._tail.append((behind, entry))
            self._tail_bytes += entry.size
            self._evict(self._memory_bytes)
            self._more.notify()
            return True

    def take(self, timeout_s: float) -> Ticket | None:
        """The next entry to send, waiting at most that long for one. Raises OSError of the disk."""
        with self._lock:
            if not self._has_next():
                self._more.wait(timeout_s)
            if not self._has_next():
                return None
            ticket = self._next()
            if ticket is not None:
                self._flying.append(ticket)
            return ticket

    def acknowledge(self, ticket: Ticket) -> None:
        """Kafka has it. Tickets come back in the order in which they were taken."""
        with self._lock:
            while self._flying and self._flying[0].number <= ticket.number:
                done = self._flying.popleft()
                if done.behind is not None:
                    self._journal.acknowledge(done.behind)

    def rewind(self) -> None:
        """All that was handed out and not acknowledged is handed out again, in the same order."""
        with self._lock:
            self._again.extendleft(reversed(self._flying))
            self._flying.clear()
            self._more.notify()

    @property
    def waiting(self) -> int:
        """Entries in memory that are not acknowledged; those on disk alone are in `waiting_bytes`."""
        with self._lock:
            return len(self._again) + len(self._tail) + len(self._flying)

    @property
    def is_empty(self) -> bool:
        """Whether Kafka has everything."""
        with self._lock:
            return not self._has_next() and not self._flying

    @property
    def waiting_bytes(self) -> int:
        """Bytes on disk; a delivered segment's bytes count until it is deleted."""
        with self._lock:
            return self._journal.bytes

    @property
    def damaged_bytes(self) -> int:
        """Bytes on disk that could not be read again."""
        return self._journal.damaged_bytes

    @property
    def pressure(self) -> Pressure:
        """How coarse the next window has to be."""
        full = self.filled_ratio
        if full >= HOLLOW_FROM:
            return Pressure.HOLLOW
        return Pressure.TALLY if full >= TALLY_FROM else Pressure.NONE

    @property
    def filled_ratio(self) -> float:
        """How much of the journal's bound is taken, 0 to 1."""
        with self._lock:
            return self._journal.bytes / self._journal.max_bytes

    @property
    def undelivered_bytes(self) -> int:
        """Bytes on disk that Kafka has not confirmed."""
        with self._lock:
            return self._journal.waiting_bytes

    def untouched(self, coarseness: int) -> tuple[int, Path] | None:
        """The oldest segment of the journal, and its file, that waits on disk alone, of which no record was
        ever handed out, and that is less coarse than that."""
        with self._lock:
            segment = self._journal.untouched(self._disk_from, self._disk_to, coarseness)
            return None if segment is None else (segment, self._journal.path(segment))

    def is_untouched(self, segment: int) -> bool:
        """Whether still nothing of a segment that `untouched` gave was handed out."""
        with self._lock:
            return segment > self._journal.handed

    def reserve(self, more: int) -> bool:
        """See `Journal.reserve`."""
        with self._lock:
            return self._journal.reserve(more)

    def replace(self, segment: int, coarser: Path, coarseness: int) -> bool:
        """Put a file of the same records, coarser, in the place of a segment; False where one of them was
        handed out meanwhile, and all stays as it is. Raises OSError."""
        with self._lock:
            if segment <= self._journal.handed:
                return False
            self._journal.replace(segment, coarser, coarseness)
            return True

    def settle(self, segment: int, coarseness: int) -> None:
        """See `Journal.settle`; nothing where the segment was handed out meanwhile."""
        with self._lock:
            if segment > self._journal.handed:
                self._journal.settle(segment, coarseness)

    @property
    def is_behind(self) -> bool:
        """Whether entries wait on disk alone."""
        with self._lock:
            return self._disk_from < self._disk_to

    def note(self, sync: bool) -> None:
        """Write down what was delivered; with ``sync`` have the disk keep what waits. Raises OSError."""
        with self._lock:
            self._journal.note()
            if sync:
                self._journal.sync()

    def close(self) -> None:
        """Close the journal; what is left in it is the next life's first work."""
        with self._lock:
            self._disk = None
            self._journal.close()

    def _has_next(self) -> bool:
        return bool(self._again) or self._disk_from < self._disk_to or bool(self._tail)

    def _next(self) -> Ticket | None:
        if self._again:
            return self._again.popleft()
        while self._disk_from < self._disk_to:
            found = self._read_next()
            if found is not None:
                self._disk_from, entry = found
                return self._ticket(entry, self._disk_from)
        if not self._tail:
            return None
        behind, entry = self._tail.popleft()
        self._tail_bytes -= entry.size
        self._unwritten -= behind is None
        return self._ticket(entry, behind)

    def _read_next(self) -> tuple[Position, Entry] | None:
        """The next entry on disk; None at the end of what was to be read when reading began."""
        if self._disk is None:
            self._disk = self._journal.read(self._disk_from, self._disk_to)
            self._disk_stop = self._disk_to
        try:
            found = next(self._disk, None)
        except OSError:
            self._disk = None
            raise
        if found is None:
            self._disk = None
            if self._disk_stop == self._disk_to:
                self._disk_from = self._disk_to
        return found

    def _ticket(self, entry: Entry, behind: Position | None) -> Ticket:
        if behind is not None:
            self._journal.hand_out(behind.segment)
        self._number += 1
        return Ticket(self._number, entry, behind)

    def _write_the_unwritten(self) -> None:
        """Give the disk, in order, what it did not take before. Raises JournalFull, OSError."""
        while self._unwritten:
            _, entry = self._tail[-self._unwritten]
            self._tail[-self._unwritten] = self._journal.append(entry), entry
            self._unwritten -= 1

    def _evict(self, bound: int) -> None:
        """Let go of the oldest in memory that are on disk too, while memory is over the bound."""
        while self._tail_bytes > bound and len(self._tail) > self._unwritten:
            behind, entry = self._tail.popleft()
            assert behind is not None
            self._tail_bytes -= entry.size
            if not self._disk_from < self._disk_to:
                self._disk_from = self._journal.start_of(behind, entry)
                self._disk = None
            self._disk_to = behind
