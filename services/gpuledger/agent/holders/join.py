"""From what the kubelet gave out, and the pods that the cluster knows, to the holders of a node. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuledger.agent.devices import DeviceRef, parse_device_id
from gpuledger.agent.holders.by_claims import Claims, held_by_claims, sharing_by_claims, users_of
from gpuledger.agent.holders.claim_status import Allotments
from gpuledger.agent.holders.claims import Slices
from gpuledger.agent.holders.keepers import with_budgets
from gpuledger.agent.holders.podresources import Allocation
from gpuledger.agent.holders.pods import ContainerFacts, PodFacts
from gpuledger.agent.holders.sharing import device_key, is_share, sharing_of
from gpuledger.agent.holders.source import FINISHED_PHASES, HeldDevice, Holders, InstanceRef
from gpuledger.contract.records import NodeLayout

MPS_PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
HAMI_DEVICES = "hami.io/vgpu-devices-allocated"
HAMI_CORES = "nvidia.com/gpucores"  # percent of a device's multiprocessors, as the pod asked for
HAMI_MEMORY = "nvidia.com/gpumem"  # MiB
BYTES_PER_MIB = 1 << 20
MIB_PER_GB = 1 << 10
_HAMI_MIG = re.compile(r"(GPU-[0-9a-fA-F-]{36})\[[0-9]{1,4}-[0-9]{1,4}\]")
_PERCENT = re.compile(r"\d{1,3}(?:\.\d{1,6})?")
_NUMBER = re.compile(r"\d{1,9}")

AliveUids = Callable[[Collection[str]], Collection[str]]
"""Of these pod uids those whose cgroup is on the node."""


@dataclass(frozen=True)
class Seen:
    """Everything that is known of a node's pods and devices at one time.

    ``gone``: pods that were deleted in the last minutes. ``allocatable``: see `sharing_of`.
    """

    allocations: Sequence[Allocation] = ()
    allocatable: Sequence[tuple[str, str]] | None = None
    pods: Sequence[PodFacts] = ()
    gone: Sequence[PodFacts] = ()
    node: NodeLayout | None = None
    slices: Slices = field(default_factory=dict)
    allotments: Allotments = field(default_factory=dict)
    blocked: Collection[str] = ()
    """Uids of pods without GPUs that a PodDisruptionBudget keeps where they are."""


def join(seen: Seen, alive: AliveUids) -> tuple[Holders, list[str]]:
    """The holders, and what could not be told: 'namespace/name' of pods with devices and no known uid.

    The kubelet lists allocations by namespace and name only. A StatefulSet makes its pods anew under the
    same name, so several uids may have one name for a while: the pod whose cgroup is on the node counts,
    then the one that has not finished, then the newest.
    """
    current = {facts.pod.uid: facts for facts in seen.pods}
    named = {**{facts.pod.uid: facts for facts in seen.gone}, **current}
    by_name: dict[tuple[str, str], list[PodFacts]] = {}
    for facts in named.values():
        by_name.setdefault(facts.name, []).append(facts)
    labels = seen.node.labels if seen.node else {}
    given = [device for allocation in seen.allocations for device in allocation.devices]
    sharing = sharing_of(seen.allocatable, given, labels)
    slots = {device_key(entry.device): entry.replicas for entry in sharing if entry.sharing == "mps"}
    held: list[HeldDevice] = []
    nameless = []
    given_to: list[tuple[Allocation, PodFacts]] = []
    for allocation in seen.allocations:
        candidates = by_name.get((allocation.namespace, allocation.pod), [])
        if candidates:
            given_to.append((allocation, _the_one(candidates, alive)))
        else:
            nameless.append(f"{allocation.namespace}/{allocation.pod}")
    users = users_of(a for a, facts in given_to if facts.pod.phase not in FINISHED_PHASES)
    claims = Claims(seen.slices, seen.allotments, users)
    for allocation, facts in given_to:
        if HAMI_DEVICES not in facts.pod.annotations:
            held += _by_plugin(allocation, facts, slots)
        stated = facts.container(allocation.container).environment.get(MPS_PERCENTAGE)
        held += held_by_claims(allocation, facts.pod.uid, claims, _percent(stated))
    held += [device for facts in seen.pods for device in _by_hami(facts)]
    names = {
        id_: container.name for f in named.values() for container in f.containers for id_ in container.ids
    }
    pods = tuple(named[uid].pod for uid in sorted(named))
    kept = (facts.keeper for facts in seen.pods if facts.keeper is not None)
    keepers = with_budgets(kept, seen.blocked)
    sharing += sharing_by_claims(claims)
    holders = Holders(pods, tuple(sorted(held, key=_order)), sharing, names, seen.node, keepers)
    return holders, sorted(set(nameless))


def _the_one(candidates: list[PodFacts], alive: AliveUids) -> PodFacts:
    if len(candidates) == 1:
        return candidates[0]
    there = set(alive([facts.pod.uid for facts in candidates]))
    return max(
        candidates,
        key=lambda facts: (
            facts.pod.uid in there,
            facts.pod.phase not in FINISHED_PHASES,
            facts.created_ns,
            facts.pod.uid,
        ),
    )


def _by_plugin(
    allocation: Allocation, facts: PodFacts, mps_slots: Mapping[tuple[str, int, int, int], int]
) -> Iterable[HeldDevice]:
    container = facts.container(allocation.container)
    refs: dict[tuple[str, tuple[str, int, int, int]], DeviceRef] = {}
    slots: Counter[tuple[str, tuple[str, int, int, int]]] = Counter()
    shares = set()
    for resource, device in allocation.devices:
        ref = parse_device_id(resource, device)
        if ref == DeviceRef():
            continue
        key = (resource, device_key(ref))
        refs.setdefault(key, ref)
        slots[key] += 1
        if is_share(device):
            shares.add(key)
    for key, ref in refs.items():
        resource, device_place = key
        cores = _percent(container.limits.get(HAMI_CORES)) if key in shares else None
        memory = _number(container.limits.get(HAMI_MEMORY)) if key in shares else None
        yield HeldDevice(
            consumer=facts.pod.uid,
            device=ref,
            container=allocation.container,
            resource_name=resource,
            slots=slots[key],
            share_numerator=int(cores * 1000) if cores else 0,
            share_denominator=100_000 if cores else 0,
            mps_percentage=_mps_percentage(container, slots[key], mps_slots.get(device_place)),
            memory_limit_bytes=None if memory is None else memory * BYTES_PER_MIB,
        )


def _mps_percentage(container: ContainerFacts, slots: int, replicas: int | None) -> float | None:
    """NVIDIA's MPS daemon allows each client 100 / replicas percent of the threads; the pod's own environment
    can only lower it (CUDA MPS, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE)."""
    stated = _percent(container.environment.get(MPS_PERCENTAGE))
    if replicas is None:
        return stated
    allowed = min(100.0, slots * float(100 // replicas)) or 1.0
    return allowed if stated is None else min(stated, allowed)


def _by_hami(facts: PodFacts) -> Iterable[HeldDevice]:
    """HAMi chooses devices itself and writes them on the pod: 'uuid,type,MiB,percent:' for each device, ';'
    after each container. The ids that the kubelet lists are others. For a MIG instance that it makes itself
    it writes the GPU, and in brackets its own numbers of template and place, which NVML does not know: the
    memory says which profile it is."""
    containers = facts.pod.annotations.get(HAMI_DEVICES, "").split(";")
    names = [container.name for container in facts.containers]
    for number, text in enumerate(containers):
        for entry in filter(None, text.split(":")):
            parts = entry.split(",")
            if len(parts) != 4:
                continue
            dynamic = _HAMI_MIG.fullmatch(parts[0])
            ref = parse_device_id("", dynamic[1] if dynamic is not None else parts[0])
            cores, memory = _percent(parts[3]), _number(parts[2])
            if ref.uuid is None:
                continue
            yield HeldDevice(
                consumer=facts.pod.uid,
                device=ref,
                container=names[number] if number < len(names) else "",
                resource_name="nvidia.com/gpu",
                share_numerator=int(cores * 1000) if cores else 0,
                share_denominator=100_000 if cores else 0,
                memory_limit_bytes=None if memory is None else memory * BYTES_PER_MIB,
                instance=None if dynamic is None else InstanceRef(memory_gb=-(-(memory or 0) // MIB_PER_GB)),
            )


def _percent(text: str | None) -> float | None:
    if text is None or not _PERCENT.fullmatch(text.strip()):
        return None
    value = float(text)
    return value if 0 < value <= 100 else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text.strip()) else None


def _order(held: HeldDevice) -> tuple[object, ...]:
    return (
        held.consumer,
        held.container,
        held.resource_name,
        device_key(held.device),
        held.instance or InstanceRef(),
        held.slots,
    )
