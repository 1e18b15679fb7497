"""The kernel's events in the agent's words: all that needs no knowledge of processes."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from gpuledger.agent.events import AGENT_EVENT, NO_THREAD, Events
from gpuledger.agent.probes.events import RawEvents

_SIZES: Final = ("duration_ns", "bytes", "launched_threads")
_SAME: Final = (*_SIZES, "function", "span_ns", "count", "tid", "result", "operation")
_MOST_CALLS: Final = (1 << 19) - 1  # of one tally
_PID_MIX, _START_MIX, _CGROUP_MIX = (
    np.uint64(0x9E3779B97F4A7C15),  # odd 64-bit constants: the three numbers of a process spread over 64 bits
    np.uint64(0xC2B2AE3D27D4EB4F),
    np.uint64(0x165667B19E3779F9),
)
_SIGN_BIT: Final = 63
MAX_CALL_SIZE: Final = 1 << 43
"""Bytes or threads of one call: 8 TiB. A process may bring a library of its own that says yes to any number,
and a window's sums have to stay numbers."""


def agent_events(raw: RawEvents, offset_ns: int) -> Events:
    """The events in agent time, in the order given; process and device are left 0."""
    events = np.zeros(len(raw), AGENT_EVENT)
    if not len(raw):
        return events
    events["time_ns"] = raw["time_ns"].astype(np.int64) + offset_ns
    for name in _SAME:
        events[name] = raw[name]
    sizes = int(np.bitwise_or.reduce(raw["duration_ns"] | raw["bytes"] | raw["launched_threads"]))
    if sizes >> _SIGN_BIT:
        for name in _SIZES:
            # an argument of 2**63 or more is no size of anything; the call itself still counts
            events[name] = np.maximum(events[name], 0)
    if sizes >= MAX_CALL_SIZE:
        most = np.minimum(np.maximum(events["count"], 1), _MOST_CALLS) * MAX_CALL_SIZE
        for name in ("bytes", "launched_threads"):
            events[name] = np.minimum(events[name], most)
    if (several := raw["span_ns"] > 0).any():
        events["tid"][several] = NO_THREAD
    if (uncounted := raw["count"] == 0).any():
        events["count"][uncounted & ~several] = 1
    return events


def lives(raw: RawEvents) -> npt.NDArray[np.uint64]:
    """One number for each event, the same for those of one process in one cgroup."""
    found: npt.NDArray[np.uint64] = (
        raw["pid"].astype(np.uint64) * _PID_MIX
        + raw["start_ns"].astype(np.uint64) * _START_MIX
        + raw["cgroup_id"].astype(np.uint64) * _CGROUP_MIX
    )
    return found
