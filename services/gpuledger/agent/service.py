"""The agent: one loop that drains, cuts and queues, each second; sooner where much waits in the kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import numpy as np

from gpuledger import __version__
from gpuledger.agent import metrics
from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.holders.source import HolderSource
from gpuledger.agent.lifetime import launched_ns, lifetime, lifetime_key
from gpuledger.agent.pace import rest, until_round_s
from gpuledger.agent.probes.event_source import EventSource
from gpuledger.agent.probes.events import Losses
from gpuledger.agent.process_reader import ProcessReader
from gpuledger.agent.processes import ProcessTable
from gpuledger.agent.queued import headers_of, queue_record
from gpuledger.agent.rules import EVENT_GRACE_NS, CutterRules, Lost
from gpuledger.agent.samplers.driver_xid import DriverXids
from gpuledger.agent.samplers.samples import Round
from gpuledger.agent.sampling import SamplerThread
from gpuledger.agent.settings import AgentSettings
from gpuledger.agent.spool import NodeQueue
from gpuledger.agent.state import NodeState, View
from gpuledger.agent.windows import Part, WindowCutter
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.records import Device, EventBatch
from gpuledger.logs import EventLog

SLOW_NS = 9 * NS_PER_S // 10  # new libraries, holders, the clock's error, figures: in each round, no oftener
DISK_NS = 5 * NS_PER_S  # so often what is delivered is noted; a rename costs a millisecond or two

_log = EventLog(__name__)


class Agent:
    """One life of a node's agent. It borrows the queue, and owns source, reader and sampler thread.

    ``run`` returns after ``stop``; both may be called from different threads, ``stop`` from a signal handler.
    """

    def __init__(
        self,
        settings: AgentSettings,
        clock: Clock,
        time: AgentTime,
        queue: NodeQueue,
        source: EventSource | None,
        reader: ProcessReader,
        sampler: SamplerThread | None,
        holders: HolderSource,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._queue = queue
        self._source = source
        self._reader = reader
        self._sampler = sampler
        self._holders = holders
        self._stop = threading.Event()
        self._time = time
        whole = source is None or not source.missing
        processes = ProcessTable(reader, settings.layout.devices, time.epoch.boot_id, source, whole)
        self._state = NodeState(settings.layout, processes, time.offset_ns)
        self._xids = DriverXids(settings.layout.devices)
        self._rules = CutterRules(
            settings.grid,
            event_grace_ns=EVENT_GRACE_NS if source is None else source.delay_ns,
            samples_expected=sampler is not None,
            agent_version=__version__,
        )
        self._losses_before = self._losses_seen = Losses()
        self._view = self._state.view = View(holders.read())
        self._state.latest = self._view.holders
        self._problem = ""
        self._launched_ns = 0
        self._new_devices: list[Device] | None = None
        self._slow_due_ns = self._disk_due_ns = 0
        self._begin_epoch(time)
        self._take_beginnings()

    def stop(self) -> None:
        """Have `run` return soon."""
        self._stop.set()

    def run(self, ends_node: bool = False, on_round: Callable[[], None] = lambda: None) -> None:
        """Work until stopped. ``ends_node``: the node ends when it is stopped, which is said to all.
        ``on_round`` is called before each round."""
        first_ns = self._time.unix_ns(self._time.epoch.started_boot_ns)
        settings = self._settings
        self._launched_ns = launched_ns(settings.state_directory, settings.launched_ns, first_ns)
        self._state_lifetime(None)
        if self._sampler is not None:
            self._sampler.start()
        ends = False
        try:
            while not self._stop.is_set():
                on_round()
                self.tick()
                now_ns = self._time.now_ns(self._clock)
                rest(self._stop, self._source, until_round_s(now_ns, self._rules.event_grace_ns))
            ends = ends_node
        finally:
            self._finish(ends)  # an agent that fails does not end its node

    def tick(self) -> None:
        """One pass: take what there is, put out what is due."""
        began_ns = self._clock.boot_ns()
        if self._time.is_over(self._clock):
            self._change_epoch()
        if began_ns >= self._slow_due_ns:
            self._slow_due_ns = began_ns + SLOW_NS
            self._look_around()
        elif self._source is not None and self._source.probes_changed:
            self._witness(self._source)
        now_ns = self._take()
        self._put(self._cutter.advance(now_ns))
        if self._new_devices is not None:
            self._change_devices(self._new_devices)
        metrics.LOOP_SECONDS.inc((self._clock.boot_ns() - began_ns) / NS_PER_S)

    def _take_beginnings(self) -> None:
        """What returned before the epoch is in no window of it; its work and memory may still be there."""
        if self._source is not None:
            events = self._state.processes.resolve(self._source.drain(), self._time.offset_ns)
            started_ns = self._time.unix_ns(self._time.epoch.started_boot_ns)
            early = events["time_ns"] < started_ns
            self._state.apply(events[early][np.argsort(events["time_ns"][early], kind="stable")])
            self._cutter.add_events(events[~early])

    def _take(self) -> int:
        """Everything that is there by now; the agent time up to which it is."""
        now_boot_ns = self._clock.boot_ns()
        if self._source is not None:
            raw = self._source.drain()
            if len(raw):
                metrics.EVENTS.inc(int(raw["count"].sum()))
                self._cutter.add_events(self._state.processes.resolve(raw, self._time.offset_ns))
        self._state.note_ends(now_boot_ns)
        if self._sampler is not None:
            for taken in self._sampler.take():
                self._take_round(taken)
        return self._time.unix_ns(now_boot_ns)

    def _take_round(self, taken: Round) -> None:
        if self._source is not None:
            self._xids.merge(taken, self._source.xids(), self._time.offset_ns)
        metrics.SAMPLES.inc(len(taken.samples))
        for gap in taken.gaps:
            metrics.GAPS.labels(gap.reason).inc()
        self._cutter.add_round(taken)
        if taken.devices is not None:
            self._new_devices = taken.devices
        self._state.take_contexts(taken)
        if taken.lost != self._view.lost:
            self._change_view(self._view._replace(lost=taken.lost))

    def _look_around(self) -> None:
        if self._source is not None:
            self._source.refresh()
            self._witness(self._source)
        self._count_losses()
        holders = self._holders.read()
        metrics.HOLDERS_OK.set(not self._holders.problem)
        if self._holders.problem != self._problem:
            self._problem = self._holders.problem
            if self._problem:
                _log.warning("holders_not_read", problem=self._problem, kept_last=holders is not None)
        if holders != self._view.holders:
            self._change_view(self._view._replace(holders=holders))
        self._say_figures()
        self._keep_disk()

    def _witness(self, source: EventSource) -> None:
        """Whose calls are seen, by what is probed now."""
        reports = source.probes()
        metrics.LIBRARIES.set(len(reports))
        self._state.processes.witness({(report.device, report.inode) for report in reports})

    def _change_view(self, view: View) -> None:
        self._view = view
        self._state.latest = view.holders
        self._cutter.change(self._time.now_ns(self._clock), view)

    def _count_losses(self) -> None:
        if self._source is None:
            return
        losses = self._source.losses()
        if losses.events != self._losses_seen.events:
            # perhaps allocations among them: what the kernel counts by itself is right whatever came
            totals = self._state.resident_totals(self._source.resident())
            self._cutter.change(self._time.now_ns(self._clock), totals)
        before, self._losses_seen = self._losses_before, losses
        unpaired = losses.return_without_entry - before.return_without_entry
        kernel = losses.events - before.events - unpaired
        self._cutter.lost = Lost(kernel, self._cutter.lost.user, unpaired)

    def _keep_disk(self) -> None:
        now = self._clock.boot_ns()
        if now < self._disk_due_ns:
            return
        self._disk_due_ns = now + DISK_NS
        try:
            self._queue.note(sync=self._queue.is_behind)
        except OSError as error:
            _log.warning("spool_not_written", error=str(error))

    def _say_figures(self) -> None:
        metrics.say_lost(self._cutter.lost, self._cutter.late_events)
        metrics.CLOCK_ERROR.set(self._time.error_ns(self._clock) / NS_PER_S)
        metrics.PROCESSES.set(len(self._state.processes.living(self._clock.boot_ns())))
        metrics.DEVICES.set(len(self._state.device_uuids) - len(self._view.lost))
        metrics.COARSENING.set(self._cutter.pressure)
        metrics.say_queue(self._queue)

    def _begin_epoch(self, time: AgentTime) -> None:
        self._time = time
        self._cutter = WindowCutter(self._settings.node, time, self._state, self._rules)
        if self._source is not None:
            self._losses_before = self._losses_seen = self._source.losses()
        metrics.EPOCHS.inc()
        _log.info("epoch_begins", boot_id=time.epoch.boot_id, epoch_ns=time.epoch.started_boot_ns)

    def _change_epoch(self) -> None:
        _log.warning("clock_stepped", error_s=self._time.error_ns(self._clock) / NS_PER_S)
        self._end_epoch()
        self._follow_epoch()

    def _change_devices(self, devices: list[Device]) -> None:
        """The driver came (back) with other devices, or a GPU was divided anew: what the records of an epoch
        say of devices holds for all of it, so another begins."""
        self._new_devices = None
        _log.warning("devices_changed", before=len(self._state.device_uuids), now=len(devices))
        self._end_epoch()
        self._state.know(devices)
        self._view = self._state.view = View(self._view.holders)
        self._xids = DriverXids(devices)
        if self._source is not None:
            totals = self._state.resident_totals(self._source.resident())
            if totals.totals:  # some may be on devices that were not known; not every source counts
                self._state.change(totals)
        self._follow_epoch()
        self._state_lifetime(None)

    def _end_epoch(self) -> None:
        """All that is there goes out; the window is left open for the epoch that follows."""
        self._take()
        self._count_losses()
        self._put(self._cutter.finish(self._time.now_ns(self._clock), goodbye=False))

    def _follow_epoch(self) -> None:
        time = AgentTime.begin(self._clock, self._time.epoch.boot_id)
        self._state.rebase(time.offset_ns)
        if self._sampler is not None:
            self._sampler.rebase(time)
        self._begin_epoch(time)

    def _finish(self, ends_node: bool) -> None:
        if self._sampler is not None:
            self._sampler.stop()
        try:
            self._take()
            self._count_losses()
        except Exception:
            _log.exception("last_drain_failed")  # what was taken before still goes out
        now_ns = self._time.now_ns(self._clock)
        if ends_node:
            # before the goodbye closes the window: what is charged is cut at the end at once
            self._state_lifetime(now_ns)
        self._put(self._cutter.finish(now_ns, goodbye=ends_node))
        if self._source is not None:
            self._source.close()
        self._reader.close()

    def _state_lifetime(self, ended: int | None) -> None:
        if not self._settings.states_lifetime:
            return
        node, layout = self._settings.node, self._state.layout
        now_ns = self._time.now_ns(self._clock)
        record = lifetime(node, layout, self._launched_ns, ended, self._settings.grid.length_ns, now_ns)
        queue_record(self._queue, record, lifetime_key(node, layout), node_key=node.key)

    def _put(self, parts: Iterable[Part]) -> None:
        self._cutter.pressure = int(self._queue.pressure)
        for part in parts:
            if isinstance(part, EventBatch):
                if self._source is not None:
                    part.missing = list(self._source.missing)
                metrics.say_tallied(part)
            queued = queue_record(self._queue, part, self._settings.node.key, headers_of(part))
            if not queued and isinstance(part, EventBatch):
                self._cutter.lose(int(part.count.sum()))
            self._cutter.pressure = int(self._queue.pressure)  # the parts that follow are made only now
            if part.header.amendment:
                metrics.AMENDMENTS.inc()
            if part.header.last:
                metrics.WINDOWS.inc()
                end = part.header.window_start_ns + part.header.window_length_ns
                metrics.WINDOW_DELAY.set((self._time.now_ns(self._clock) - end) / NS_PER_S)
