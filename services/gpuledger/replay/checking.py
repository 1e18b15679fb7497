"""Whether what was charged is what a replay computes: every column but the revision and the lineage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.windows import HOUR_NS
from gpuledger.replay.configurations import REPLAYED
from gpuledger.replay.partition import state_path
from gpuledger.replay.recorded import RECORDED
from gpuledger.replay.request import Request
from gpuledger.replay.state import State

MAX_SHOWN = 100  # of what differs; the rest is counted
NOT_IN_LEDGER, NOT_IN_REPLAY = "not in the ledger", "not in the replay"
BESIDE = frozenset(
    {"generation", "inputs", "digest", "core_version", "partition", "offset_starts", "offset_counts"}
)
"""Revision and lineage."""
_COMPARED = tuple(item.name for item in fields(ChargeSet) if item.name not in BESIDE)


@dataclass(frozen=True, slots=True)
class Difference:
    """A window that differs: in which columns, or on which side it is missing."""

    node: NodeKey
    window_start_ns: int
    what: tuple[str, ...]


@dataclass(slots=True)
class Comparison:
    """How many windows were compared, how many differ, and the first of those."""

    windows: int = 0
    different: int = 0
    shown: list[Difference] = field(default_factory=list)

    def add(self, found: Iterable[Difference | None]) -> None:
        """Count the outcomes of windows; None: equal."""
        for difference in found:
            self.windows += 1
            if difference is not None:
                self.different += 1
                if len(self.shown) < MAX_SHOWN:
                    self.shown.append(difference)


def compare(request: Request, partitions: int, directory: Path) -> Comparison:
    """Compare the two sides of every state file, an hour at a time."""
    comparison = Comparison()
    for partition in range(partitions):
        state = State(state_path(directory, partition), request.fingerprint)
        try:
            for hour in state.hours(HOUR_NS):
                sides = (state.sets(side, hour, hour + HOUR_NS) for side in (REPLAYED, RECORDED))
                comparison.add(differences(*sides))
        finally:
            state.close()
    return comparison


def differences(replayed: Iterable[ChargeSet], recorded: Iterable[ChargeSet]) -> Iterator[Difference | None]:
    """The outcome of each window that either side has. A window that one side withdraws (no rows) and the
    other does not know is the same to everybody who reads the ledger."""
    ours, theirs = _by_window(replayed), _by_window(recorded)
    for key in sorted({*ours, *theirs}):
        what = _what(ours.get(key), theirs.get(key))
        yield Difference(*key, what) if what else None


def _what(ours: ChargeSet | None, theirs: ChargeSet | None) -> tuple[str, ...]:
    if ours is None or theirs is None:
        only = ours or theirs
        assert only is not None
        if not len(only.device):
            return ()
        return (NOT_IN_LEDGER,) if theirs is None else (NOT_IN_REPLAY,)
    return tuple(
        name for name in _COMPARED if not _same(getattr(ours, name), getattr(theirs, name))
    )  # fmt: skip


def _by_window(sets: Iterable[ChargeSet]) -> dict[tuple[NodeKey, int], ChargeSet]:
    return {(NodeKey(one.cluster, one.node), one.window_start_ns): one for one in sets}


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return bool(a.tobytes() == b.tobytes())
    same: bool = a == b
    return same
