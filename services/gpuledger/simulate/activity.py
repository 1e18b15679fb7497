"""What processes do in a window: the episodes in which each has work outstanding, and the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.contract.columns import Doubles, Longs
from gpuledger.simulate.plan import NodePlan, Tenant
from gpuledger.simulate.spec import FleetSpec

_MAX_EPISODES = 64  # of a process in a window


@dataclass(frozen=True)
class Activity:
    """Episodes of a stretch of a window in order of (tenant, start), none reaching over its borders.
    ``tenant`` is an index into ``tenants``. ``busy_ns`` is what each tenant truly had of its device,
    ``occupied_ns`` how long each device of the layout was occupied (SM-time under MPS), ``sm_active_ns`` its
    SM-time."""

    start_ns: int
    tenants: list[Tenant]
    tenant: Longs
    episode_start_ns: Longs
    episode_end_ns: Longs
    busy_ns: Doubles
    occupied_ns: Doubles
    sm_active_ns: Doubles


def activity(spec: FleetSpec, plan: NodePlan, window_start_ns: int) -> Activity:
    """The activity of the window that starts there, from (seed, node, window) alone."""
    end = window_start_ns + spec.window_ns
    random = np.random.Generator(np.random.PCG64([spec.seed, plan.number, window_start_ns // spec.window_ns]))
    tenants = plan.present(max(window_start_ns, plan.launched_ns), min(end, plan.ended_ns))
    owners, starts, ends = [], [], []
    for number, tenant in enumerate(tenants):
        awake = random.random() < tenant.profile.awake
        phase, lengths = random.random(), random.gamma(4.0, 0.25, _MAX_EPISODES)
        if not awake:
            continue
        first, last = max(window_start_ns, tenant.start_ns), min(end, tenant.end_ns)
        begin, stop = _episodes(tenant, first, last, phase, lengths)
        owners.append(np.full(len(begin), number))
        starts.append(begin)
        ends.append(stop)
    if not owners:
        none = np.zeros(0, np.int64)
        return _with_truth(plan, window_start_ns, tenants, none, none, none)
    return _with_truth(
        plan, window_start_ns, tenants, np.concatenate(owners), np.concatenate(starts), np.concatenate(ends)
    )


def between(plan: NodePlan, whole: Activity, start_ns: int, end_ns: int) -> Activity:
    """The part of an activity that lies in [start_ns, end_ns), with the truth of that part."""
    if start_ns <= whole.start_ns and (not len(whole.tenant) or end_ns >= int(whole.episode_end_ns.max())):
        return whole
    begin = np.maximum(whole.episode_start_ns, start_ns)
    stop = np.minimum(whole.episode_end_ns, end_ns)
    some = begin < stop
    return _with_truth(plan, start_ns, whole.tenants, whole.tenant[some], begin[some], stop[some])


def _episodes(tenant: Tenant, first: int, last: int, phase: float, lengths: Doubles) -> tuple[Longs, Longs]:
    """Episodes a period apart with a random length, cut to [first, last) and to what lies before the next."""
    profile = tenant.profile
    period = max(profile.period_ns, (last - first) // _MAX_EPISODES + 1)
    begin = np.arange(first + int(phase * period), last, period, dtype=np.int64)[:_MAX_EPISODES]
    scale = profile.episode_ns * period // profile.period_ns
    length = np.clip((lengths[: len(begin)] * scale).astype(np.int64), 1000, period - 1000)
    return begin, np.minimum(begin + length, last)


def _with_truth(
    plan: NodePlan, start: int, tenants: list[Tenant], owner: Longs, begin: Longs, stop: Longs
) -> Activity:
    """A device whose time is shared gives each process that has work an equal part of it; under MPS each has
    its percentage of the device's multiprocessors, whatever the others do."""
    busy = np.zeros(len(tenants))
    occupied = np.zeros(len(plan.layout.devices))
    active = np.zeros(len(plan.layout.devices))
    device_of = np.array([tenant.device for tenant in tenants], np.int64)
    weight = np.array([tenant.profile.sm_active for tenant in tenants])
    for device in np.unique(device_of[owner]) if len(owner) else ():
        mine = device_of[owner] == device
        who, low, high = owner[mine], begin[mine], stop[mine]
        if int(device) in plan.by_sm_time:
            share = np.array([(tenant.mps_percentage or 100.0) / 100 for tenant in tenants])
            np.add.at(busy, who, (high - low) * share[who])
            occupied[device] = busy[device_of == device].sum()
            active[device] = occupied[device]
            continue
        parts, union = _shared(who, low, high, len(tenants))
        busy += parts
        occupied[device] = union
        active[device] = float((parts * weight).sum())
    return Activity(start, tenants, owner, begin, stop, busy, occupied, active)


def _shared(who: Longs, low: Longs, high: Longs, tenants: int) -> tuple[Doubles, float]:
    """(what each of the tenants gets, how long any has work) where n at a time get 1/n each."""
    at = np.concatenate((low, high))
    step = np.concatenate((np.ones(len(low), np.int64), -np.ones(len(high), np.int64)))
    order = np.lexsort((step, at))
    at, running = at[order], np.cumsum(step[order])
    length = np.diff(at)
    some = running[:-1] > 0
    clock = np.concatenate(([0.0], np.cumsum(np.where(some, length / np.maximum(running[:-1], 1), 0.0))))
    got = clock[np.searchsorted(at, high)] - clock[np.searchsorted(at, low)]
    return np.bincount(who, got, tenants).astype(np.float64), float(length[some].sum())
