"""The living node under `Activity`: probes, /proc, NVML and a file of holders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from gpuledger.agent.epoch import AgentTime, boot_id
from gpuledger.agent.holders.source import HolderSource
from gpuledger.agent.probes import EventSource
from gpuledger.agent.process_reader import ProcessReader
from gpuledger.agent.processes import ProcessTable
from gpuledger.agent.samplers.patient import PatientNvml
from gpuledger.agent.samplers.samples import Sample
from gpuledger.agent.state import NodeState, View
from gpuledger.agent.top.activity import Activity, DeviceNow, Snapshot
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.fields import Field
from gpuledger.contract.records import Device, NodeLayout

if TYPE_CHECKING:
    from gpuledger.agent.probes.cudart import RuntimeCalls

DRAIN_S: Final = 0.1  # as the agent itself: the ring holds far more than the calls of that time
REFRESH_NS: Final = NS_PER_S


class _Closes(Protocol):
    def close(self) -> None: ...


class LiveNode:
    """Snapshots of this machine. Owns all that it is given; use it in ``with``. One thread uses it."""

    def __init__(
        self,
        clock: Clock,
        source: EventSource,
        reader: ProcessReader,
        holders: HolderSource | None = None,
        nvml: PatientNvml | None = None,
        libraries: Sequence[Path] = (),
    ) -> None:
        self._clock = clock
        self._source = source
        self._reader = reader
        self._holders = holders
        self._nvml = nvml
        self._libraries = libraries
        self.runtime_calls: Callable[[], list[RuntimeCalls]] | None = None
        """Where calls of the CUDA runtime are counted, if they are."""
        self._runtime_before: dict[tuple[int, int, str], int] = {}

    def __enter__(self) -> LiveNode:
        """Attach the probes. Raises Unsupported where this machine can not, OSError for a wrong library."""
        try:
            self._source.start()
            for path in self._libraries:
                self._source.preattach(path)
            self._source.refresh()
        except BaseException:
            self._close()
            raise
        self._time = AgentTime.begin(self._clock, boot_id())
        devices = self._devices()
        processes = ProcessTable(self._reader, devices, self._time.epoch.boot_id, self._source)
        self._state = NodeState(NodeLayout(devices=devices), processes, self._time.offset_ns)
        self._activity = Activity(self._state, self._time.now_ns(self._clock))
        self._lost_before = self._source.losses().events
        self._refresh_due_ns = 0
        return self

    def _devices(self) -> list[Device]:
        """Those that NVML tells in time; where it hangs, a later round tells them."""
        if self._nvml is None:
            return []
        self._nvml.wait()
        return self._nvml.open(self._clock, self._time)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Detach everything."""
        self._close()

    def _close(self) -> None:
        owned: tuple[_Closes | None, ...] = (self._source, self._reader, self._nvml)
        for thing in owned:
            if thing is not None:
                thing.close()

    def snapshot(self, interval_s: float) -> Snapshot:
        """What the node does in the ``interval_s`` from now (from the previous snapshot's end)."""
        until_ns = self._clock.boot_ns() + int(interval_s * NS_PER_S)
        while (left_ns := until_ns - self._clock.boot_ns()) > 0:
            self._take()
            rest_s = min(DRAIN_S, left_ns / NS_PER_S)
            if not self._source.follow(rest_s):
                self._clock.sleep(rest_s)
        self._take()
        end_ns = self._time.now_ns(self._clock)
        self._drain()  # what returned by that instant is there by now
        samples = self._measure()
        boot_ns = end_ns - self._time.offset_ns
        ended = self._state.processes.ended_between(0, boot_ns + 1)
        offset_ns = self._time.offset_ns
        snapshot = self._activity.close(end_ns, {index: at + offset_ns for index, at in ended.items()})
        lost = self._source.losses().events
        snapshot.lost, self._lost_before = lost - self._lost_before, lost
        _measured(snapshot.devices, samples)
        snapshot.nvml_problem = self._nvml.problem if self._nvml else ""
        if self.runtime_calls is not None:
            self._add_runtime(snapshot, self.runtime_calls())
        return snapshot

    def _add_runtime(self, snapshot: Snapshot, found: list[RuntimeCalls]) -> None:
        """By consumer, of those of the interval: who calls the runtime calls the driver."""
        by_key = {(consumer.kind, consumer.consumer): consumer for consumer in snapshot.consumers}
        before, self._runtime_before = self._runtime_before, {}
        for one in found:
            key = (one.pid, one.start_ns, one.function)
            self._runtime_before[key] = one.calls
            index = self._state.processes.find(one.pid, one.start_ns)
            calls = one.calls - before.get(key, 0)
            if index is None or not calls:
                continue
            known = self._state.processes[index]
            if (consumer := by_key.get((known.kind, known.consumer))) is not None:
                consumer.runtime[one.function] = consumer.runtime.get(one.function, 0) + calls

    def _take(self) -> None:
        now_ns = self._clock.boot_ns()
        if now_ns >= self._refresh_due_ns:
            self._refresh_due_ns = now_ns + REFRESH_NS
            self._source.refresh()
            if self._holders is not None:
                self._state.latest = self._holders.read()
                self._state.change(View(self._state.latest))
        self._drain()
        self._state.note_ends(now_ns)

    def _drain(self) -> None:
        raw = self._source.drain()
        if len(raw):
            self._activity.add(self._state.processes.resolve(raw, self._time.offset_ns))

    def _measure(self) -> list[Sample]:
        if self._nvml is None:
            return []
        taken = self._nvml.sample()
        if taken.devices is not None:
            self._state.know(taken.devices)
        self._state.take_contexts(taken)
        return taken.samples


def _measured(devices: list[DeviceNow], samples: list[Sample]) -> None:
    """Put the newest measurements beside what the calls show."""
    values: dict[tuple[str, Field], list[float]] = {}
    for sample in samples:
        if sample.pid is None:
            values.setdefault((sample.device, sample.field), []).append(sample.value)

    def mean(uuid: str, field: Field) -> float | None:
        found = values.get((uuid, field))
        return float(np.mean(found)) if found else None

    for device in devices:
        device.utilization_ratio = mean(device.uuid, Field.GPU_UTILIZATION)
        device.sm_active_ratio = mean(device.uuid, Field.SM_ACTIVE)
        device.power_watts = mean(device.uuid, Field.POWER_WATTS)
        used = mean(device.uuid, Field.FRAMEBUFFER_USED_BYTES)
        device.memory_used_bytes = None if used is None else int(used)
