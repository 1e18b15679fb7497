"""Events and samples of one window as the columns of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gpuledger.agent.coarsen import NO_INTERVALS, Intervals
from gpuledger.agent.distinct import distinct
from gpuledger.agent.events import NO_THREAD, UNKNOWN_DEVICE, Events
from gpuledger.agent.samplers.samples import Gap, Sample
from gpuledger.contract import records
from gpuledger.contract.columns import Longs, doubles, longs
from gpuledger.contract.records import EventBatch, Header, Process, SampleBatch

Describe = Callable[[int], Process]
"""From an index of the process table to its record."""


BY_KERNEL, BY_AGENT = 1, 2
"""Who tallied, as the column ``tallied_by`` of an EventBatch says it."""


class TalliedBy(NamedTuple):
    """A process of which a record has tallies or intervals, who made them, and since when (agent time)."""

    process: int
    by_agent: bool
    since_ns: int


def event_batch(
    header: Header,
    events: Events,
    device_uuids: Sequence[str],
    describe: Describe,
    intervals: Intervals = NO_INTERVALS,
    tallied: Sequence[TalliedBy] = (),
) -> EventBatch:
    """One record of these events, which are ordered by time; dictionaries name only what occurs.

    ``intervals``: ordered by start. ``tallied``: processes that occur in events or intervals.
    """
    size = len(events)
    processes, process = _indexed(np.concatenate((events["process"], intervals.process)))
    devices, device = _indexed(np.concatenate((events["device"], intervals.device)), null=UNKNOWN_DEVICE)
    threads, thread = _indexed(events["tid"], null=NO_THREAD)
    functions, function = _indexed(events["function"], null=0)
    return EventBatch(
        header=header,
        processes=[describe(int(index)) for index in processes],
        devices=[device_uuids[int(position)] for position in devices],
        threads=threads,
        functions=functions,
        time_ns=np.ascontiguousarray(events["time_ns"]),
        process=process[:size],
        thread=thread,
        device=device[:size],
        operation=events["operation"].astype(np.int64),
        duration_ns=np.ascontiguousarray(events["duration_ns"]),
        bytes=np.ascontiguousarray(events["bytes"]),
        launched_threads=np.ascontiguousarray(events["launched_threads"]),
        function=function,
        result=events["result"].astype(np.int64),
        count=np.ascontiguousarray(events["count"]),
        span_ns=np.ascontiguousarray(events["span_ns"]),
        outstanding_process=process[size:],
        outstanding_device=device[size:],
        outstanding_start_ns=intervals.start_ns,
        outstanding_duration_ns=intervals.duration_ns,
        outstanding_blocked_ns=intervals.blocked_ns,
        outstanding_launches=intervals.launches,
        outstanding_bursts=intervals.bursts,
        tallied_process=longs(np.searchsorted(processes, [one.process for one in tallied]).tolist()),
        tallied_by=longs([BY_AGENT if one.by_agent else BY_KERNEL for one in tallied]),
        tallied_since_ns=longs([one.since_ns for one in tallied]),
    )


def sample_batch(
    header: Header,
    samples: Sequence[tuple[Sample, int | None]],
    gaps: Sequence[Gap],
    also: Iterable[int],
    describe: Describe,
) -> SampleBatch:
    """One record of these samples, each with the index of its process, and these gaps.

    ``also`` are processes to name though no sample speaks of them: those that ended in the window.
    """
    ordered = sorted(samples, key=lambda entry: (entry[0].start_ns, entry[0].device, entry[0].field))
    devices = sorted({s.device for s, _ in ordered} | {gap.device for gap in gaps if gap.device})
    position = {uuid: place for place, uuid in enumerate(devices)}
    processes = sorted({p for _, p in ordered if p is not None} | set(also))
    place = {index: number for number, index in enumerate(processes)}
    return SampleBatch(
        header=header,
        devices=devices,
        processes=[describe(index) for index in processes],
        device=longs([position[s.device] for s, _ in ordered]),
        process=longs([-1 if p is None else place[p] for _, p in ordered]),
        field=longs([int(s.field) for s, _ in ordered]),
        source=longs([int(s.source) for s, _ in ordered]),
        start_ns=longs([s.start_ns for s, _ in ordered]),
        duration_ns=longs([s.duration_ns for s, _ in ordered]),
        value=doubles([s.value for s, _ in ordered]),
        gaps=[
            records.Gap(
                start_ns=gap.start_ns,
                device=position[gap.device] if gap.device else -1,
                field=int(gap.field or 0),
                source=int(gap.source),
                reason=gap.reason,
                duration_ns=gap.duration_ns,
            )
            for gap in gaps
        ],
    )


def _indexed(values: Longs, null: int | None = None) -> tuple[Longs, Longs]:
    """(distinct values, index of each value among them); ``null`` is not listed and has index -1."""
    found, position = distinct(values.astype(np.int64, copy=False))
    if null is None or null not in found:
        return found, position
    at = int(np.searchsorted(found, null))
    index = np.where(position == at, -1, position - (position > at))
    return np.delete(found, at), index
