"""The holders of a node at one instant, and where they come from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol

from gpuledger.agent.devices import DeviceRef
from gpuledger.contract.records import Device, Holder, Keeper, NodeLayout, Pod

_TOLD = ("instance_id", "instance_type", "capacity_type", "region", "zone", "node_pool", "gpu_count")
FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
"""Only these phases end a holding; kubelets listed completed pods for years (kubernetes#119423)."""


NOT_PLACED = -1
_MEMORY = re.compile(r"[0-9]{1,2}g\.([0-9]{1,4})gb")


class InstanceRef(NamedTuple):
    """A MIG instance of a GPU by its profile's name and the slots that it lies on, as far as they are told:
    ``profile`` empty, ``start`` `NOT_PLACED`, ``size`` 0 where not. ``memory_gb``: it is of the smallest
    profile there that has as much."""

    profile: str = ""
    start: int = NOT_PLACED
    size: int = 0
    memory_gb: int = 0


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """A device that a pod's container holds: slots of it, or a stated share."""

    consumer: str
    device: DeviceRef
    container: str = ""
    resource_name: str = ""
    slots: int = 1
    share_numerator: int = 0
    share_denominator: int = 0
    mps_percentage: float | None = None
    memory_limit_bytes: int | None = None
    consumer_kind: str = "pod"
    instance: InstanceRef | None = None
    """Where set, ``device`` is a GPU and that instance on it is meant."""


@dataclass(frozen=True, slots=True)
class DeviceSharing:
    """How a device is shared: ``sharing`` as in the record Device, and into how many slots."""

    device: DeviceRef
    sharing: str
    replicas: int


@dataclass(frozen=True)
class Holders:
    """Pods on the node, what they hold, and how the devices are shared."""

    pods: tuple[Pod, ...] = ()
    held: tuple[HeldDevice, ...] = ()
    sharing: tuple[DeviceSharing, ...] = ()
    container_names: dict[str, str] = field(default_factory=dict)
    """Name of each container by its id."""
    node: NodeLayout | None = None
    """What the cluster says of the node itself, without devices; None where it says nothing."""
    keepers: tuple[Keeper, ...] = ()
    """Pods that ask for no GPU and keep the node alive."""

    @cached_property
    def pod_of(self) -> dict[str, Pod]:
        """Pods by uid."""
        return {pod.uid: pod for pod in self.pods}

    def layout(self, stated: NodeLayout) -> NodeLayout:
        """The node's layout: what was stated for this agent, then what the cluster says, with sharing."""
        devices = self.devices(stated.devices)
        if self.node is None:
            return replace(stated, devices=devices)
        told = {name: getattr(stated, name) or getattr(self.node, name) for name in _TOLD}
        return replace(stated, **told, labels={**self.node.labels, **stated.labels}, devices=devices)

    def devices(self, devices: list[Device]) -> list[Device]:
        """The devices with their sharing as these holders state it."""
        shared = {
            position: entry
            for entry in self.sharing
            if (position := find_device(devices, entry.device)) is not None
        }
        return [
            _with_sharing(device, shared[position]) if position in shared else device
            for position, device in enumerate(devices)
        ]

    def records(self, devices: list[Device]) -> list[Holder]:
        """One record for each (consumer, container, device, resource) that holds, slots summed.

        Pods in a finished phase hold nothing, whatever else is listed for them.
        """
        finished = {pod.uid for pod in self.pods if pod.phase in FINISHED_PHASES}
        found: dict[tuple[str, str, int, str], Holder] = {}
        for held in self.held:
            position = (
                find_instance(devices, held.device, held.instance)
                if held.instance is not None
                else find_device(devices, held.device)
            )
            if position is None or held.consumer in finished:
                continue
            key = (held.consumer, held.container, position, held.resource_name)
            if key in found:
                found[key].slots += held.slots
                continue
            found[key] = Holder(
                consumer=held.consumer,
                device=position,
                consumer_kind=held.consumer_kind,
                container=held.container,
                resource_name=held.resource_name,
                slots=held.slots,
                share_numerator=held.share_numerator,
                share_denominator=held.share_denominator,
                mps_percentage=held.mps_percentage,
                memory_limit_bytes=held.memory_limit_bytes,
            )
        return [found[key] for key in sorted(found)]


class HolderSource(Protocol):
    """Where holders come from. Called from the agent's loop: it must not block for long."""

    def read(self) -> Holders | None:
        """The holders now; None while nobody can say. A source that fails keeps its last good answer."""

    @property
    def problem(self) -> str:
        """Why the last read was not good, for logs and metrics; empty when it was."""


def find_device(devices: list[Device], ref: DeviceRef) -> int | None:
    """Position of the device that ``ref`` means; None where the node has none such.

    The number in an id is that of the device's node, /dev/nvidiaN; it is NVML's index only where the node's
    number is not known.
    """
    for position, device in enumerate(devices):
        if ref.gpu_instance is not None:
            parent = ref.uuid is not None and device.parent_uuid == ref.uuid
            by_index = ref.uuid is None and device.parent_uuid and _number(device) == ref.index
            if (parent or by_index) and device.gpu_instance == ref.gpu_instance:
                return position
        elif ref.uuid is not None:
            if device.uuid == ref.uuid:
                return position
        elif ref.index is not None and _number(device) == ref.index and not device.parent_uuid:
            return position
    return None


def _number(device: Device) -> int:
    return device.minor if device.minor >= 0 else device.index


def find_instance(devices: list[Device], gpu: DeviceRef, wanted: InstanceRef) -> int | None:
    """Position of the only MIG instance on ``gpu`` that can be the wanted one; None where several can.

    Where NVML says on which slots the instances lie, those decide. Else the profile: drivers and tools round
    the memory in its name differently (1g.11gb, 1g12gb), and where no name is equal, the number of slices
    decides.
    """
    parent = find_device(devices, gpu)
    if parent is None:
        return None
    there = [i for i, device in enumerate(devices) if device.parent_uuid == devices[parent].uuid]
    if wanted.start != NOT_PLACED and all(devices[i].placement_start != NOT_PLACED for i in there):
        placed = [
            i
            for i in there
            if devices[i].placement_start == wanted.start and wanted.size in (0, devices[i].placement_size)
        ]
        return placed[0] if len(placed) == 1 else None
    if not wanted.profile:
        return _by_memory(devices, there, wanted.memory_gb)
    profile = _plain(wanted.profile)
    for same in (
        [i for i in there if _plain(devices[i].mig_profile) == profile],
        [i for i in there if devices[i].mig_profile.partition("g")[0] == profile.partition("g")[0]],
    ):
        if same:
            return same[0] if len(same) == 1 else None
    return None


def _by_memory(devices: list[Device], there: list[int], least_gb: int) -> int | None:
    sizes = {i: int(match[1]) for i in there if (match := _MEMORY.match(devices[i].mig_profile))}
    enough = [i for i, size in sizes.items() if least_gb and size >= least_gb]
    same = [i for i in enough if sizes[i] == min(sizes[j] for j in enough)]
    return same[0] if len(same) == 1 else None


def _plain(profile: str) -> str:
    """A profile's name without what names of Kubernetes may not hold: 1g.12gb+me is 1g12gb-me there."""
    return re.sub(r"[^0-9a-z]", "", profile.lower())


def _with_sharing(device: Device, entry: DeviceSharing) -> Device:
    return replace(device, sharing=entry.sharing, replicas=entry.replicas)
