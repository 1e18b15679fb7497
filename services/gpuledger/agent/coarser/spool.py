"""When what waits becomes coarser, and which of it: the oldest first, and all of it tallied before any of it
is reduced to its frame."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from gpuledger.agent.coarser.segment import SegmentCoarsener
from gpuledger.agent.rules import HOLLOW, TALLY
from gpuledger.agent.spool import NodeQueue
from gpuledger.logs import EventLog

TALLIED_FROM: Final = 0.5  # of the spool's bound: from here on what waits is tallied
HOLLOW_FROM: Final = 0.65  # from here on, once all of it is tallied, it is reduced to its frames

REST_LOOKS: Final = 30  # after a segment that could not be replaced

_log = EventLog(__name__)


class SpoolCoarsener:
    """Makes the oldest that waits coarser while the spool is over its half. Borrows the queue."""

    def __init__(self, queue: NodeQueue) -> None:
        self._queue = queue
        self._work: Generator[None, None, bool] | None = None
        self._undelivered = 0
        self._rest = 0

    def step(self) -> bool:
        """Work on one record at most; False where there is nothing to do now, or the disk does not let it."""
        if self._work is None and not self._begin():
            return False
        assert self._work is not None
        try:
            next(self._work)
        except StopIteration as end:
            return self._end(bool(end.value))
        except OSError as error:
            _log.warning("spool_not_coarsened", error=str(error), then="it is tried again")
            return self._end(False)
        return True

    def _end(self, done: bool) -> bool:
        self._work = None
        self._undelivered = self._queue.undelivered_bytes
        self._rest = 0 if done else REST_LOOKS
        return done

    def close(self) -> None:
        """Leave what is begun as it was."""
        if self._work is not None:
            self._work.close()
            self._work = None

    def _begin(self) -> bool:
        self._rest = max(0, self._rest - 1)
        if self._rest:
            return False
        undelivered, before = self._queue.undelivered_bytes, self._undelivered
        self._undelivered = undelivered
        full = self._queue.filled_ratio
        if full < TALLIED_FROM or undelivered < before:  # Kafka takes it: what is left may go as it is
            return False
        for coarseness in (TALLY, HOLLOW) if full >= HOLLOW_FROM else (TALLY,):
            found = self._queue.untouched(coarseness)
            if found is not None:
                self._work = SegmentCoarsener(self._queue, *found, coarseness).steps()
                return True
        return False
