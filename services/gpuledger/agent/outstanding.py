"""What each process has outstanding on each device: from its first launch after idle to the next call whose
return says that all is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpuledger.agent.distinct import distinct
from gpuledger.agent.events import Events, Work
from gpuledger.contract.columns import Longs

_FAR_NS = np.iinfo(np.int64).max


class Pending(NamedTuple):
    """Work outstanding: since the begin of its first launch (agent time), and how many launches."""

    since_ns: int
    launches: int


class Outstanding:
    """The state after all events given so far; give them in order of time."""

    def __init__(self) -> None:
        self._pending: dict[tuple[int, int], Pending] = {}

    def items(self) -> list[tuple[tuple[int, int], Pending]]:
        """((process, device), what is outstanding), in order."""
        return sorted(self._pending.items())

    def apply(self, events: Events, work: Work) -> None:
        """Advance by a chunk of events that is ordered by time. ``work`` is what it says of work; failed
        launches are none, nor is what was tallied: of that, `gpuledger.agent.tallied` knows."""
        chosen = np.flatnonzero(work.launch | work.wait)
        if not len(chosen):
            return
        launched = work.launch[chosen]
        # position of the last synchronising return of each (process, device)
        keys, group = _groups(events["process"][chosen], events["device"][chosen])
        position = np.arange(len(chosen))
        last = np.full(len(keys), -1, np.int64)
        np.maximum.at(last, group[~launched], position[~launched])
        open_ = launched & (position > last[group])
        count = np.bincount(group[open_], minlength=len(keys))
        since = np.full(len(keys), _FAR_NS, np.int64)
        still = chosen[open_]
        np.minimum.at(since, group[open_], events["time_ns"][still] - events["duration_ns"][still])
        for slot, key in enumerate(keys):
            before = None if last[slot] >= 0 else self._pending.get(key)
            launches = int(count[slot]) + (before.launches if before else 0)
            if launches:
                start = before.since_ns if before else int(since[slot])
                self._pending[key] = Pending(start, launches)
            else:
                self._pending.pop(key, None)

    def end(self, process: int) -> None:
        """A process that ended has nothing outstanding."""
        for key in [key for key in self._pending if key[0] == process]:
            del self._pending[key]

    def move(self, place: Callable[[int, int], int | None]) -> None:
        """The node's devices are others: ``place`` gives the position now of (process, device); None where
        its work is gone with the device."""
        moved = {(key[0], place(*key)): pending for key, pending in self._pending.items()}
        self._pending = {(p, d): pending for (p, d), pending in moved.items() if d is not None}

    def shift(self, ns: int) -> None:
        """Go over to another epoch's time."""
        self._pending = {key: Pending(p.since_ns + ns, p.launches) for key, p in self._pending.items()}


def _groups(process: Longs, device: Longs) -> tuple[list[tuple[int, int]], Longs]:
    """Distinct (process, device) and the group of each row."""
    packed = process * (1 << 16) + (device + 1)
    found, group = distinct(packed)
    return [(int(key) >> 16, (int(key) & 0xFFFF) - 1) for key in found], group
