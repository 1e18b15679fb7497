"""Of a window that waits the frame alone is kept: its states, its parts, and what was taken out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from gpuledger.agent.measured import no_room_gap
from gpuledger.agent.rules import HOLLOW
from gpuledger.contract.records import EventBatch, Gap, Header, Holdings, Process, SampleBatch


class HollowWindow:
    """One window whose calls and samples are taken out. Give it the records of these in order, and then its
    states."""

    def __init__(self) -> None:
        self.lost_calls = 0
        """Calls that were taken out of it."""
        self._unseen: dict[str, set[tuple[int, int]]] = {}  # device -> processes whose calls there are gone
        self._unseen_anywhere: set[tuple[int, int]] = set()

    def calls(self, batch: EventBatch) -> EventBatch:
        """The record without its calls; who made them stays, as nobody whose calls are seen."""
        self.lost_calls += int(batch.count.sum())
        for process, device in {*zip(batch.process.tolist(), batch.device.tolist(), strict=True)}:
            self._note(batch, process, device)
        told = zip(batch.outstanding_process.tolist(), batch.outstanding_device.tolist(), strict=True)
        for process, device in {*told}:
            self._note(batch, process, device)
        return EventBatch(self._header(batch.header), _unwitnessed(batch.processes), missing=batch.missing)

    def _note(self, batch: EventBatch, process: int, device: int) -> None:
        who = _identity(batch.processes[process])
        unseen = (
            self._unseen_anywhere if device < 0 else self._unseen.setdefault(batch.devices[device], set())
        )
        unseen.add(who)

    def samples(self, batch: SampleBatch) -> SampleBatch:
        """The record without its samples; who ended in the window stays."""
        header = self._header(batch.header)
        ended = [process for process in batch.processes if process.ended_ns is not None]
        unseen = self._unseen_anywhere.union(*self._unseen.values())
        ended = [_blind(one) if _identity(one) in unseen else one for one in ended]
        gaps = batch.gaps
        if len(batch.value):
            gap = no_room_gap(header.window_start_ns, header.window_length_ns)
            gaps = [Gap(gap.start_ns, source=int(gap.source), reason=gap.reason, duration_ns=gap.duration_ns)]
        kept = SampleBatch(header, processes=ended, gaps=gaps)
        if len(batch.value) or not gaps:
            return kept
        return replace(kept, devices=batch.devices)  # which the gaps speak of

    def state(self, state: Holdings) -> Holdings:
        """The state, in which the processes whose calls are gone count as not seen."""
        if not self.lost_calls:
            return state
        count = len(state.layout.devices)
        unwitnessed = np.zeros(count, np.int64)
        unwitnessed[: len(state.unwitnessed)] = state.unwitnessed[:count]
        for index, device in enumerate(state.layout.devices):
            gone = self._unseen.get(device.uuid, set()) | self._unseen_anywhere
            unwitnessed[index] += len(gone)
        return replace(state, unwitnessed=unwitnessed)

    def _header(self, header: Header) -> Header:
        """What its window lost up to here; the next window counts from where its own records do."""
        return replace(header, coarsening=HOLLOW, lost_user=header.lost_user + self.lost_calls)


def _identity(process: Process) -> tuple[int, int]:
    return process.pid, process.started_ns


def _unwitnessed(processes: Iterable[Process]) -> list[Process]:
    return [_blind(process) for process in processes]


def _blind(process: Process) -> Process:
    return replace(process, witnessed=False)
