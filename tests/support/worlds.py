"""Simulated fleets with a past that recommendations are made from, and a future in which they show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from gpuledger.contract.gpu_models import MigProfile, profiles_of
from gpuledger.contract.records import ChargeSet, Device, Pod, PriceBookVersion, PriceEntry
from gpuledger.contract.windows import DAY_NS, HOUR_NS, NS_PER_S
from gpuledger.pricing import Prices
from gpuledger.recommend import Settings
from gpuledger.simulate import FleetSpec, NodePlan, plan_node
from gpuledger.simulate.plan import Tenant
from gpuledger.simulate.profiles import PROFILES, Profile
from tests.support.simulated import GPU_HOUR_NANO, charged

PAST_HOURS, FUTURE_HOURS = 6, 2
GPUS_A_NODE = 4
SPOT_RATIO = 0.4
MINUTE_NS = 60 * NS_PER_S
# Simulated inference is active 3 % of its time: with the usual 5 % nothing would be left to slice.
SETTINGS = Settings(active_percent=1.0, idle_hours=4, node_idle_hours=2, checkpointing=("*/Job/*",))
PRICES = Prices(
    [
        PriceBookVersion(
            1,
            0,
            entries=[
                PriceEntry("gpu", "gpu", GPU_HOUR_NANO, "USD"),
                PriceEntry("spot", "gpu", int(GPU_HOUR_NANO * SPOT_RATIO), "USD", capacity_type="spot"),
            ],
        )
    ]
)
IDLE, INFERENCE, _, TRAINING = PROFILES
WORK_HOURS = (7, 20)
WEEK_PAST_HOURS, WEEK_FUTURE_HOURS = 4 * 24, 24  # Monday to Thursday, and Friday
SMALL_MODEL, SMALL_BYTES = "NVIDIA L4", 24 << 30  # has no MIG
OTHER_NODES = 3
RARELY_AWAKE = 0.1  # of the windows, in each 6 %: below 1 % active
HALF_SLICES = 3  # of seven, with half of the memory


@dataclass(frozen=True)
class World:
    """A fleet over past and future. ``every_ns``: of so much time one window is charged, and all amounts are
    as much smaller. ``cpu_pods``: nodes with a pod that holds no GPU, by their name."""

    spec: FleetSpec
    plans: Sequence[NodePlan]
    past_hours: int = PAST_HOURS
    future_hours: int = FUTURE_HOURS
    every_ns: int = MINUTE_NS
    cpu_pods: Mapping[str, Pod] = field(default_factory=dict)
    settings: Settings = SETTINGS

    @property
    def past(self) -> FleetSpec:
        """The hours that are recommended from."""
        return replace(self.spec, hours=self.past_hours)

    @property
    def future(self) -> FleetSpec:
        """The hours in which it shows."""
        start = self.spec.start_ns + self.past_hours * HOUR_NS
        return replace(self.spec, start_ns=start, hours=self.future_hours)

    @cached_property
    def unchanged(self) -> Sequence[ChargeSet]:
        """The future without any change."""
        return self.charged(self.future, self.plans)

    def charged(self, spec: FleetSpec, plans: Sequence[NodePlan]) -> list[ChargeSet]:
        """The ledger of a time of it."""
        return charged(spec, plans, PRICES, every_ns=self.every_ns, cpu_pods=self.cpu_pods)


def world(start_ns: int, nodes: int, seed: int = 14, pod_changes: float = 0.0) -> World:
    """``nodes`` nodes at work, one that never had any, and two that lost theirs half way through the past:
    one is empty since, the other has a pod without a GPU."""
    spec = _spec(start_ns, nodes + OTHER_NODES, seed, pod_changes=pod_changes)
    *working, unused, empty, kept = (plan_node(spec, number) for number in range(nodes + OTHER_NODES))
    half = start_ns + PAST_HOURS // 2 * HOUR_NS
    cpu_pod = Pod("cpu-pod", "batch", "cpu-pod", "Running", workload_kind="Deployment", workload="cpu")
    gone = [(unused, start_ns), (empty, half), (kept, half)]
    plans = [*working, *(left(plan, at, lambda _: True) for plan, at in gone)]
    return World(spec, plans, every_ns=3 * MINUTE_NS, cpu_pods={kept.key.node: cpu_pod})


def of_small_gpus(start_ns: int, nodes: int, seed: int = 14) -> World:
    """Whole GPUs of a model without MIG, of whose memory little is taken. Of each node's pods one is as it
    comes, two work in every second hour, and one hardly ever."""
    spec = _spec(start_ns, nodes, seed, shared_devices=0.0, mig_devices=0.0)
    hours = list(pairwise(range(spec.start_ns, spec.end_ns + 1, HOUR_NS)))
    turns = [(start, end, INFERENCE if n % 2 else IDLE) for n, (start, end) in enumerate(hours)]
    rarely = [(spec.start_ns, spec.end_ns, replace(INFERENCE, awake=RARELY_AWAKE))]

    def other(tenant: Tenant) -> list[Tenant]:
        if not tenant.device:
            return [tenant]
        name, parts = ("rare", rarely) if tenant.device == 2 else ("turns", turns)
        return [_called(one, name) for one in _as(tenant, parts)]

    plans = [_each(_small(plan_node(spec, number)), other) for number in range(nodes)]
    return World(spec, plans, every_ns=5 * MINUTE_NS)


def in_halves(start_ns: int, nodes: int, seed: int = 14) -> World:
    """Every GPU is cut into two instances of three slices, which take all of its memory: a slice is left over
    that no instance can take. One of the two is held."""
    spec = _spec(start_ns, nodes, seed, shared_devices=0.0, mig_devices=0.0)
    plans = [_halved(plan_node(spec, number)) for number in range(nodes)]
    return World(spec, plans, every_ns=5 * MINUTE_NS)


def working_week(monday_ns: int, nodes: int, seed: int = 14) -> World:
    """Services that are at work from 7 to 20 and idle at night, from Monday to Friday."""
    hours = WEEK_PAST_HOURS + WEEK_FUTURE_HOURS
    spec = replace(_spec(monday_ns, nodes, seed, mig_devices=0.0, shared_devices=0.0), hours=hours)
    begin, end = (hour * HOUR_NS for hour in WORK_HOURS)
    parts = []
    for day in range(monday_ns, spec.end_ns, DAY_NS):
        parts.append((day, day + begin, IDLE))
        parts.append((day + begin, day + end, TRAINING))
        parts.append((day + end, day + DAY_NS, IDLE))
    plans = [_each(plan_node(spec, number), lambda tenant: _as(tenant, parts)) for number in range(nodes)]
    return World(spec, plans, WEEK_PAST_HOURS, WEEK_FUTURE_HOURS, every_ns=20 * MINUTE_NS)


def left(plan: NodePlan, at_ns: int, leaves: Callable[[Tenant], bool]) -> NodePlan:
    """The plan in which some tenants leave at an instant, and do not come later."""
    staying = (
        replace(tenant, end_ns=min(tenant.end_ns, at_ns)) if leaves(tenant) else tenant
        for tenant in plan.tenants
        if not (leaves(tenant) and tenant.start_ns >= at_ns)
    )  # fmt: skip
    return replace(plan, tenants=tuple(staying))


def _spec(start_ns: int, nodes: int, seed: int, **more: float) -> FleetSpec:
    calm = {"intruders": 0.0, "agent_crashes": 0.0, "node_ends": 0.0, "pod_changes": 0.0}
    return FleetSpec(
        GPUS_A_NODE * nodes, PAST_HOURS + FUTURE_HOURS, seed, start_ns, MINUTE_NS,
        gpus_per_node=GPUS_A_NODE, **(calm | more),
    )  # fmt: skip


def _each(plan: NodePlan, change: Callable[[Tenant], list[Tenant]]) -> NodePlan:
    """The plan with other tenants in the place of each, all with a pid of their own."""
    found = [one for tenant in plan.tenants for one in change(tenant)]
    return replace(plan, tenants=tuple(replace(one, pid=1000 + n) for n, one in enumerate(found)))


def _as(tenant: Tenant, parts: Sequence[tuple[int, int, Profile]]) -> list[Tenant]:
    """A pod that does one thing after the other, each as a process of its own."""
    return [
        replace(tenant, start_ns=start, end_ns=end, profile=profile)
        for start, end, profile in parts
        if start < tenant.end_ns and end > tenant.start_ns
    ]


def _called(tenant: Tenant, name: str) -> Tenant:
    """The same as a workload of its own."""
    assert tenant.pod is not None
    return replace(tenant, pod=replace(tenant.pod, workload=f"{tenant.pod.workload}-{name}"))


def mig_instance(gpu: Device, profile: MigProfile, number: int) -> Device:
    """An instance of a GPU, the one of that number."""
    return Device(
        f"MIG-{gpu.uuid}/{number}/0",
        gpu.index,
        gpu.minor,
        parent_uuid=gpu.uuid,
        gpu_instance=number,
        compute_instance=0,
        slices=profile.slices,
        slices_total=profile.slices_total,
        model=gpu.model,
        mig_profile=profile.name,
        memory_total_bytes=profile.memory_bytes,
        sm_count=gpu.sm_count * profile.slices // (profile.slices_total + 1),
    )


def _halved(plan: NodePlan) -> NodePlan:
    devices: list[Device] = []
    for gpu in plan.layout.devices:
        half = next(profile for profile in profiles_of(gpu.model) if profile.slices == HALF_SLICES)
        devices += [replace(gpu, sharing="mig"), *(mig_instance(gpu, half, number) for number in (0, 1))]
    tenants = tuple(replace(tenant, device=3 * tenant.device + 1) for tenant in plan.tenants)
    return replace(plan, layout=replace(plan.layout, devices=devices), tenants=tenants)


def _small(plan: NodePlan) -> NodePlan:
    devices = [
        replace(device, model=SMALL_MODEL, memory_total_bytes=SMALL_BYTES) for device in plan.layout.devices
    ]
    tenants = tuple(
        replace(
            tenant,
            resident_bytes=tenant.resident_bytes * SMALL_BYTES // was.memory_total_bytes // 4,
        )
        for tenant in plan.tenants
        for was in [plan.layout.devices[tenant.device]]
    )
    return replace(plan, layout=replace(plan.layout, devices=devices), tenants=tenants)
