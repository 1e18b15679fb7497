"""The records of a window: each with its header, which numbers it within its window and its epoch."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from gpuledger.agent.batches import TalliedBy, event_batch, sample_batch
from gpuledger.agent.coarsen import Intervals
from gpuledger.agent.distinct import values_of
from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.events import NO_THREAD, Events, no_events
from gpuledger.agent.measured import MeasuredPart
from gpuledger.agent.names import Names
from gpuledger.agent.rules import HOLLOW, RAW, TALLY, CutterRules, Lost
from gpuledger.agent.state import NodeState
from gpuledger.agent.tallied import TalliedProcesses
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import EventBatch, Header, Holdings, SampleBatch

Part: TypeAlias = EventBatch | SampleBatch | Holdings


class PartMaker:
    """Makes the parts of one epoch, in order; they speak of the state as it is when they are made."""

    def __init__(self, node: NodeKey, time: AgentTime, state: NodeState, rules: CutterRules) -> None:
        self._node = node
        self._time = time
        self._state = state
        self._rules = rules
        self._sequence = 0
        self._part = 0
        self._window = 0
        self._asked = (-1, Names())  # the open window and the names when amendments were last looked for
        self.coarsening = RAW
        self.lost = Lost()

    def begin(self, window_ns: int, part: int, coarsening: int) -> None:
        """From now on parts are of that window, numbered from ``part`` on."""
        self._window, self._part, self.coarsening = window_ns, part, coarsening

    def holdings(self, time_ns: int, keyframe: bool, also: AbstractSet[str] = frozenset()) -> Holdings:
        """The whole state as it holds from ``time_ns``."""
        told = self._state.holdings(self._header(), time_ns, keyframe, also)
        if self.coarsening == HOLLOW:
            told.unwitnessed = np.maximum(told.unwitnessed, 1)  # whoever calls in this window is not seen
        return told

    def events(self, events: Events, intervals: Intervals, tallied: TalliedProcesses) -> EventBatch:
        """One record of these."""
        here = values_of(np.concatenate((events["process"][events["tid"] == NO_THREAD], intervals.process)))
        found = [TalliedBy(p, by_agent=False, since_ns=at) for p, at in tallied.since(here.tolist()).items()]
        if self.coarsening == TALLY:
            found += [TalliedBy(p, by_agent=True, since_ns=self._window) for p in here.tolist()]
        header = self._header()
        if found:
            header = replace(header, coarsening=max(self.coarsening, TALLY))
        state = self._state
        return event_batch(header, events, state.device_uuids, state.describe, intervals, found)

    def intervals(self, whole: Intervals, tallied: TalliedProcesses) -> Iterator[EventBatch]:
        """As many records of intervals alone as they need."""
        size = self._rules.max_events
        none = no_events()
        for start in range(0, len(whole.process), size):
            yield self.events(none, Intervals(*(column[start : start + size] for column in whole)), tallied)

    def samples(self, part: MeasuredPart, end_ns: int, last: bool, goodbye: bool) -> SampleBatch:
        """One record of measurements; the final one names who ended in the window."""
        header = self._header(last=last and part.final, goodbye=goodbye and part.final)
        ended = self._state.ended_between(self._window, end_ns) if part.final else ()
        return sample_batch(header, part.samples, part.gaps, ended, self._state.describe)

    def amendments(self) -> Iterator[Holdings]:
        """For each window that is over and named a process whose pod's name is known only now, one more
        record, which is no part."""
        names = self._state.names
        asked, self._asked = self._asked, (self._window, names)
        if asked[0] == self._window and names.same(asked[1]):
            return
        for window, processes, pods in self._state.pending.take(self._window, names.pod, names.container):
            header = self._header()
            self._part = header.part
            header = replace(header, window_start_ns=window, part=0, amendment=True)
            yield Holdings(header, window, self._state.layout, processes=processes, pods=pods)

    def noted(self, part: Part) -> Part:
        """The same part, remembered in case that it names a process whose pod is not known yet."""
        pods = part.pods if isinstance(part, Holdings) else ()
        self._state.pending.note(part.header.window_start_ns, part.processes, pods)
        return part

    def lose(self, calls: int) -> None:
        """Count calls that had no room after the kernel had handed them over."""
        self.lost = self.lost._replace(user=self.lost.user + calls)

    def _header(self, last: bool = False, goodbye: bool = False) -> Header:
        header = Header(
            cluster=self._node.cluster,
            node=self._node.node,
            boot_id=self._time.epoch.boot_id,
            epoch_ns=self._time.epoch.started_boot_ns,
            sequence=self._sequence,
            window_start_ns=self._window,
            window_length_ns=self._rules.grid.length_ns,
            part=self._part,
            last=last,
            goodbye=goodbye,
            clock_offset_ns=self._time.offset_ns,
            lost_kernel=self.lost.kernel,
            lost_user=self.lost.user,
            unpaired_returns=self.lost.unpaired_returns,
            coarsening=self.coarsening,
            agent_version=self._rules.agent_version,
        )
        self._sequence += 1
        self._part += 1
        return header
