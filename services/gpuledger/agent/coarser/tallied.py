"""The calls of a window that waits become tallies: as if they had been tallied as they came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuledger.agent.batches import BY_AGENT, BY_KERNEL, TalliedBy, event_batch
from gpuledger.agent.coarsen import Intervals, OutstandingIntervals, joined, tally
from gpuledger.agent.distinct import values_of
from gpuledger.agent.events import AGENT_EVENT, NO_THREAD, UNKNOWN_DEVICE, Events
from gpuledger.agent.rules import HOLLOW, TALLY
from gpuledger.contract.columns import Longs, longs
from gpuledger.contract.records import EventBatch, Holdings, Process, SampleBatch

_AS_THEY_ARE = (
    "time_ns",
    "duration_ns",
    "bytes",
    "launched_threads",
    "span_ns",
    "count",
    "operation",
    "result",
)


class TalliedWindow:
    """One window between its first state and its last samples. Give it the records of its calls in order."""

    def __init__(self, first: Holdings, last: SampleBatch) -> None:
        header = first.header
        self._start_ns = header.window_start_ns
        self._end_ns = self._start_ns + header.window_length_ns
        self._processes: list[Process] = []
        self._process_of: dict[tuple[int, int], int] = {}
        self._devices = [device.uuid for device in first.layout.devices]
        self._know(first.processes)
        whose = self._know(first.processes)[first.outstanding_process]
        open_ = zip(
            whose.tolist(),
            first.outstanding_device.tolist(),
            first.outstanding_since_ns.tolist(),
            strict=True,
        )
        # an epoch that began inside the window speaks from there on
        from_ns = self._start_ns if first.keyframe else max(first.time_ns, self._start_ns)
        self._intervals = OutstandingIntervals(from_ns, {(p, d): since_ns for p, d, since_ns in open_})
        indices = self._know(last.processes).tolist()
        ends = zip(indices, (process.ended_ns for process in last.processes), strict=True)
        self._ended = {index: at for index, at in ends if at is not None and at < self._end_ns}

    def coarser(self, batch: EventBatch, final: bool) -> EventBatch:
        """The next of its records, tallied; ``final``: no calls follow, so that what is still outstanding is
        told with it."""
        process_of = self._know(batch.processes)
        device_of = longs([self._device(uuid) for uuid in batch.devices])
        events = _events(batch, process_of, device_of)
        parts = [_intervals(batch, process_of, device_of), self._intervals.apply(events)]
        if final:
            parts.append(self._intervals.end(self._end_ns, self._ended))
        intervals = joined(*parts)
        events = tally(events)
        here = values_of(np.concatenate((events["process"], intervals.process))).tolist()
        by_kernel = batch.tallied_by == BY_KERNEL
        since = batch.tallied_since_ns[by_kernel].tolist()
        found = [
            TalliedBy(index, by_agent=False, since_ns=at)
            for index, at in zip(process_of[batch.tallied_process[by_kernel]].tolist(), since, strict=True)
            if index in here
        ]
        found += [TalliedBy(index, by_agent=True, since_ns=self._start_ns) for index in here]
        header = replace(batch.header, coarsening=TALLY)
        told = event_batch(header, events, self._devices, self._processes.__getitem__, intervals, found)
        told.missing = batch.missing
        return told

    def _know(self, processes: Sequence[Process]) -> Longs:
        """The number of each of these in the window; what is said of one last holds."""
        found = []
        for process in processes:
            number = self._process_of.setdefault((process.pid, process.started_ns), len(self._processes))
            if number == len(self._processes):
                self._processes.append(process)
            self._processes[number] = process
            found.append(number)
        return longs(found)

    def _device(self, uuid: str) -> int:
        if uuid not in self._devices:
            self._devices.append(uuid)
        return self._devices.index(uuid)


def is_tallied(batch: EventBatch) -> bool:
    """Whether the agent has tallied these calls already, or left them out."""
    return batch.header.coarsening == HOLLOW or bool((batch.tallied_by == BY_AGENT).any())


def _events(batch: EventBatch, process_of: Longs, device_of: Longs) -> Events:
    """The calls of a record as the agent had them. Functions are left out, as a tally leaves them."""
    events = np.zeros(len(batch.time_ns), AGENT_EVENT)
    for name in _AS_THEY_ARE:
        events[name] = getattr(batch, name)
    events["process"] = process_of[batch.process]
    events["device"] = np.append(device_of, UNKNOWN_DEVICE)[batch.device]  # the last one is that of index -1
    events["tid"] = np.append(batch.threads, NO_THREAD)[batch.thread]
    return events


def _intervals(batch: EventBatch, process_of: Longs, device_of: Longs) -> Intervals:
    """The intervals that a record tells already."""
    process = process_of[batch.outstanding_process]
    told = len(batch.outstanding_launches) == len(process)
    return Intervals(
        process,
        np.append(device_of, UNKNOWN_DEVICE)[batch.outstanding_device],
        batch.outstanding_start_ns,
        batch.outstanding_duration_ns,
        batch.outstanding_blocked_ns,
        batch.outstanding_launches if told else np.zeros_like(process),
        batch.outstanding_bursts if told else np.ones_like(process),
    )
