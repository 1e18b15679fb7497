"""What a node is and who is on it when, from the seed alone."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import Device, Holder, NodeLayout, Pod, Process
from gpuledger.contract.windows import NS_PER_S
from gpuledger.simulate.profiles import INTRUDER, Profile, pick
from gpuledger.simulate.spec import FleetSpec

MODELS = (
    ("p5.48xlarge", "NVIDIA H100 80GB HBM3", 80 << 30, 132),
    ("p4d.24xlarge", "NVIDIA A100-SXM4-40GB", 40 << 30, 108),
    ("a2-highgpu-8g", "NVIDIA A100-SXM4-40GB", 40 << 30, 108),
)
ZONES = (("us-east-1", "use1-az1"), ("us-east-1", "use1-az2"), ("eu-central-1", "euc1-az1"))
MIG_CUTS = ((3, 2, 1, 1), (4, 3), (2, 2, 2), (1,) * 7)
SLOTS = (2, 4, 8)
TEAMS = ("vision", "search", "speech", "ads", "research", "platform")
OUTAGE_NS = (20 * NS_PER_S, 180 * NS_PER_S)  # from a crash of the agent to the next one's first record
DRIFT = 2e-5  # of a node's clock, as a standard deviation: 72 ms an hour
_BOOT_NS = 86_400 * NS_PER_S
_DRIFT_SEED = 1_000_002  # apart from the other draws of a node


@dataclass(frozen=True)
class Tenant:
    """A pod, or with ``slots`` 0 a process nobody booked, on one device from ``start_ns`` to ``end_ns``."""

    pod: Pod | None
    pid: int
    device: int
    slots: int
    mps_percentage: float | None
    profile: Profile
    resident_bytes: int
    start_ns: int
    end_ns: int

    def process(self) -> Process:
        """Its one process."""
        if self.pod is None:
            return Process(self.pid, self.start_ns, consumer_kind="host_process",
                           consumer=f"{self.pid}:{self.start_ns}", name="python")  # fmt: skip
        return Process(self.pid, self.start_ns, consumer_kind="pod", consumer=self.pod.uid, container="main")

    def holder(self) -> Holder:
        """What it holds."""
        return Holder(
            self.pod.uid if self.pod else "",
            self.device,
            container="main",
            resource_name="nvidia.com/gpu",
            slots=self.slots,
            mps_percentage=self.mps_percentage,
        )


@dataclass(frozen=True)
class Life:
    """A life of the node's agent: from its first record to its crash, or to the end."""

    start_ns: int
    end_ns: int
    boot_id: str
    clock_offset_ns: int

    @property
    def epoch_ns(self) -> int:
        """The boot clock at its start."""
        return self.start_ns - self.clock_offset_ns


@dataclass(frozen=True)
class NodePlan:
    """A node: its layout, its life, its tenants in order of pid, and the lives of its agent in order."""

    number: int
    key: NodeKey
    layout: NodeLayout
    launched_ns: int
    ended_ns: int
    tenants: tuple[Tenant, ...]
    lives: tuple[Life, ...]
    window_ns: int
    by_sm_time: frozenset[int] = field(default_factory=frozenset)
    """Devices under MPS."""

    @cached_property
    def changes(self) -> list[int]:
        """Every instant inside a window at which a tenant comes or goes, in order."""
        every = {at for tenant in self.tenants for at in (tenant.start_ns, tenant.end_ns)}
        inside = (at for at in every if self.launched_ns < at < self.ended_ns)
        return sorted(at for at in inside if at % self.window_ns)

    def changes_between(self, start_ns: int, end_ns: int) -> list[int]:
        """The changes after ``start_ns`` and before ``end_ns``."""
        order = self.changes
        return order[bisect_right(order, start_ns) : bisect_right(order, end_ns - 1)]

    def present(self, start_ns: int, end_ns: int) -> list[Tenant]:
        """Tenants that are there in some of [start_ns, end_ns)."""
        return [one for one in self.tenants if one.start_ns < end_ns and one.end_ns > start_ns]


def plan_node(spec: FleetSpec, number: int) -> NodePlan:
    """The plan of the node of that number."""
    random = np.random.Generator(np.random.PCG64([spec.seed, number]))
    key = NodeKey(f"cluster-{number % spec.clusters}", f"node-{number:05d}")
    instance_type, model, memory, sms = MODELS[random.integers(len(MODELS))]
    region, zone = ZONES[random.integers(len(ZONES))]
    devices: list[Device] = []
    for index in range(spec.gpus_of(number)):
        gpu = Device(f"GPU-{_uuid(spec, number, index)}", index, index, model=model,
                     memory_total_bytes=memory, sm_count=sms)  # fmt: skip
        devices += _cut(spec, gpu, random)
    layout = NodeLayout(
        instance_id=f"i-{spec.seed:04x}{number:012x}",
        instance_type=instance_type,
        capacity_type="spot" if random.random() < spec.spot_nodes else "on_demand",
        region=region,
        zone=zone,
        node_pool="gpu",
        gpu_count=spec.gpus_of(number),
        devices=devices,
    )
    launched, ended = _life_of_node(spec, random)
    tenants = _tenants(spec, number, devices, launched, ended, random)
    lives = _lives_of_agent(spec, number, launched, ended, random)
    by_sm_time = frozenset(i for i, device in enumerate(devices) if device.sharing == "mps")
    return NodePlan(number, key, layout, launched, ended, tenants, lives, spec.window_ns, by_sm_time)


