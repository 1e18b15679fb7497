"""The records that the agents of a simulated node send for a window, in the order in which they send them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from gpuledger.contract.columns import Longs, doubles, longs
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import (
    EventBatch,
    Header,
    Holdings,
    NodeLifetime,
    SampleBatch,
)
from gpuledger.simulate.activity import Activity, activity, between
from gpuledger.simulate.plan import Life, NodePlan, Tenant
from gpuledger.simulate.spec import FleetSpec

Telemetry: TypeAlias = EventBatch | SampleBatch | Holdings

LAUNCH_NS = 4_000  # how long a launch takes to return, and the gap to the next one
THREADS_A_LAUNCH = 128 * 256
NOISE = 0.01  # standard deviation of a driver's measurement of a process, of its value
_RECORDS_A_WINDOW = 3  # keyframe, calls, samples


def lifetime(plan: NodePlan, spec: FleetSpec, ended: bool) -> NodeLifetime:
    """What the cluster's inventory says of a node: when it was launched, and at the end when it ended."""
    gone = plan.ended_ns if ended and plan.ended_ns < spec.end_ns else None
    return NodeLifetime(
        *plan.key, plan.layout, plan.launched_ns, gone, spec.window_ns, "inventory", plan.launched_ns
    )


def window_records(spec: FleetSpec, plan: NodePlan, window_start_ns: int) -> Iterator[Telemetry]:
    """All records of a window: of each life of the agent in it what it sent before it crashed."""
    end = min(window_start_ns + spec.window_ns, plan.ended_ns)
    whole: Activity | None = None
    for life in plan.lives:
        start, stop = max(window_start_ns, life.start_ns), min(end, life.end_ns)
        if start >= stop:
            continue
        whole = whole or activity(spec, plan, window_start_ns)
        yield from _OfLife(spec, plan, life, window_start_ns, start, stop, stop == end).records(whole)


