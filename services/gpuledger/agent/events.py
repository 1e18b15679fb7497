"""Events as the agent holds them between ring and record: agent time, process and device resolved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.contract.operations import LAUNCHES, SYNCHRONIZING, Operation


class OperationSet:
    """Says which rows are of some operations, by a table: a tenth of what `numpy.isin` costs."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._table = np.zeros(max(Operation) + 2, np.bool_)  # the last place is everything unknown
        self._table[list(operations)] = True

    def of(self, operations: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Whether each is one of them. ``operations``: codes, 1-D."""
        return self._table.take(operations, mode="clip")


_LAUNCHES: Final = OperationSet(LAUNCHES)
_SYNCHRONIZING: Final = OperationSet(SYNCHRONIZING)

AGENT_EVENT: Final = np.dtype(
    [
        ("time_ns", "<i8"),
        ("duration_ns", "<i8"),
        ("bytes", "<i8"),
        ("launched_threads", "<i8"),
        ("function", "<i8"),
        ("span_ns", "<i8"),
        ("count", "<i8"),
        ("process", "<i8"),
        ("tid", "<i8"),
        ("result", "<i4"),
        ("operation", "<i4"),
        ("device", "<i4"),
    ]
)
"""One call, a tally of calls, or a run of outstanding work.

- ``time_ns`` ns since the Unix epoch in agent time at the return
- ``process`` index into the process table; ``device`` position in the node's devices, -1 where not known
- ``function`` 64-bit handle as signed, 0 where there is none
- ``span_ns`` 0, or more where the event came after its window had gone: it returned in
  (time_ns - span_ns, time_ns]
- ``count`` 1

A tally has a count of 1 or more, ``tid`` `NO_THREAD`, and a span; a run (`gpuledger.agent.tallied`) has a
count of 0. Both are as in `gpuledger.agent.probes.events.RAW_EVENT`.
"""

_OPAQUE: Final = np.dtype((np.void, AGENT_EVENT.itemsize))
"""Joined as one block; numpy copies a structure field by field, at ten times the cost."""

Events = npt.NDArray[np.void]
"""An array of `AGENT_EVENT`."""

UNKNOWN_DEVICE: Final = -1
NO_THREAD: Final = -1


def no_events() -> Events:
    """An empty array."""
    return np.empty(0, AGENT_EVENT)


def together(chunks: Sequence[Events]) -> Events:
    """Several chunks as one array, at least one."""
    if len(chunks) == 1:
        return chunks[0]
    return np.concatenate([chunk.view(_OPAQUE) for chunk in chunks]).view(AGENT_EVENT)


def calls(events: Events) -> int:
    """How many calls these events speak for."""
    return int(events["count"].sum())


def single(events: Events) -> npt.NDArray[np.bool_]:
    """Which of these are calls of their own, whose times say when work began and ended."""
    own: npt.NDArray[np.bool_] = (events["tid"] != NO_THREAD) & (events["count"] > 0)
    return own


class Work(NamedTuple):
    """Which events are launches that succeeded, and which are waits, of calls of their own."""

    launch: npt.NDArray[np.bool_]
    wait: npt.NDArray[np.bool_]


def work_of(events: Events) -> Work:
    """What these calls say of work."""
    own = single(events)
    launch = _LAUNCHES.of(events["operation"]) & (events["result"] == 0) & own
    return Work(launch, _SYNCHRONIZING.of(events["operation"]) & own)
