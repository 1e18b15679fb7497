"""Who holds which device, from what people have at hand: a listing of the kubelet's PodResources, `kubectl
get pods -o json`, a holders file, or the pod labels of a scrape."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from gpuledger.agent.devices import DeviceRef, parse_device_id
from gpuledger.agent.exposition import ExportedHolder
from gpuledger.agent.holders.file import parse_holders
from gpuledger.agent.holders.join import Seen, join
from gpuledger.agent.holders.podresources import Allocation, allocations_of, devices_of_entries
from gpuledger.agent.holders.podresources_api import messages
from gpuledger.agent.holders.pods import PodFacts, pod_facts
from gpuledger.agent.holders.sharing import REPLICA_LABELS
from gpuledger.agent.holders.source import FINISHED_PHASES, DeviceSharing, HeldDevice, Holders, find_device
from gpuledger.charge.files import as_document, as_text
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import Device, NodeLayout, Pod

_LISTING_KEYS = ("podResources", "pod_resources")
_GPU_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-")


@dataclass
class Stated:
    """All that the files say of holders. ``placed``: pods with the name of their node, empty: not known."""

    allocations: list[Allocation] = field(default_factory=list)
    allocatable: list[tuple[str, str]] | None = None
    placed: list[tuple[str, PodFacts]] = field(default_factory=list)
    own: list[Holders] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether no file says anything of holders."""
        return not (self.allocations or self.allocatable or self.placed or self.own)


def read_stated(files: Iterable[tuple[Path, bytes]]) -> Stated:
    """What holders' files say. Raises ConfigError where one is none of the three kinds."""
    stated = Stated()
    for path, data in files:
        text = as_text(data, path)
        document = as_document(text, path)
        if isinstance(document, list):
            document = {"podResources": document}
        if not isinstance(document, dict):
            raise ConfigError("is no listing of PodResources, list of pods or holders file", str(path))
        if any(key in document for key in (*_LISTING_KEYS, "allocatable")):
            _listing(document, path, stated)
        elif document.get("kind") in ("List", "PodList", "Pod"):
            _pods(document, path, stated)
        else:
            stated.own.append(parse_holders(text, str(path)))
    return stated


def _listing(document: dict[str, Any], path: Path, stated: Stated) -> None:
    """The kubelet's answers as JSON, with the names of the protocol or those of its JSON mapping."""
    listed = {key: document[key] for key in _LISTING_KEYS if key in document}
    stated.allocations += allocations_of(_message("ListPodResourcesResponse", listed, path))
    allocatable = document.get("allocatable")
    if allocatable is None and "devices" in document:
        allocatable = {"devices": document["devices"]}
    if allocatable is not None:
        given = allocatable if isinstance(allocatable, dict) else {"devices": allocatable}
        entries = _message("AllocatableResourcesResponse", given, path).devices
        stated.allocatable = [*(stated.allocatable or []), *devices_of_entries(entries)]


def _message(name: str, document: dict[str, Any], path: Path) -> Any:
    try:
        return json_format.ParseDict(document, messages()[name](), ignore_unknown_fields=True)
    except json_format.ParseError as error:
        raise ConfigError(f"is no listing of PodResources: {error}", str(path)) from None


def _pods(document: dict[str, Any], path: Path, stated: Stated) -> None:
    items = [document] if document["kind"] == "Pod" else document.get("items") or []
    for number, item in enumerate(items):
        try:
            facts = pod_facts(item)
            node = str((item.get("spec") or {}).get("nodeName") or "")
        except (AttributeError, TypeError, ValueError):
            raise ConfigError(f"items[{number}] is no pod", str(path)) from None
        if facts is not None:
            stated.placed.append((node, facts))


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
    placed = [facts for node, facts in stated.placed if node in ("", name) or not name]
    known = [*placed, *_unnamed(stated.allocations, placed)]
    holders, _ = join(
        Seen(stated.allocations, stated.allocatable, known, node=layout),
        lambda uids: uids,
    )
    if stated.allocations and stated.allocatable is None and replicas is None and holders.sharing:
        assumed.append(f"{name}: the slots that are given out are all that shared GPUs have (no --replicas)")
    holders = _together([holders, *stated.own])
    if not holders.held:
        holders = _by_labels(holders, labelled, replicas, name, assumed)
    holders = _instances_by_labels(holders, labelled, layout.devices, name, assumed)
    devices = holders.devices(layout.devices)
    unknown = _without_device(holders, placed, devices)
    if unknown:
        holders = _spread(holders, unknown, devices, name, assumed)
    return OnNode(replace(holders.layout(layout), labels=layout.labels), holders, tuple(assumed))


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


def _by_labels(
    holders: Holders, labelled: Sequence[ExportedHolder], replicas: int | None, name: str, assumed: list[str]
) -> Holders:
    if not labelled:
        return holders
    assumed.append(f"{name}: who holds a GPU is taken from the pod labels of the scrape")
    by_name = {(pod.namespace, pod.name): pod for pod in holders.pods}
    held, on_device = [], dict[tuple[str, int | None], set[str]]()
    for holder in labelled:
        key = (holder.namespace, holder.pod)
        pod = by_name.setdefault(key, Pod(f"{holder.namespace}/{holder.pod}", *key))
        device = DeviceRef(holder.uuid, gpu_instance=holder.gpu_instance)
        held.append(HeldDevice(pod.uid, device, holder.container, "nvidia.com/gpu"))
        on_device.setdefault(holder[:2], set()).add(pod.uid)
    sharing = []
    for (uuid, instance), pods in on_device.items():
        if len(pods) < 2 and replicas is None:
            continue
        slots = replicas or len(pods)
        if replicas is None:
            assumed.append(f"{name}: {uuid} has a slot for each of the {slots} pods on it (no --replicas)")
        sharing.append(DeviceSharing(DeviceRef(uuid, gpu_instance=instance), "time_slicing", slots))
    pods_known = tuple(sorted(by_name.values(), key=lambda pod: pod.uid))
    return replace(holders, pods=pods_known, held=(*holders.held, *held), sharing=tuple(sharing))


def _instances_by_labels(
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
        places = {
            label[:2]
            for label in labelled
            if (label.namespace, label.pod) == (pod.namespace, pod.name) and label.gpu_instance is not None
        }
        if not places:
            assumed.append(f"{name}: device unknown: {uuid} of {pod.namespace}/{pod.name} is on no known GPU")
        for gpu, instance in sorted(places):
            held.append(replace(one, device=DeviceRef(gpu, gpu_instance=instance), slots=1))
    return replace(holders, held=tuple(dict.fromkeys(held)))


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


def devices_in(stated: Stated, known: Collection[str], model: str) -> list[Device]:
    """Whole devices that listings name by a UUID which no scrape shows, and which are of that model."""
    listed = [pair for allocation in stated.allocations for pair in allocation.devices]
    refs = [parse_device_id(*pair) for pair in [*listed, *(stated.allocatable or [])]]
    refs += [held.device for holders in stated.own for held in holders.held]
    refs += [entry.device for holders in stated.own for entry in holders.sharing]
    uuids = {ref.uuid for ref in refs if (ref.uuid or "").startswith("GPU-") and ref.gpu_instance is None}
    return [Device(uuid, model=model) for uuid in sorted(filter(None, uuids - set(known)))]