class _OfLife:
    """What one life of the agent sends of a window: [start, stop), and whether it lived to close it."""

    def __init__(
        self, spec: FleetSpec, plan: NodePlan, life: Life, window: int, start: int, stop: int, closes: bool
    ) -> None:
        self._spec, self._plan, self._life = spec, plan, life
        self._window, self._start, self._stop, self._closes = window, start, stop, closes
        first = life.start_ns - life.start_ns % spec.window_ns
        before = (window - first) // spec.window_ns
        self._sequence = _RECORDS_A_WINDOW * before + len(plan.changes_between(life.start_ns, window))
        self._part = 0 if start == window else 1  # who begins inside a window never looks complete

    def records(self, whole: Activity) -> Iterator[Telemetry]:
        seen = between(self._plan, whole, self._start, self._stop)
        yield self._holdings(self._start, keyframe=self._start == self._window)
        for at in self._plan.changes_between(self._start, self._stop):
            yield self._holdings(at, keyframe=False)
        yield self._calls(seen)
        if self._closes:
            yield self._samples(seen)

    def _header(self, last: bool = False) -> Header:
        life = self._life
        header = Header(
            *self._plan.key,
            life.boot_id,
            life.epoch_ns,
            self._sequence,
            self._window,
            self._spec.window_ns,
            part=self._part,
            last=last,
            goodbye=last and self._stop == self._plan.ended_ns,
            clock_offset_ns=life.clock_offset_ns,
            agent_version="simulated",
        )
        self._sequence += 1
        self._part += 1
        return header

    def _holdings(self, at: int, keyframe: bool) -> Holdings:
        there = self._plan.present(at, at + 1)
        return Holdings(
            self._header(),
            at,
            self._plan.layout,
            keyframe=keyframe,
            pods=[one.pod for one in there if one.pod is not None],
            holders=[one.holder() for one in there if one.slots],
            processes=[one.process() for one in there],
            resident_process=longs(range(len(there))),
            resident_device=longs([one.device for one in there]),
            resident_bytes=longs([one.resident_bytes for one in there]),
            unwitnessed=longs([0] * len(self._plan.layout.devices)),
        )

    def _calls(self, seen: Activity) -> EventBatch:
        """Each episode is launches from its start on and a wait that returns at its end."""
        launches = np.array([one.profile.launches for one in seen.tenants], np.int64)[seen.tenant]
        room = (seen.episode_end_ns - seen.episode_start_ns) // (2 * LAUNCH_NS)
        launches = np.minimum(launches, np.maximum(room, 1))
        number = np.arange(len(launches))
        of = np.repeat(number, launches)
        position = np.arange(len(of)) - np.repeat(np.cumsum(launches) - launches, launches)
        returned = seen.episode_start_ns[of] + (position + 1) * LAUNCH_NS
        last = seen.episode_start_ns + launches * LAUNCH_NS
        waits = np.maximum(seen.episode_end_ns - last, 1)
        time = np.concatenate((returned, seen.episode_end_ns))
        episode = np.concatenate((of, number))
        launched = np.arange(len(time)) < len(of)
        order = np.lexsort((episode, time))
        owner = seen.tenant[episode][order]
        launched, duration = launched[order], np.concatenate((np.full(len(of), LAUNCH_NS), waits))[order]
        device = np.array([one.device for one in seen.tenants], np.int64)[owner]
        zeros, none = np.zeros(len(order), np.int64), np.full(len(order), -1, np.int64)
        return EventBatch(
            self._header(),
            processes=[one.process() for one in seen.tenants],
            devices=[one.uuid for one in self._plan.layout.devices],
            time_ns=np.minimum(time[order], self._stop - 1),
            process=owner,
            thread=none,
            device=device,
            operation=np.where(launched, int(Operation.LAUNCH_KERNEL), int(Operation.SYNCHRONIZE_STREAM)),
            duration_ns=duration,
            bytes=zeros,
            launched_threads=np.where(launched, THREADS_A_LAUNCH, 0),
            function=none,
            result=zeros,
            count=zeros + 1,
            span_ns=zeros,
        )

    def _samples(self, seen: Activity) -> SampleBatch:
        """What the driver measured over the stretch: devices exactly, processes with noise."""
        length = self._stop - self._start
        devices = self._plan.layout.devices
        parents = {one.parent_uuid for one in devices}
        rows: list[tuple[int, int, Field, float]] = []
        for position, device in enumerate(devices):
            if device.uuid not in parents:
                rows.append(
                    (position, -1, Field.ENGINE_ACTIVE, min(1.0, seen.occupied_ns[position] / length))
                )
                rows.append((position, -1, Field.SM_ACTIVE, min(1.0, seen.sm_active_ns[position] / length)))
        random = np.random.Generator(np.random.PCG64([self._spec.seed, self._plan.number, self._start]))
        noise = random.normal(1.0, NOISE, len(seen.tenants))
        for number, tenant in enumerate(seen.tenants):
            if self._measured_alone(tenant):
                value = float(np.clip(seen.busy_ns[number] * noise[number] / length, 0.0, 1.0))
                rows.append((tenant.device, number, Field.PROCESS_SM_UTILIZATION, value))
        return SampleBatch(
            self._header(last=True),
            devices=[one.uuid for one in devices],
            processes=[one.process() for one in seen.tenants],
            device=longs([row[0] for row in rows]),
            process=longs([row[1] for row in rows]),
            field=longs([int(row[2]) for row in rows]),
            source=longs([int(SampleSource.SIMULATED)] * len(rows)),
            start_ns=_same(self._start, len(rows)),
            duration_ns=_same(length, len(rows)),
            value=doubles([row[3] for row in rows]),
        )

    def _measured_alone(self, tenant: Tenant) -> bool:
        """The driver measures the time of processes, not their part of the multiprocessors."""
        return tenant.device not in self._plan.by_sm_time


def _same(value: int, count: int) -> Longs:
    return np.full(count, value, np.int64)
