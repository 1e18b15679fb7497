"""From events of an interval to what each consumer did in it. It knows no clock and no kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from gpuledger.agent.coarsen import Intervals, OutstandingIntervals
from gpuledger.agent.events import Events, calls, no_events
from gpuledger.agent.state import NodeState
from gpuledger.agent.tallied import TalliedProcesses
from gpuledger.contract.clock import NS_PER_S
from gpuledger.contract.operations import COPIES_D2D, COPIES_D2H, COPIES_H2D, LAUNCHES, Operation

_OTHER_COPIES = {Operation.COPY_UNKNOWN, Operation.COPY_UNKNOWN_ASYNC}
_COPIES = np.array(sorted(COPIES_H2D | COPIES_D2H | COPIES_D2D | _OTHER_COPIES))
_LAUNCHES = np.array(sorted(LAUNCHES))


@dataclass(slots=True)
class Consumer:
    """A pod, a container without a pod, or a process of the host, over one interval.

    ``launches``, ``errors`` (calls that failed) and ``copied_bytes`` are sums over the interval;
    ``memory_bytes`` is resident at its end. ``busy_ratio`` is the share of one device's time: of the moments
    at which processes had work outstanding on a device each gets an equal part; above 1 on several devices.
    """

    kind: str
    consumer: str
    namespace: str = ""
    name: str = ""
    processes: int = 0
    devices: list[int] = field(default_factory=list)
    launches: int = 0
    copied_bytes: int = 0
    memory_bytes: int = 0
    errors: int = 0
    busy_ratio: float = 0.0
    runtime: dict[str, int] = field(default_factory=dict)
    """Calls of the CUDA runtime by function, where they are counted (--runtime); in nothing else here."""


@dataclass(slots=True)
class DeviceNow:
    """A device over one interval; None where nothing measured it. ``busy_ratio``: work was outstanding."""

    position: int
    uuid: str
    model: str
    busy_ratio: float
    utilization_ratio: float | None = None
    sm_active_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int = 0
    power_watts: float | None = None


@dataclass(slots=True)
class Snapshot:
    """One interval of the node, [start_ns, end_ns) in agent time; the busiest consumers first."""

    start_ns: int
    end_ns: int
    consumers: list[Consumer]
    devices: list[DeviceNow]
    events: int = 0
    lost: int = 0
    nvml_problem: str = ""
    """Why NVML tells nothing, in words; empty while it answers."""

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Activity:
    """The consumers of a node, interval by interval. Borrows the state, and moves it forward."""

    def __init__(self, state: NodeState, start_ns: int) -> None:
        self._state = state
        self._start_ns = start_ns
        self._waiting: Events = no_events()
        self._tallied = TalliedProcesses()

    def add(self, events: Events) -> None:
        """Events in any order."""
        if len(events):
            self._waiting = np.concatenate((self._waiting, self._tallied.take(events)))

    def close(self, end_ns: int, ended: Mapping[int, int]) -> Snapshot:
        """What was done up to ``end_ns``; ``ended``: when processes ended that are gone (agent time)."""
        events = self._waiting[np.argsort(self._waiting["time_ns"], kind="stable")]
        due = int(np.searchsorted(events["time_ns"], end_ns))
        events, self._waiting = events[:due], events[due:]
        open_ = {key: pending.since_ns for key, pending in self._state.outstanding.items()}
        told = OutstandingIntervals(self._start_ns, open_)
        parts = [told.apply(events), told.end(end_ns, dict(ended))]
        self._tallied.begin(self._start_ns, ())
        parts.append(self._tallied.close(self._start_ns, end_ns, ended))
        self._state.apply(events)
        busy, whole = _shares(parts, self._start_ns, end_ns)
        snapshot = Snapshot(
            self._start_ns,
            end_ns,
            self._consumers(events, busy, end_ns),
            [
                DeviceNow(
                    place, d.uuid, d.model, whole.get(place, 0.0), memory_total_bytes=d.memory_total_bytes
                )
                for place, d in enumerate(self._state.layout.devices)
            ],
            events=calls(events),
        )
        self._state.settle(end_ns)
        self._start_ns = end_ns
        return snapshot

    def _consumers(
        self, events: Events, busy: Mapping[tuple[int, int], float], end_ns: int
    ) -> list[Consumer]:
        found: dict[tuple[str, str], Consumer] = {}
        resident = dict(self._state.resident.items())
        here = {index for index, _ in (*resident, *busy)} | set(events["process"].tolist())
        for index in sorted(here):
            consumer = self._consumer(index, found)
            own = events[events["process"] == index]
            good = own["result"] == 0
            consumer.processes += 1
            consumer.launches += calls(own[good & np.isin(own["operation"], _LAUNCHES)])
            consumer.copied_bytes += int(own["bytes"][good & np.isin(own["operation"], _COPIES)].sum())
            consumer.errors += calls(own[~good])
            devices = {d for p, d in (*resident, *busy) if p == index} | set(own["device"].tolist())
            consumer.devices = sorted({*consumer.devices, *(int(d) for d in devices if d >= 0)})
            consumer.memory_bytes += sum(size for (p, _), size in resident.items() if p == index)
            consumer.busy_ratio += sum(share for (p, _), share in busy.items() if p == index)
        return sorted(found.values(), key=lambda c: (-c.busy_ratio, -c.launches, c.kind, c.consumer))

    def _consumer(self, index: int, found: dict[tuple[str, str], Consumer]) -> Consumer:
        known = self._state.processes[index]
        key = (known.kind, known.consumer)
        if key not in found:
            consumer = found[key] = Consumer(*key, name=known.name)
            holders = self._state.view.holders
            for pod in holders.pods if holders is not None and known.kind == "pod" else ():
                if pod.uid == known.consumer:
                    consumer.namespace, consumer.name = pod.namespace, pod.name
        return found[key]


def _shares(
    parts: Iterable[Intervals], start_ns: int, end_ns: int
) -> tuple[dict[tuple[int, int], float], dict[int, float]]:
    """((process, device) -> its share of the interval, device -> share in which anything was outstanding)."""
    edges: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for part in parts:
        columns = (
            part.process.tolist(),
            part.device.tolist(),
            part.start_ns.tolist(),
            part.duration_ns.tolist(),
        )
        for process, device, start, duration in zip(*columns, strict=True):
            first, last = max(start, start_ns), min(start + duration, end_ns)
            if last > first:
                edges[device] += [(first, 1, process), (last, -1, process)]
    length = max(end_ns - start_ns, 1)
    shares: dict[tuple[int, int], float] = defaultdict(float)
    whole: dict[int, float] = {}
    for device, found in edges.items():
        active: dict[int, int] = {}
        before, covered = start_ns, 0
        for at, step, process in sorted(found):
            if active and at > before:
                covered += at - before
                for other in active:
                    shares[other, device] += (at - before) / len(active) / length
            before = at
            active[process] = active.get(process, 0) + step
            if active[process] == 0:
                del active[process]
        whole[device] = covered / length
    return dict(shares), whole


def seconds(snapshot: Snapshot) -> float:
    """Length of the interval in s."""
    return (snapshot.end_ns - snapshot.start_ns) / NS_PER_S
