"""Which revision of a node's latest windows is counted."""

from __future__ import annotations

import numpy as np

from gpuledger.contract.columns import Longs

# Two hours of windows of 10 s. What a processor sends again after a restart is of one round, however long it
# was away; a spool that arrives late is seldom longer.
KNOWN_WINDOWS = 720
_SIGN = np.uint64(1 << 63)


class KnownRevisions:
    """The counted revisions of the latest windows of one node, of ``length_ns``; older ones are forgotten."""

    __slots__ = ("_revisions", "_starts", "length_ns")

    def __init__(self, length_ns: int) -> None:
        self.length_ns = length_ns
        self._starts = np.full(KNOWN_WINDOWS, -1, np.int64)
        self._revisions = np.zeros(KNOWN_WINDOWS, np.uint64)

    def get(self, start_ns: int) -> int | None:
        """The revision of a window, None where it is not known."""
        place = start_ns // self.length_ns % self._starts.size
        return int(self._revisions[place]) if self._starts[place] == start_ns else None

    def put(self, start_ns: int, revision: int) -> None:
        """Know the revision of a window, unless a later one has its place."""
        place = start_ns // self.length_ns % self._starts.size
        if self._starts[place] <= start_ns:
            self._starts[place] = start_ns
            self._revisions[place] = revision

    def __len__(self) -> int:
        """How many windows are known."""
        return int((self._starts >= 0).sum())

    def columns(self) -> tuple[Longs, Longs]:
        """Starts and revisions of the windows, in the order of time; revisions less 2^63, so that they are
        longs (int64)."""
        order = np.argsort(self._starts, kind="stable")
        order = order[self._starts[order] >= 0]
        return self._starts[order], (self._revisions[order] ^ _SIGN).view(np.int64)

    def put_all(self, starts: Longs, revisions: Longs) -> None:
        """Know what ``columns`` returned."""
        places = starts // self.length_ns % self._starts.size
        self._starts[places] = starts
        self._revisions[places] = revisions.view(np.uint64) ^ _SIGN
