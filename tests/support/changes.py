"""What each rule recommends, made to the plan of a simulated fleet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from gpuledger.contract.gpu_models import profiles_of
from gpuledger.contract.records import Device
from gpuledger.contract.windows import DAY_NS, HOUR_NS
from gpuledger.recommend import Recommendation
from gpuledger.simulate import NodePlan
from gpuledger.simulate.plan import Tenant
from tests.support.worlds import World, left, mig_instance

Change = Callable[[World, Recommendation], Iterator[NodePlan]]


def _subject(plan: NodePlan, tenant: Tenant) -> str:
    pod = tenant.pod
    return f"{plan.key.cluster}/{pod.namespace}/{pod.workload_kind}/{pod.workload}" if pod else ""


def _has(plan: NodePlan, one: Recommendation) -> Callable[[Tenant], bool]:
    return lambda tenant: _subject(plan, tenant) == one.subject


def _of_model(device: Device, one: Recommendation) -> bool:
    return f"({device.model})" in one.finding


def _scaled_to_zero(before: World, one: Recommendation) -> Iterator[NodePlan]:
    for plan in before.plans:
        yield left(plan, before.future.start_ns, _has(plan, one))


def _node_removed(before: World, one: Recommendation) -> Iterator[NodePlan]:
    for plan in before.plans:
        gone = f"{plan.key.cluster}/{plan.key.node}" == one.subject
        yield replace(plan, ended_ns=before.future.start_ns) if gone else plan


def _cut(before: World, one: Recommendation) -> Iterator[NodePlan]:
    """Each whole GPU of the workload becomes a GPU with one instance of the profile, for the workload."""
    (name,) = re.findall(r"mig-(\S+):", one.change)
    for plan in before.plans:
        devices, tenants = list(plan.layout.devices), []
        for tenant in plan.tenants:
            gpu = devices[tenant.device]
            if _has(plan, one)(tenant) and _of_model(gpu, one) and _is_whole(gpu):
                profile = next(p for p in profiles_of(gpu.model) if p.name == name)
                devices[tenant.device] = replace(gpu, sharing="mig")
                devices.append(mig_instance(gpu, profile, 0))
                tenant = replace(tenant, device=len(devices) - 1)
            tenants.append(tenant)
        yield replace(plan, layout=replace(plan.layout, devices=devices), tenants=tuple(tenants))


def _shared(before: World, one: Recommendation) -> Iterator[NodePlan]:
    """Each whole GPU of the workload is shared between so many pods, of which it is one."""
    (replicas,) = map(int, re.findall(r"between (\d+) pods", one.change))
    by_mps = one.rule == "mps"
    for plan in before.plans:
        chosen = {
            tenant.device
            for tenant in plan.tenants
            if _has(plan, one)(tenant) and _is_whole(plan.layout.devices[tenant.device])
        }
        devices = [
            replace(gpu, sharing=one.rule, sm_active_declared=by_mps, replicas=replicas)
            if number in chosen
            else gpu
            for number, gpu in enumerate(plan.layout.devices)
        ]
        percentage = 100.0 / replicas if by_mps else None
        tenants = (
            replace(tenant, mps_percentage=percentage) if tenant.device in chosen else tenant
            for tenant in plan.tenants
        )
        yield replace(
            plan,
            layout=replace(plan.layout, devices=devices),
            tenants=tuple(tenants),
            by_sm_time=plan.by_sm_time | chosen if by_mps else plan.by_sm_time,
        )


def _on_spot(before: World, one: Recommendation) -> Iterator[NodePlan]:
    """The on-demand nodes of the workload become spot nodes."""
    for plan in before.plans:
        moves = any(map(_has(plan, one), plan.tenants)) and plan.layout.capacity_type == "on_demand"
        yield replace(plan, layout=replace(plan.layout, capacity_type="spot")) if moves else plan


def _in_working_hours(before: World, one: Recommendation) -> Iterator[NodePlan]:
    """Outside of the hours that the change names the workload is away."""
    begin, end = map(int, re.findall(r"(\d+):00", one.change))
    future = before.future
    days = range(future.start_ns - future.start_ns % DAY_NS, future.end_ns, DAY_NS)
    there = [(day + begin * HOUR_NS, day + end * HOUR_NS) for day in days]
    for plan in before.plans:
        tenants: list[Tenant] = []
        for tenant in plan.tenants:
            if not _has(plan, one)(tenant):
                tenants.append(tenant)
                continue
            for first, last in [(tenant.start_ns, future.start_ns), *there]:
                start, stop = max(first, tenant.start_ns), min(last, tenant.end_ns)
                if start < stop:
                    tenants.append(replace(tenant, start_ns=start, end_ns=stop))
        yield replace(plan, tenants=tuple(tenants))


def _recut(before: World, one: Recommendation) -> Iterator[NodePlan]:
    """The instances of the GPU become those of the layout that the change names, the largest first."""
    sizes = [
        name for count, name in re.findall(r"(\d+) x (\S+?)(?:,|$)", one.change) for _ in range(int(count))
    ]
    for plan in before.plans:
        devices = list(plan.layout.devices)
        for gpu in plan.layout.devices:
            if f"{plan.key.cluster}/{plan.key.node}/{gpu.uuid}" != one.subject:
                continue
            profiles = {profile.name: profile for profile in profiles_of(gpu.model)}
            there = [place for place, device in enumerate(devices) if device.parent_uuid == gpu.uuid]
            for number, (place, name) in enumerate(zip(there, sizes, strict=True)):
                devices[place] = mig_instance(gpu, profiles[name], number)
        yield replace(plan, layout=replace(plan.layout, devices=devices))


def _is_whole(device: Device) -> bool:
    return device.sharing == "exclusive" and not device.parent_uuid


_HELD = ("used", "held_idle")
_ALL = (*_HELD, "unallocated", "unobserved")
CHANGES: Final[dict[str, tuple[str, Change, Sequence[str]]]] = {
    "idle": ("scale_to_zero", _scaled_to_zero, ("held_idle",)),
    "warm_idle": ("scale_to_zero", _scaled_to_zero, ("held_idle",)),
    "mig_slice": ("cut_into_slices", _cut, _HELD),
    "time_slicing": ("share_by_time_slices", _shared, _HELD),
    "mps": ("share_by_mps", _shared, _HELD),
    "node_after_work": ("remove_node", _node_removed, _ALL),
    "node_unallocated": ("remove_node", _node_removed, _ALL),
    "node_kept_by_cpu_pods": ("remove_kept_node", _node_removed, _ALL),
    "stranded_slices": ("cut_anew", _recut, _ALL),
    "spot": ("move_to_spot", _on_spot, _HELD),
    "schedule": ("working_hours", _in_working_hours, ("held_idle",)),
}
"""By rule: the change, how it is made to the plan, and the money in which it shows."""
