"""Recommendations carried out on a simulated fleet: what was promised, and what the ledger then shows.

The past is charged and recommended from. The future is charged twice, as it would have been and with the
change made to the plan; what the subject pays less is what the change realised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from gpuledger.contract.records import ChargeSet, Device
from gpuledger.contract.windows import HOUR_NS, NS_PER_S
from gpuledger.recommend import MONTH_S, Recommendation, Settings
from gpuledger.recommend.mig import MigProfile, profiles_of
from gpuledger.simulate import FleetSpec, NodePlan, plan_node
from gpuledger.simulate.plan import Tenant
from tests.support.simulated import charged

PAST_HOURS, FUTURE_HOURS = 6, 2
GPUS_A_NODE = 4
# Simulated inference is active 3 % of its time: with the usual 5 % nothing would be left to slice.
SETTINGS = Settings(active_percent=1.0, idle_hours=4, node_idle_hours=2)


@dataclass(frozen=True)
class World:
    """A fleet over past and future; the last of its nodes lost its work in the past."""

    spec: FleetSpec
    plans: Sequence[NodePlan]
    settings: Settings = SETTINGS

    @property
    def past(self) -> FleetSpec:
        """The hours that are recommended from."""
        return replace(self.spec, hours=PAST_HOURS)

    @property
    def future(self) -> FleetSpec:
        """The hours in which it shows."""
        start = self.spec.start_ns + PAST_HOURS * HOUR_NS
        return replace(self.spec, start_ns=start, hours=FUTURE_HOURS)

    @cached_property
    def unchanged(self) -> Sequence[ChargeSet]:
        """The future without any change."""
        return charged(self.future, self.plans)


class Outcome(NamedTuple):
    """Money of the future's hours in nano: promised, its interval, and realised."""

    change: str
    subject: str
    promised_nano: int
    low_nano: int
    high_nano: int
    realised_nano: int


