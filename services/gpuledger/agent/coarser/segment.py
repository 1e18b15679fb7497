"""One segment of the spool, one step coarser: a new file, which takes its place whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

from gpuledger.agent import metrics
from gpuledger.agent.coarser.waiting import Place, Waiting, whole_windows
from gpuledger.agent.coarser.window import coarser
from gpuledger.agent.spool import Entry, NodeQueue
from gpuledger.agent.spool.frames import MAGIC_BYTES, MAGICS, entry_at, framed
from gpuledger.agent.spool.journal import COARSER_SUFFIX
from gpuledger.contract.errors import BadRecord


class _Untold(Exception):  # it never leaves this module
    """The segment stays as it is."""


class Done(NamedTuple):
    """What came of a segment: how many records are coarser, and how many calls were taken out of them."""

    records: int = 0
    lost_calls: int = 0


class SegmentCoarsener:
    """Makes one segment coarser in steps of a record. Borrows the queue; used once."""

    def __init__(self, queue: NodeQueue, segment: int, path: Path, coarseness: int) -> None:
        self._queue = queue
        self._segment = segment
        self._path = path
        self._coarseness = coarseness
        self._waiting: list[Waiting] = []
        self._in = self._out = -1
        self._written = 0
        self._next = 0  # index of the record that is written next
        self._done = Done()

    def steps(self) -> Generator[None, None, bool]:
        """Stops between records. Returns whether the segment is as coarse as it can be then; else all of it
        was sent meanwhile, or there is no room for two of it. Raises OSError. However it ends, the segment is
        the one or the other."""
        new = self._path.with_suffix(COARSER_SUFFIX)
        try:
            self._in = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self._out = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            yield from self._look()
            if self._waiting:
                yield from self._write()
            if not self._done.records:
                self._queue.settle(self._segment, self._coarseness)
                return True
            os.ftruncate(self._out, self._written)
            os.fsync(self._out)
            if self._queue.replace(self._segment, new, self._coarseness):
                metrics.say_coarsened(self._coarseness, *self._done)
                _sync_directory(new.parent)
                return True
            return False
        except (_Untold, FileNotFoundError):
            return False
        finally:
            self._let_go(new)

    def _let_go(self, new: Path) -> None:
        for fd in (self._in, self._out):
            if fd >= 0:
                os.close(fd)
        self._queue.reserve(-self._written)
        new.unlink(missing_ok=True)

    def _look(self) -> Iterator[None]:
        """What waits in the segment. One that is damaged stays as it is: nobody knows what is missing."""
        offset, size = MAGIC_BYTES, os.fstat(self._in).st_size
        while offset < size:
            entry, behind = entry_at(self._in, offset, size)
            if entry is None:
                self._waiting.clear()
                return
            self._waiting.append(Waiting.of(entry, offset, behind))
            offset = behind
            yield

    def _write(self) -> Iterator[None]:
        self._put(MAGICS[self._coarseness])
        for window in whole_windows(self._waiting):
            yield from self._copy(window[0].number)
            yield from self._change(window)
        yield from self._copy(len(self._waiting))

    def _change(self, window: list[Place]) -> Iterator[None]:
        """One window, unless that would make it larger, or it can not be read."""
        begin, stop, at, before = self._next, window[-1].number + 1, self._written, self._done
        try:
            for told in coarser(window, self._load, self._coarseness):
                if told is not None:
                    yield from self._copy(told.number)
                    self._put(framed(told.entry))
                    self._next += 1
                    self._done = Done(self._done.records + 1, self._done.lost_calls + told.lost_calls)
                yield
            yield from self._copy(stop)
            smaller = self._written - at < sum(waiting.size for waiting in self._waiting[begin:stop])
        except BadRecord:
            smaller = False
        if not smaller:
            self._next, self._done = begin, before
            self._queue.reserve(at - self._written)
            self._written = at
            yield from self._copy(stop)

    def _copy(self, stop: int) -> Iterator[None]:
        """The records up to that one as they are."""
        for waiting in self._waiting[self._next : stop]:
            self._put(os.pread(self._in, waiting.size, waiting.offset))
            self._next += 1
            yield

    def _put(self, data: bytes) -> None:
        if not (self._queue.is_untouched(self._segment) and self._queue.reserve(len(data))):
            raise _Untold
        at, self._written = self._written, self._written + len(data)
        if os.pwrite(self._out, data, at) != len(data):
            raise OSError(errno.ENOSPC, "no space left", str(self._path))

    def _load(self, index: int) -> Entry:
        waiting = self._waiting[index]
        entry, _ = entry_at(self._in, waiting.offset, waiting.offset + waiting.size)
        if entry is None:
            raise BadRecord("bad_spool_entry", "can not be read any more", position=waiting.offset)
        return entry


def _sync_directory(directory: Path) -> None:
    """Keep the new name through a power cut; before that there is the old file or the new one, both whole."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
