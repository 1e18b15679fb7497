"""The devices of a layout as rows of the ledger: GPUs, MIG instances, what they leave free, lost GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpuledger.attribution.meaning import MAX_GPUS
from gpuledger.attribution.mig import FREE, STRANDED, partition
from gpuledger.contract.records import Device, NodeLayout
from gpuledger.contract.rows import NO_DEVICE
from gpuledger.pricing import NON_GPU, PriceBook, PricedDevice


@dataclass(frozen=True, slots=True)
class Slot:
    """A device that is charged for.

    ``index`` is its place in layout.devices, -1 for what has none: the units of a partitioned GPU that no
    instance covers (``uuid`` is the GPU's, ``reason`` says why and ``cause`` through which instances), and
    GPUs that are missing (``uuid`` is ``-``).
    """

    uuid: str
    index: int
    priced: PricedDevice
    parent_uuid: str = ""
    sharing: str = "exclusive"
    replicas: int = 1
    memory_total_bytes: int = 0
    sm_active_declared: bool = False
    lost: bool = False
    reason: str = FREE
    cause: str = ""
    engine_scale: float = 1.0  # of its engine active: what it is to be multiplied with

    @property
    def whole_or_instance(self) -> bool:
        """Whether consumers can hold or use it."""
        return self.index >= 0

    @property
    def by_sm_time(self) -> bool:
        """Whether its occupied share is a share of SM-time rather than of time."""
        return self.sharing in ("mps", "fractional")


def priced_node(layout: NodeLayout, cluster: str, model: str = "") -> PricedDevice:
    """What of the node is not GPU; with ``model`` the entry of that GPU is looked up."""
    return _priced(layout, cluster, model, NON_GPU, max(layout.gpu_count, 1))


def gpus_of(layout: NodeLayout) -> list[Device]:
    """The GPUs of a layout in the order of their positions, also those that only their instances name."""
    found = {device.uuid: device for device in layout.devices if not device.parent_uuid}
    for device in layout.devices:
        if device.parent_uuid and device.parent_uuid not in found:
            found[device.parent_uuid] = Device(device.parent_uuid, model=device.model, sharing="mig")
    return sorted(found.values(), key=lambda device: (device.index < 0, device.index, device.uuid))


def gpu_count(layout: NodeLayout, cluster: str, book: PriceBook, start_ns: int, end_ns: int) -> int:
    """GPUs that the node is paid for: what the instance type has, at least what is there."""
    gpus = gpus_of(layout)
    node = priced_node(layout, cluster, gpus[0].model if gpus else "")
    return max(layout.gpu_count, len(gpus), min(MAX_GPUS, book.gpus_per_node(node, start_ns, end_ns)))


def slots_of(layout: NodeLayout, cluster: str, count: int, mig: str = "slices") -> list[Slot]:
    """Everything of a layout that is charged for, ``count`` GPUs in all, MIG instances by the policy
    ``mig``; what is not GPU comes apart."""
    gpus = gpus_of(layout)
    positions = _positions(gpus, count)
    index_of = {device.uuid: index for index, device in enumerate(layout.devices)}
    slots: list[Slot] = []
    for gpu, position in zip(gpus, positions, strict=True):
        base = _priced(layout, cluster, gpu.model, position, count)
        instances = sorted(
            (device for device in layout.devices if device.parent_uuid == gpu.uuid),
            key=lambda device: (device.gpu_instance, device.compute_instance, device.uuid),
        )
        if instances:
            slots += _instances(gpu, instances, base, index_of, mig == "dominant")
        else:
            slots.append(_slot(gpu, index_of.get(gpu.uuid, -1), base))
    model = gpus[0].model if gpus else ""
    for position in sorted(set(range(count)) - set(positions)):
        priced = _priced(layout, cluster, model, position, count)
        slots.append(Slot(NO_DEVICE, -1, priced, sharing="none", lost=True))
    return slots


def _positions(gpus: Iterable[Device], count: int) -> list[int]:
    indices = [device.index for device in gpus]
    usable = len(set(indices)) == len(indices) and all(0 <= index < count for index in indices)
    return indices if usable else list(range(len(indices)))


def _priced(
    layout: NodeLayout,
    cluster: str,
    model: str,
    position: int,
    count: int,
) -> PricedDevice:
    return PricedDevice(
        cluster=cluster,
        region=layout.region,
        zone=layout.zone,
        instance_type=layout.instance_type,
        capacity_type=layout.capacity_type,
        node_pool=layout.node_pool,
        gpu_model=model,
        position=position,
        gpu_count=count,
    )


def _slot(device: Device, index: int, priced: PricedDevice, lost: bool = False) -> Slot:
    return Slot(
        device.uuid,
        index,
        priced,
        parent_uuid=device.parent_uuid,
        sharing=device.sharing,
        replicas=max(device.replicas, 1),
        memory_total_bytes=device.memory_total_bytes,
        sm_active_declared=device.sm_active_declared,
        lost=device.lost or lost,
    )


def _instances(
    gpu: Device, instances: list[Device], base: PricedDevice, index_of: dict[str, int], dominant: bool
) -> Iterator[Slot]:
    """A partitioned GPU: its instances and what of it none of them covers."""
    parts = partition(gpu, instances, dominant)
    for run in parts.runs:
        if run.device is not None:
            units = tuple(range(run.first, run.end))
            priced = replace(base, mig_profile=run.device.mig_profile, units=units, units_total=parts.total)
            slot = _slot(run.device, index_of[run.device.uuid], priced, gpu.lost)
            yield replace(slot, engine_scale=run.engine_scale)
    for reason in (FREE, STRANDED):
        runs = [run for run in parts.runs if run.reason == reason]
        if runs:
            units = tuple(unit for run in runs for unit in range(run.first, run.end))
            priced = replace(base, units=units, units_total=parts.total)
            cause = "+".join(dict.fromkeys(run.cause for run in runs))
            yield Slot(gpu.uuid, -1, priced, sharing="mig", lost=gpu.lost, reason=reason, cause=cause)
