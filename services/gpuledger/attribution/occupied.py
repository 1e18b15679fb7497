"""A, the occupied share of a piece (CHARGING.md, A).

Where time is shared: engine active; else what processes are estimated to have used, where every context is
witnessed; else GPU_UTIL, flagged. Where SM-time is shared: SM active where the agent declares it, else the
thread percentages of those who had work outstanding, at each instant and at most 1.

A profiling value of 0 beside GPU_UTIL or outstanding work above 5 % of the piece is missing, not 0: profiling
counters have been seen to stand at 0 for hours (dcgm-exporter#662). Such a piece is flagged.

A sample longer than the window says little of one window: it counts only where not every context is
witnessed, spread evenly and flagged. That holds for a declared SM active too: where an exporter is scraped
every 30 s, the estimate stands in all windows of an epoch.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuledger.attribution.pieces import Piece
from gpuledger.attribution.seen import NOTICEABLE, DeviceView, ProcessView
from gpuledger.contract.rows import Flag

UNEXPLAINED = 0.5  # of a piece; so much beyond what processes explain is a disagreement
NO_FLAGS = Flag(0)
BY_DEVICE = "device_total"
BY_ESTIMATE = "busy_estimated"


class Occupied(NamedTuple):
    """Busy ns of the device as its own counters say, None where they do not; ``source`` is what A rests on,
    ``none`` where A is missing."""

    device_ns: float | None
    source: str
    flags: Flag = NO_FLAGS


def occupied(piece: Piece, device: DeviceView, processes: list[ProcessView], witnessed: bool) -> Occupied:
    """What A is to be taken from; where that is the estimate, A is its sum."""
    if piece.slot.by_sm_time:
        return _by_sm_time(piece, device, processes, witnessed)
    if device.engine_active is not None:
        device = device._replace(engine_active=device.engine_active * piece.slot.engine_scale)
    return _by_time(piece.length_ns, device, processes, witnessed)


def at_work(length: int, device: DeviceView, processes: list[ProcessView]) -> bool:
    """Whether something else than the profiling counters says that the device worked."""
    outstanding = sum(process.outstanding for process in processes)
    return (device.gpu_utilization or 0.0) > NOTICEABLE or outstanding > NOTICEABLE * length


def _by_time(length: int, device: DeviceView, processes: list[ProcessView], witnessed: bool) -> Occupied:
    flags = NO_FLAGS
    engine = device.engine_active
    working = at_work(length, device, processes)
    if (engine == 0.0 or device.sm_active == 0.0) and working:
        flags |= Flag.SIGNALS_DISAGREE
    if engine is not None and (engine > 0.0 or not working):
        return Occupied(engine * length, BY_DEVICE, flags)
    if witnessed:
        estimated = sum(process.estimated for process in processes)
        if device.gpu_utilization is not None and (
            estimated < (device.gpu_utilization - UNEXPLAINED) * length
        ):
            flags |= Flag.SIGNALS_DISAGREE
        return Occupied(None, BY_ESTIMATE, flags)
    if device.engine_long is not None:
        return Occupied(device.engine_long * length, BY_DEVICE, flags | Flag.SAMPLE_SPREAD)
    if device.gpu_utilization is not None:
        flags |= Flag.GPU_UTILIZATION_USED
        return Occupied(device.gpu_utilization * length, BY_DEVICE, flags)
    return Occupied(None, "none", flags)


def _by_sm_time(piece: Piece, device: DeviceView, processes: list[ProcessView], witnessed: bool) -> Occupied:
    if not piece.slot.sm_active_declared:
        return Occupied(None, BY_ESTIMATE)
    if device.sm_active is None:
        return Occupied(None, "none")
    stuck = device.sm_active == 0.0 and at_work(piece.length_ns, device, processes)
    flags = Flag.SIGNALS_DISAGREE if stuck else NO_FLAGS
    if device.sm_long and witnessed:
        return Occupied(None, BY_ESTIMATE, flags)
    if stuck:
        return Occupied(None, "none", flags)
    spread = Flag.SAMPLE_SPREAD if device.sm_long else NO_FLAGS
    return Occupied(device.sm_active * piece.length_ns, BY_DEVICE, spread)
