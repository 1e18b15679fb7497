"""The devices that scrapes show, with what no exporter says of them: slices, and mostly memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from gpuledger.agent.exposition import ExportedDevice, Exposition
from gpuledger.charge.scrapes import Scrape
from gpuledger.contract.gpu_models import GIB, memory_of_model, profiles_of
from gpuledger.contract.records import Device

MIG_SLICES = 7  # of most boards with MIG: what one of a model that is not known is taken to have
MIB = 1 << 20
SHARED = ("time_slicing", "mps", "fractional")
_PROFILE = re.compile(r"(?:\d+c\.)?(\d+)g\.(\d+)gb")  # 1c.3g.40gb: 3 slices and 40 GB of its GPU
_TOTAL, _RESERVED = "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_RESERVED"
_USED_AND_FREE = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE")

Place: TypeAlias = tuple[str, int | None]
"""(UUID of the GPU, number of the instance)."""


def devices_of(scrapes: Sequence[Scrape], one_node: str) -> dict[str, list[Device]]:
    """The devices of each node that scrapes name, GPUs before their MIG instances."""
    found: dict[str, dict[Place, ExportedDevice]] = {}
    for scrape in scrapes:
        for device in scrape.exposition.devices:
            node = one_node or device.host or "node"
            found.setdefault(node, {}).setdefault((device.uuid, device.gpu_instance), device)
    shown: dict[Place, int] = {}
    for scrape in scrapes:
        for place, size in _memory_shown(scrape.exposition).items():
            shown[place] = max(size, shown.get(place, 0))
    return {node: _devices(found[node].values(), shown) for node in sorted(found)}


def _memory_shown(exposition: Exposition) -> dict[Place, int]:
    """Bytes of the devices of which the exporter shows all, or what is used and what is free."""
    by_device: dict[Place, dict[str, float]] = {}
    counts = Counter(sample[:3] for sample in exposition.samples)
    for sample in exposition.samples:
        alone = sample.pod is None or counts[sample[:3]] == 1  # else it is what a pod of several has
        if alone and sample.value is not None and sample.field in (_TOTAL, _RESERVED, *_USED_AND_FREE):
            by_device.setdefault((sample.uuid, sample.gpu_instance), {})[sample.field] = sample.value
    sizes = {}
    for place, shown in by_device.items():
        if _TOTAL in shown:
            sizes[place] = int(shown[_TOTAL]) * MIB
        elif all(name in shown for name in _USED_AND_FREE):
            sizes[place] = int(sum(shown.values())) * MIB
    return sizes


def whole_gpu(uuid: str, model: str, index: int = -1, sharing: str = "exclusive", memory: int = 0) -> Device:
    """A GPU. Its ``memory`` in bytes is its model's where nobody measured it; 0: that is not known either."""
    return Device(
        uuid, index, model=model, sharing=sharing, memory_total_bytes=memory or memory_of_gpu(model)
    )


def memory_of_gpu(model: str) -> int:
    """Bytes that a GPU of a model has; 0 where that is not known."""
    profiles = profiles_of(model)
    return profiles[-1].memory_bytes if profiles else memory_of_model(model)


def _devices(exported: Iterable[ExportedDevice], shown: Mapping[Place, int]) -> list[Device]:
    exported = list(exported)
    parted = {device.uuid for device in exported if device.gpu_instance is not None}
    gpus: dict[str, Device] = {}
    for device in sorted(exported, key=lambda device: (device.uuid, device.gpu_instance is not None)):
        number = -1 if device.number is None else device.number
        sharing = "mig" if device.uuid in parted else "exclusive"
        size = shown.get((device.uuid, None), 0)
        gpus.setdefault(device.uuid, whole_gpu(device.uuid, device.model, number, sharing, size))
    instances = [_instance(device, shown) for device in exported if device.gpu_instance is not None]
    order = sorted(gpus.values(), key=lambda gpu: (gpu.index, gpu.uuid))
    return [*order, *sorted(instances, key=lambda one: (one.index, one.parent_uuid, one.gpu_instance))]


def _instance(device: ExportedDevice, shown: Mapping[Place, int]) -> Device:
    size = _PROFILE.match(device.mig_profile)
    instance = -1 if device.gpu_instance is None else device.gpu_instance
    profiles = profiles_of(device.model)
    return Device(
        f"MIG-{device.uuid}/{instance}/0",  # the exporter does not print an instance's own UUID
        -1 if device.number is None else device.number,
        parent_uuid=device.uuid,
        gpu_instance=instance,
        compute_instance=0,
        slices=int(size[1]) if size else 0,
        slices_total=0 if size is None else profiles[-1].slices_total if profiles else MIG_SLICES,
        model=device.model,
        mig_profile=device.mig_profile,
        memory_total_bytes=shown.get((device.uuid, instance), 0) or (int(size[2]) * GIB if size else 0),
    )


def say_mig_slices(devices: Sequence[Device], name: str, assumed: list[str]) -> None:
    """Into how many slices a GPU is cut is the board's: no exporter says it."""
    parts = {device.parent_uuid: device for device in devices if device.parent_uuid}
    for uuid, one in parts.items():
        gpu = f"{name}: {uuid[:12]}"
        if not one.slices_total:
            assumed.append(f"{gpu}: how many slices its MIG instances have is not known")
        elif profiles_of(one.model):
            assumed.append(f"{gpu} has {one.slices_total} MIG slices, as its model has: {one.model}")
        else:
            said = one.model or "no line says it"
            assumed.append(
                f"{gpu} has {MIG_SLICES} MIG slices, as most boards: its model is not known ({said})"
            )


def say_memory(
    devices: Sequence[Device],
    scrapes: Sequence[Scrape],
    settings: Collection[str],
    name: str,
    assumed: list[str],
) -> None:
    """Where the memory is from that MIG instances and the ``settings`` of policies are charged by, and where
    it is not known, so that they have no effect there."""
    parted = {device.parent_uuid for device in devices}
    by_slots = "entitlement=max(slots,memory) is by slots there"
    apart = _measured_apart(scrapes)
    for device in devices:
        gpu, size = f"{name}: {device.uuid[:12]}", device.memory_total_bytes
        shared = "entitlement" in settings and device.sharing in SHARED
        if device.parent_uuid or not (shared or device.uuid in parted):
            continue
        if size and size == memory_of_gpu(device.model):
            assumed.append(f"{gpu} has {size // GIB} GiB of memory, as its model has: {device.model}")
        elif not size:
            lost = by_slots if shared else "MIG slices are counted without it"
            assumed.append(f"{gpu}: how much memory it has is not known: {lost}")
        if shared and size and (device.uuid, None) not in apart:
            assumed.append(f"{gpu}: memory of its pods is not measured apart (FB_USED): {by_slots}")


def _measured_apart(scrapes: Iterable[Scrape]) -> set[Place]:
    """The devices on which an exporter measured the memory of each pod: beside the value of the device."""
    found: set[Place] = set()
    for scrape in scrapes:
        samples = scrape.exposition.samples
        counts = Counter(sample[:2] for sample in samples if sample.field == _USED_AND_FREE[0])
        found |= {place for place, count in counts.items() if count > 1}
    return found
