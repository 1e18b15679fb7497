"""What records say of a node: its devices, pods, holders and processes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Header:
    """Which record this is, and what its agent lost before it."""

    cluster: str
    node: str
    boot_id: str
    epoch_ns: int
    sequence: int
    window_start_ns: int
    window_length_ns: int
    schema_version: int = 1
    part: int = 0
    last: bool = False
    amendment: bool = False
    goodbye: bool = False
    mend: int = 0
    clock_offset_ns: int = 0
    lost_kernel: int = 0
    lost_user: int = 0
    unpaired_returns: int = 0
    coarsening: int = 0
    agent_version: str = ""


@dataclass(slots=True)
class Process:
    """A process that uses or holds a GPU, and the consumer that it belongs to. The kernel's cgroup says
    which, never the process itself."""

    pid: int
    started_ns: int = 0
    ended_ns: int | None = None
    cgroup_id: int = 0
    consumer_kind: str = ""
    consumer: str = ""
    container_id: str = ""
    container: str = ""
    name: str = ""
    pending: bool = False
    witnessed: bool = True


@dataclass(slots=True)
class Device:
    """A whole GPU or a MIG instance."""

    uuid: str
    index: int = -1
    minor: int = -1
    parent_uuid: str = ""
    gpu_instance: int = -1
    compute_instance: int = -1
    slices: int = 0
    slices_total: int = 0
    model: str = ""
    mig_profile: str = ""
    memory_total_bytes: int = 0
    sm_count: int = 0
    sharing: str = "exclusive"
    replicas: int = 1
    sm_active_declared: bool = False
    lost: bool = False
    placement_start: int = -1
    placement_size: int = 0
    slice_starts: int = 0
    slice_size: int = 0


@dataclass(slots=True)
class NodeLayout:
    """What a node is: all that prices and empty windows need."""

    instance_id: str = ""
    instance_type: str = ""
    capacity_type: str = ""
    region: str = ""
    zone: str = ""
    node_pool: str = ""
    gpu_count: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    devices: list[Device] = field(default_factory=list)


@dataclass(slots=True)
class Pod:
    """A pod on the node."""

    uid: str
    namespace: str = ""
    name: str = ""
    phase: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    workload_kind: str = ""
    workload: str = ""


@dataclass(slots=True)
class Holder:
    """Who a device is held for."""

    consumer: str
    device: int
    consumer_kind: str = "pod"
    container: str = ""
    resource_name: str = ""
    slots: int = 1
    share_numerator: int = 0
    share_denominator: int = 0
    mps_percentage: float | None = None
    memory_limit_bytes: int | None = None


@dataclass(slots=True)
class Keeper:
    """A pod without a GPU that keeps its node alive, and why an autoscaler leaves it alone."""

    uid: str = ""
    namespace: str = ""
    pod: str = ""
    workload: str = ""
    why: list[str] = field(default_factory=list)
