"""What the pod labels of a scrape say of holders, with what had to be assumed to believe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.exposition import ExportedHolder
from gpuledger.agent.holders.sharing import device_key
from gpuledger.agent.holders.source import DeviceSharing, HeldDevice, Holders, find_device
from gpuledger.contract.records import Device, Pod

SHORT_UUID = 12  # characters of a GPU's UUID, as the bill shows them: GPU- and eight digits


def held_by_labels(
    holders: Holders, labelled: Sequence[ExportedHolder], replicas: int | None, name: str, assumed: list[str]
) -> Holders:
    """A GPU is shared where the labels name several pods on it, or number its slots (``vgpu``); another is
    its only pod's as a whole, also where ``replicas`` are given."""
    if not labelled:
        return holders
    assumed.append(f"{name}: who holds a GPU is taken from the pod labels of the scrape")
    by_name = {(pod.namespace, pod.name): pod for pod in holders.pods}
    slots: dict[DeviceRef, dict[tuple[str, str], set[int]]] = {}
    for holder in labelled:
        key = (holder.namespace, holder.pod)
        pod = by_name.setdefault(key, Pod(f"{holder.namespace}/{holder.pod}", *key))
        device = DeviceRef(holder.uuid, gpu_instance=holder.gpu_instance)
        numbers = slots.setdefault(device, {}).setdefault((pod.uid, holder.container), set())
        numbers |= set() if holder.slot is None else {holder.slot}
    held = [
        HeldDevice(uid, device, container, "nvidia.com/gpu", slots=max(1, len(numbers)))
        for device, there in slots.items()
        for (uid, container), numbers in there.items()
    ]
    counted = {device: _count_slots(there) for device, there in slots.items()}
    shared = {device: count for device, count in counted.items() if count is not None}
    _say_slots(shared, [device for device in counted if device not in shared], replicas, name, assumed)
    sharing = [
        DeviceSharing(device, "time_slicing", max(replicas or 0, count)) for device, count in shared.items()
    ]
    pods_known = tuple(sorted(by_name.values(), key=lambda pod: pod.uid))
    return replace(holders, pods=pods_known, held=(*holders.held, *held), sharing=tuple(sharing))


def _count_slots(there: Mapping[tuple[str, str], set[int]]) -> int | None:
    """The least number of slots that a device must have; None where nothing says that it is shared."""
    numbered = set().union(*there.values())
    pods = {uid for uid, _ in there}
    if len(pods) < 2 and not numbered:
        return None
    held = sum(max(1, len(numbers)) for numbers in there.values())
    return max(held, *(number + 1 for number in numbered), 1)


def _say_slots(
    shared: Mapping[DeviceRef, int],
    whole: Sequence[DeviceRef],
    replicas: int | None,
    name: str,
    assumed: list[str],
) -> None:
    for device, least in shared.items():
        if replicas is None:
            assumed.append(
                f"{name}: {short_name(device)} has {least} slots, as many as its pods and their vgpu"
                " labels show (no --replicas)"
            )
        elif replicas < least:
            assumed.append(
                f"{name}: {short_name(device)} has {least} slots, since its pods have so many: not --replicas"
            )
    if replicas is None:
        return
    applied = ", ".join(short_name(device) for device, least in shared.items() if replicas >= least)
    assumed.append(f"{name}: --replicas {replicas} is taken of {applied or 'no GPU: none is shared'}")
    if whole:
        names = ", ".join(short_name(device) for device in whole)
        assumed.append(
            f"{name}: {names}: whole, one pod alone holds it and no vgpu label says that it has slots"
        )


def instances_by_labels(
    holders: Holders,
    labelled: Sequence[ExportedHolder],
    devices: list[Device],
    name: str,
    assumed: list[str],
) -> Holders:
    """The kubelet names a MIG instance by a UUID no exporter prints: the scrape's labels say which it is."""
    held = []
    for one in holders.held:
        uuid = one.device.uuid or ""
        if not uuid.startswith("MIG-") or find_device(devices, one.device) is not None:
            held.append(one)
            continue
        pod = holders.pod_of[one.consumer]
        who = f"{pod.namespace}/{pod.name}"
        places = {
            DeviceRef(label.uuid, gpu_instance=label.gpu_instance)
            for label in labelled
            if (label.namespace, label.pod) == (pod.namespace, pod.name) and label.gpu_instance is not None
        }
        if not places:
            assumed.append(f"{name}: device unknown: {uuid} of {who} is on no known GPU")
        for place in sorted(places, key=device_key):
            assumed.append(
                f"{name}: {uuid} of {who} is {short_name(place)}, as the pod labels of the scrape have it"
            )
            held.append(replace(one, device=place, slots=1))
    return replace(holders, held=tuple(dict.fromkeys(held)))


def short_name(device: DeviceRef) -> str:
    """A device as the bill shows it."""
    uuid = (device.uuid or "")[:SHORT_UUID]
    return uuid if device.gpu_instance is None else f"instance {device.gpu_instance} of {uuid}"
