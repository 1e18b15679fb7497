"""Who holds which device of a node, from what the files say, with everything that had to be assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.exposition import ExportedHolder
from gpuledger.agent.holders.join import Seen, join
from gpuledger.agent.holders.podresources import Allocation
from gpuledger.agent.holders.pods import PodFacts
from gpuledger.agent.holders.sharing import REPLICA_LABELS
from gpuledger.agent.holders.source import FINISHED_PHASES, DeviceSharing, HeldDevice, Holders, find_device
from gpuledger.charge.devices import say_mig_slices
from gpuledger.charge.holders import Stated
from gpuledger.charge.labels import held_by_labels, instances_by_labels, short_name
from gpuledger.contract.records import Device, NodeLayout, Pod

_GPU_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-")


@dataclass(frozen=True)
class OnNode:
    """The holders of a node as records need them, and what had to be assumed to get there."""

    layout: NodeLayout
    holders: Holders
    assumed: tuple[str, ...]


def on_node(
    stated: Stated, name: str, layout: NodeLayout, labelled: Sequence[ExportedHolder], replicas: int | None
) -> OnNode:
    """The holders of a node. ``labelled``: what the scrape's pod labels say; they stand in where no file says
    which device a pod has. ``replicas``: slots of each shared device, where the listing does not say."""
    if replicas is not None:
        layout = replace(layout, labels={**layout.labels, REPLICA_LABELS[0]: str(replicas)})
    assumed: list[str] = []
    say_mig_slices(layout.devices, name, assumed)
    placed = [facts for node, facts in stated.placed if node in ("", name) or not name]
    known = [*placed, *_unnamed(stated.allocations, placed)]
    holders, _ = join(
        Seen(stated.allocations, stated.allocatable, known, node=layout),
        lambda uids: uids,
    )
    if holders.held:
        _say_replicas(stated, holders, replicas, name, assumed)
    holders = _together([holders, *stated.own])
    if replicas is not None and any(own.held or own.sharing for own in stated.own):
        assumed.append(f"{name}: --replicas is not used of what a holders file says: it has its own")
    if not holders.held:
        holders = held_by_labels(holders, labelled, replicas, name, assumed)
    holders = instances_by_labels(holders, labelled, layout.devices, name, assumed)
    devices = holders.devices(layout.devices)
    unknown = _without_device(holders, placed, devices)
    if unknown:
        holders = _spread(holders, unknown, devices, name, assumed)
    return OnNode(replace(holders.layout(layout), labels=layout.labels), holders, tuple(assumed))


def _say_replicas(
    stated: Stated, holders: Holders, replicas: int | None, name: str, assumed: list[str]
) -> None:
    """Where the number of slots of the devices of a listing comes from."""
    shared = ", ".join(short_name(entry.device) or f"GPU {entry.device.index}" for entry in holders.sharing)
    if replicas is None:
        if shared and stated.allocatable is None:
            assumed.append(f"{name}: the slots that are given out are all that {shared} has (no --replicas)")
    elif stated.allocatable is not None:
        assumed.append(f"{name}: --replicas {replicas} is not used: the listing says what can be given out")
    else:
        assumed.append(
            f"{name}: --replicas {replicas} is taken of {shared or 'no GPU: the listing has no slots'}"
        )


def _unnamed(allocations: Sequence[Allocation], placed: Sequence[PodFacts]) -> list[PodFacts]:
    """The kubelet lists pods by namespace and name alone: where no file has a uid, the name stands for it."""
    there = {facts.name for facts in placed}
    names = {(allocation.namespace, allocation.pod) for allocation in allocations} - there
    return [PodFacts(Pod(f"{space}/{pod}", space, pod)) for space, pod in sorted(names)]


def _together(parts: Sequence[Holders]) -> Holders:
    return Holders(
        tuple({pod.uid: pod for part in reversed(parts) for pod in part.pods}.values()),
        tuple(held for part in parts for held in part.held),
        tuple(sharing for part in parts for sharing in part.sharing),
        {id_: name for part in parts for id_, name in part.container_names.items()},
        parts[0].node,
    )


def _without_device(
    holders: Holders, placed: Sequence[PodFacts], devices: list[Device]
) -> list[tuple[Pod, int]]:
    """Pods that asked for GPUs of this node, and for how many more than are known to be theirs."""
    having: dict[str, set[int | None]] = {}
    for held in holders.held:
        having.setdefault(held.consumer, set()).add(find_device(devices, held.device))
    missing = []
    for facts in placed:
        asked = sum(
            int(amount)
            for container in facts.containers
            for resource, amount in container.limits.items()
            if resource.startswith(_GPU_RESOURCES) and amount.isascii() and amount.isdigit()
        )
        short = min(asked, len(devices)) - len(having.get(facts.pod.uid, ()))
        if short > 0 and facts.pod.phase not in FINISHED_PHASES:
            missing.append((facts.pod, short))
    return missing


def _spread(
    holders: Holders,
    unknown: Sequence[tuple[Pod, int]],
    devices: list[Device],
    name: str,
    assumed: list[str],
) -> Holders:
    """Pods of which nobody says which device they have hold equal parts of all that no other pod holds."""
    taken = {find_device(devices, held.device) for held in holders.held}
    parted = {device.parent_uuid for device in devices}
    free = [i for i, device in enumerate(devices) if i not in taken and device.uuid not in parted]
    if not free:
        names = ", ".join(f"{pod.namespace}/{pod.name}" for pod, _ in unknown)
        assumed.append(f"{name}: device unknown for {names}, and no GPU is left: it is charged nothing")
        return holders
    places = max(len(free), sum(short for _, short in unknown))
    held, sharing = [], []
    for pod, short in unknown:
        assumed.append(
            f"{name}: device unknown for {pod.namespace}/{pod.name}, which asks for {short}: it holds"
            f" {short}/{places} of each of the {len(free)} GPUs that no other pod is known to hold"
        )
        for position in free:
            device = _ref(devices[position])
            held.append(
                HeldDevice(pod.uid, device, resource_name="device unknown", share_numerator=short,
                           share_denominator=places)
            )  # fmt: skip
    alone = len(unknown) == 1 and unknown[0][1] >= len(free)
    if not alone:
        sharing = [DeviceSharing(_ref(devices[i]), "time_slicing", places) for i in free]
    return replace(holders, held=(*holders.held, *held), sharing=(*holders.sharing, *sharing))


def _ref(device: Device) -> DeviceRef:
    if device.parent_uuid:
        return DeviceRef(device.parent_uuid, gpu_instance=device.gpu_instance)
    return DeviceRef(device.uuid)