def world(start_ns: int, nodes: int, seed: int = 14, pod_changes: float = 0.0) -> World:
    """``nodes`` nodes at work and one that lost its work half way through the past."""
    spec = FleetSpec(
        GPUS_A_NODE * (nodes + 1), PAST_HOURS + FUTURE_HOURS, seed, start_ns, 60 * NS_PER_S,
        gpus_per_node=GPUS_A_NODE, intruders=0.0, agent_crashes=0.0, node_ends=0.0, pod_changes=pod_changes,
    )  # fmt: skip
    *working, last = (plan_node(spec, number) for number in range(nodes + 1))
    return World(spec, [*working, _left(last, start_ns + PAST_HOURS // 2 * HOUR_NS, lambda _: True)])


def realised(
    before: World, found: Sequence[Recommendation], only: str = "", most: int | None = None
) -> list[Outcome]:
    """Carry out each recommendation alone; those that the simulator has no change for are left out."""
    chosen = [one for one in found if one.rule in CHANGES and only in ("", CHANGES[one.rule][0])]
    return [_outcome(before, one) for one in chosen[:most]]


def _outcome(before: World, one: Recommendation) -> Outcome:
    name, change, categories = CHANGES[one.rule]
    changed = [after for plan, after in zip(before.plans, change(before, one), strict=True) if after != plan]
    nodes = {plan.key.node for plan in changed}
    unchanged = [charges for charges in before.unchanged if charges.node in nodes]
    saved = _paid(unchanged, one, categories) - _paid(charged(before.future, changed), one, categories)
    scale = FUTURE_HOURS * 3600 / MONTH_S
    s = one.saving
    promised, low, high = (round((value or 0) * scale) for value in (s.nano, s.low_nano, s.high_nano))
    return Outcome(name, one.subject, promised, low, high, saved)


def _paid(sets: Sequence[ChargeSet], one: Recommendation, categories: Sequence[str]) -> int:
    """What the subject of a recommendation pays: a workload for itself, a node for all that it is."""
    paid = 0
    for charges in sets:
        texts = charges.texts
        for row in range(len(charges.device)):
            namespace, workload = texts[charges.namespace[row]], texts[charges.workload[row]]
            names = (f"{charges.cluster}/{namespace}/{workload}", f"{charges.cluster}/{charges.node}")
            if one.subject in names:
                paid += sum(int(getattr(charges, f"{name}_nano")[row]) for name in categories)
    return paid


def _left(plan: NodePlan, at_ns: int, leaves: Callable[[Tenant], bool]) -> NodePlan:
    """The plan in which some tenants leave at an instant, and do not come later."""
    staying = (
        replace(tenant, end_ns=min(tenant.end_ns, at_ns)) if leaves(tenant) else tenant
        for tenant in plan.tenants
        if not (leaves(tenant) and tenant.start_ns >= at_ns)
    )  # fmt: skip
    return replace(plan, tenants=tuple(staying))


def _subject(plan: NodePlan, tenant: Tenant) -> str:
    pod = tenant.pod
    return f"{plan.key.cluster}/{pod.namespace}/{pod.workload_kind}/{pod.workload}" if pod else ""


def _scaled_to_zero(before: World, one: Recommendation) -> Iterator[NodePlan]:
    at = before.future.start_ns
    for plan in before.plans:
        yield _left(plan, at, lambda tenant, plan=plan: _subject(plan, tenant) == one.subject)  # type: ignore[misc]


def _node_removed(before: World, one: Recommendation) -> Iterator[NodePlan]:
    at = before.future.start_ns
    for plan in before.plans:
        gone = f"{plan.key.cluster}/{plan.key.node}" == one.subject
        yield replace(plan, ended_ns=at) if gone else plan


def _cut(before: World, one: Recommendation) -> Iterator[NodePlan]:
    """Each whole GPU of the workload becomes a GPU with one instance of the profile, for the workload."""
    (name,) = re.findall(r"mig-(\S+):", one.change)
    for plan in before.plans:
        devices, tenants = list(plan.layout.devices), []
        for tenant in plan.tenants:
            gpu = devices[tenant.device]
            if _subject(plan, tenant) == one.subject and f"({gpu.model})" in one.finding and _is_whole(gpu):
                profile = next(p for p in profiles_of(gpu.model) if p.name == name)
                devices[tenant.device] = replace(gpu, sharing="mig")
                devices.append(_instance(gpu, profile))
                tenant = replace(tenant, device=len(devices) - 1)
            tenants.append(tenant)
        yield replace(plan, layout=replace(plan.layout, devices=devices), tenants=tuple(tenants))


def _is_whole(device: Device) -> bool:
    return device.sharing == "exclusive" and not device.parent_uuid


def _instance(gpu: Device, profile: MigProfile) -> Device:
    return Device(
        f"MIG-{gpu.uuid}/0/0",
        gpu.index,
        gpu.minor,
        parent_uuid=gpu.uuid,
        gpu_instance=0,
        compute_instance=0,
        slices=profile.slices,
        slices_total=profile.slices_total,
        model=gpu.model,
        mig_profile=profile.name,
        memory_total_bytes=profile.memory_bytes,
        sm_count=gpu.sm_count * profile.slices // (profile.slices_total + 1),
    )


_Change = Callable[[World, Recommendation], Iterator[NodePlan]]
_HELD = ("used", "held_idle")
_ALL = (*_HELD, "unallocated", "unobserved")
CHANGES: Final[dict[str, tuple[str, _Change, Sequence[str]]]] = {
    "idle": ("scale_to_zero", _scaled_to_zero, ("held_idle",)),
    "warm_idle": ("scale_to_zero", _scaled_to_zero, ("held_idle",)),
    "mig_slice": ("cut_into_slices", _cut, _HELD),
    "node_after_work": ("remove_node", _node_removed, _ALL),
    "node_unallocated": ("remove_node", _node_removed, _ALL),
}
"""By rule: the change, how it is made to the plan, and the money in which it shows."""
