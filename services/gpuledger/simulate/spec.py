"""How large a simulated fleet is, and how much of what is in it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.contract.windows import DEFAULT_WINDOW_NS, HOUR_NS, NS_PER_S, WindowGrid

MAX_GPUS = 1_000_000
MAX_HOURS = 24 * 366


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """A fleet of ``gpus`` GPUs, eight a node, over ``hours`` from ``start_ns`` (aligned to a window).

    The shares of kinds of pods follow published traces; docs/simulate.md says which. Rates are per node and
    hour. Raises ValueError where a number makes no fleet.
    """

    gpus: int = 16
    hours: float = 1.0
    seed: int = 1
    start_ns: int = 1_796_083_200 * NS_PER_S  # 2026-12-01T00:00:00Z
    window_ns: int = DEFAULT_WINDOW_NS
    clusters: int = 1
    gpus_per_node: int = 8
    shared_devices: float = 0.28  # of the GPUs are cut into slots (28.3 % of jobs ask for less than one)
    mig_devices: float = 0.06
    free_devices: float = 0.15  # of the slots hold nobody at a time
    intruders: float = 0.02  # of the GPUs have a process that nobody booked
    spot_nodes: float = 0.3
    agent_crashes: float = 0.1
    pod_changes: float = 2.0
    node_ends: float = 0.05  # of the nodes are launched or ended within the time

    def __post_init__(self) -> None:
        WindowGrid(self.window_ns)
        if not 1 <= self.gpus <= MAX_GPUS:
            raise ValueError(f"{self.gpus} GPUs are not 1 .. {MAX_GPUS}")
        if not 0 < self.hours <= MAX_HOURS:
            raise ValueError(f"{self.hours} hours are not more than 0 and at most {MAX_HOURS}")
        if self.start_ns % self.window_ns:
            raise ValueError("the start is no start of a window")
        if not 1 <= self.gpus_per_node <= 16:
            raise ValueError(f"{self.gpus_per_node} GPUs a node are not 1 .. 16")
        if not 1 <= self.clusters <= self.nodes:
            raise ValueError(f"{self.clusters} clusters for {self.nodes} nodes")

    @property
    def nodes(self) -> int:
        """Nodes of the fleet; the last may have fewer GPUs."""
        return -(-self.gpus // self.gpus_per_node)

    @property
    def end_ns(self) -> int:
        """End of the time, a whole number of windows after its start."""
        windows = max(1, round(self.hours * HOUR_NS / self.window_ns))
        return self.start_ns + windows * self.window_ns

    def gpus_of(self, node: int) -> int:
        """GPUs of a node."""
        return min(self.gpus_per_node, self.gpus - node * self.gpus_per_node)
