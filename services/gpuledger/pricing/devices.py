"""What a price applies to: a GPU, a MIG instance, or what of a node is not GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuledger.contract.money import unit_share
from gpuledger.contract.records import Device, NodeLayout

ON_DEMAND = "on_demand"
NON_GPU = -1  # position of the part of a node's price that is not the GPUs'


@dataclass(frozen=True, slots=True)
class PricedDevice:
    """A device with everything that a price may match, and its place in the splits.

    ``position`` is the GPU's number on its node, 0 .. gpu_count-1, or NON_GPU. ``units`` are the numbers of
    the MIG units that it is made of, of ``units_total``; both empty for a whole GPU.
    """

    cluster: str = ""
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    capacity_type: str = ""
    node_pool: str = ""
    gpu_model: str = ""
    mig_profile: str = ""
    position: int = 0
    gpu_count: int = 1
    units: tuple[int, ...] = ()
    units_total: int = 0

    @property
    def match_key(self) -> tuple[str, ...]:
        """The attributes that entries match, in the order of MATCH_FIELDS.

        A node of which nobody says its capacity type is priced as on demand: the clouds label the others.
        """
        return (
            self.cluster,
            self.region,
            self.zone,
            self.instance_type,
            self.capacity_type or ON_DEMAND,
            self.node_pool,
            self.gpu_model,
            self.mig_profile,
        )

    def is_like(self, other: PricedDevice) -> bool:
        """Whether nothing but their places on one node tells two whole GPUs apart."""
        return not self.units_total and not other.units_total and self.gpu_model == other.gpu_model

    def with_gpus(self, count: int) -> PricedDevice:
        """The same on a node that is paid for as having ``count`` GPUs."""
        return replace(self, gpu_count=count)

    def share(self, gpu_total: int) -> int:
        """Part of a GPU's cumulative ``gpu_total`` (nano or ns since the epoch) that is this device's.

        Monotone in ``gpu_total``; the units of one GPU sum to it (CHARGING.md, Splits).
        """
        if not self.units_total:
            return gpu_total
        return sum(unit_share(gpu_total, unit, self.units_total) for unit in self.units)

    def gpu_ns(self, start_ns: int, end_ns: int) -> int:
        """GPU time of [start_ns, end_ns): the split of cum(t) = t; none for what is not GPU."""
        if self.position == NON_GPU:
            return 0
        return self.share(end_ns) - self.share(start_ns)

    @staticmethod
    def of(device: Device, layout: NodeLayout | None = None, cluster: str = "") -> PricedDevice:
        """A whole GPU, or a MIG instance taken as the first units of its GPU, priced on its own.

        Use ``gpuledger.attribution.devices`` for the devices of a node, where instances get their own units.
        """
        layout = layout or NodeLayout()
        total = device.slices_total if device.slices else 0
        return PricedDevice(
            cluster=cluster,
            region=layout.region,
            zone=layout.zone,
            instance_type=layout.instance_type,
            capacity_type=layout.capacity_type,
            node_pool=layout.node_pool,
            gpu_model=device.model,
            mig_profile=device.mig_profile,
            position=max(device.index, 0) if device.index < max(layout.gpu_count, 1) else 0,
            gpu_count=max(layout.gpu_count, 1),
            units=tuple(range(device.slices)) if total else (),
            units_total=total,
        )


MATCH_FIELDS = (
    "cluster",
    "region",
    "zone",
    "instance_type",
    "capacity_type",
    "node_pool",
    "gpu_model",
    "mig_profile",
)
"""Attributes of a price entry that select devices; an empty one is any."""