def _uuid(spec: FleetSpec, *names: object) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join(map(str, (spec.seed, *names)))))


def _cut(spec: FleetSpec, gpu: Device, random: np.random.Generator) -> list[Device]:
    """A GPU as devices: whole, in slots, or in MIG instances."""
    kind = random.random()
    if kind < spec.mig_devices:
        gpu.sharing = "mig"
        cut = MIG_CUTS[random.integers(len(MIG_CUTS))]
        return [gpu, *(_instance(gpu, number, size) for number, size in enumerate(cut))]
    if kind < spec.mig_devices + spec.shared_devices:
        gpu.sharing = "time_slicing" if random.random() < 0.7 else "mps"
        gpu.sm_active_declared = gpu.sharing == "mps"
        gpu.replicas = int(SLOTS[random.integers(len(SLOTS))])
    return [gpu]


def _instance(gpu: Device, number: int, size: int) -> Device:
    memory = gpu.memory_total_bytes * size // 8
    return Device(
        f"MIG-{gpu.uuid}/{number}/0",
        gpu.index,
        gpu.minor,
        parent_uuid=gpu.uuid,
        gpu_instance=number,
        compute_instance=0,
        slices=size,
        slices_total=7,
        model=gpu.model,
        mig_profile=f"{size}g.{memory >> 30}gb",
        memory_total_bytes=memory,
        sm_count=gpu.sm_count * size // 8,
    )


def _life_of_node(spec: FleetSpec, random: np.random.Generator) -> tuple[int, int]:
    begin, end = spec.start_ns, spec.end_ns
    inside = int(random.integers(begin, end))
    kind = random.random()
    if kind < spec.node_ends / 2:
        return inside, end
    if kind < spec.node_ends:
        return begin, max(inside, begin + 1)
    return begin, end


def _tenants(
    spec: FleetSpec,
    node: int,
    devices: list[Device],
    launched: int,
    ended: int,
    random: np.random.Generator,
) -> tuple[Tenant, ...]:
    """Each slot has one tenant after the other; a few devices have one that nobody booked."""
    found: list[Tenant] = []
    changes = spec.pod_changes / max(len(devices), 1)
    for position, device in enumerate(devices):
        if device.sharing == "mig":
            continue
        for slot in range(device.replicas):
            at = launched
            while at < ended:
                hours = random.exponential(1 / changes) if changes else np.inf
                until = min(ended, at + max(NS_PER_S, int(min(hours * 3600, 1e9) * NS_PER_S)))
                if random.random() >= spec.free_devices:
                    found.append(_pod(spec, node, position, device, slot, (at, until), random, len(found)))
                at = until
        if random.random() < spec.intruders:
            pid = 2_000_000 + len(found)
            found.append(Tenant(None, pid, position, 0, None, INTRUDER, 1 << 30, launched, ended))
    return tuple(found)


def _pod(
    spec: FleetSpec,
    node: int,
    position: int,
    device: Device,
    slot: int,
    life: tuple[int, int],
    random: np.random.Generator,
    number: int,
) -> Tenant:
    team = TEAMS[random.integers(len(TEAMS))]
    profile = pick(random)
    name = f"{profile.name}-{node}-{number}"
    pod = Pod(
        _uuid(spec, node, position, slot, life[0]),
        team,
        name,
        "Running",
        labels={"team": team, "app": profile.name},
        workload_kind=profile.workload_kind,
        workload=f"{team}-{profile.name}",
    )
    percentage = 100.0 / device.replicas if device.sharing == "mps" else None
    resident = int(device.memory_total_bytes * random.uniform(0.2, 0.9) / device.replicas)
    pid = 1000 + number
    return Tenant(pod, pid, position, 1, percentage, profile, resident, *life)


def _lives_of_agent(
    spec: FleetSpec, number: int, launched: int, ended: int, random: np.random.Generator
) -> tuple[Life, ...]:
    boot = _uuid(spec, "boot", number)
    offset = launched - _BOOT_NS
    drift = np.random.default_rng((spec.seed, _DRIFT_SEED, number)).normal(0, DRIFT)
    lives = []
    at = launched
    while at < ended:
        hours = random.exponential(1 / spec.agent_crashes) if spec.agent_crashes else np.inf
        crash = min(ended, at + max(NS_PER_S, int(min(hours * 3600, 1e9) * NS_PER_S)))
        drifted = int(drift * (at - launched))  # found when the clocks are compared, at the start of an epoch
        lives.append(Life(at, crash, boot, offset + drifted + int(random.normal(0, 2e6))))
        at = crash + int(random.integers(*OUTAGE_NS))
    return tuple(lives)
