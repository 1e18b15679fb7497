"""How a node's devices are shared, from the ids that the kubelet can give out and the node's labels.

Sources: NVIDIA k8s-device-plugin and GPU feature discovery (replicas, sharing strategy), GKE's sharing
labels, the HAMi and Aliyun plugins, which cut a device into shares of cores or of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuledger.agent.devices import DeviceRef, parse_device_id
from gpuledger.agent.holders.source import DeviceSharing

STRATEGY_LABELS = ("nvidia.com/gpu.sharing-strategy", "cloud.google.com/gke-gpu-sharing-strategy")
REPLICA_LABELS = ("nvidia.com/gpu.replicas", "cloud.google.com/gke-max-shared-clients-per-gpu")
FRACTIONAL_SEPARATORS = ("-_-",)  # Aliyun: one id for each GiB of the device
MAX_REPLICAS = 1 << 16  # more slots no plugin makes of a device


def device_key(ref: DeviceRef) -> tuple[str, int, int, int]:
    """What tells devices apart, whatever the slot."""
    return (
        ref.uuid or "",
        -1 if ref.index is None else ref.index,
        -1 if ref.gpu_instance is None else ref.gpu_instance,
        -1 if ref.compute_instance is None else ref.compute_instance,
    )


def strategy(labels: Mapping[str, str]) -> str:
    """How slots of a device come about on this node: mps or time_slicing."""
    words = {labels.get(name, "") for name in STRATEGY_LABELS}
    return "mps" if "mps" in words or labels.get("nvidia.com/mps.capable") == "true" else "time_slicing"


def sharing_of(
    allocatable: Iterable[tuple[str, str]] | None,
    given: Iterable[tuple[str, str]],
    labels: Mapping[str, str],
) -> tuple[DeviceSharing, ...]:
    """The devices that have several slots; one that is not named here is whole.

    ``allocatable``: (resource, id) of all that can be given out, None where the kubelet does not tell: then
    the node's labels say how many slots a device has, and ``given`` which devices have them.
    """
    slots: dict[tuple[str, int, int, int], set[tuple[str, str]]] = {}
    refs: dict[tuple[str, int, int, int], DeviceRef] = {}
    fractional = set()
    for resource, device in allocatable if allocatable is not None else given:
        ref = parse_device_id(resource, device)
        if ref.replica is None:
            continue
        key = device_key(ref)
        refs[key] = ref
        slots.setdefault(key, set()).add((resource, device))
        if any(separator in device for separator in FRACTIONAL_SEPARATORS) or is_share(device):
            fractional.add(key)
    stated = 0 if allocatable is not None else _stated_replicas(labels)
    shared = strategy(labels)
    return tuple(
        DeviceSharing(
            device=DeviceRef(key[0] or None, *(None if part < 0 else part for part in key[1:])),
            sharing="fractional" if key in fractional else shared,
            replicas=max(stated, len(slots[key])),
        )
        for key in sorted(refs)
    )


def is_share(device_id: str) -> bool:
    """Whether an id is HAMi's form (a uuid, a dash and a number): a share, whose size the pod states."""
    ref = parse_device_id("", device_id)
    return ref.replica is not None and ref.uuid is not None and device_id == f"{ref.uuid}-{ref.replica}"


def _stated_replicas(labels: Mapping[str, str]) -> int:
    for name in REPLICA_LABELS:
        text = labels.get(name, "")
        if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_REPLICAS)):
            return min(int(text), MAX_REPLICAS)
    return 0
