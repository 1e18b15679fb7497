"""What the kubelet gave to pods of one node with two GPUs, and who holds what by that."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from gpuledger.agent.holders.join import Seen, join
from gpuledger.agent.holders.podresources import Allocation, ClaimDevice
from gpuledger.agent.holders.pods import PodFacts, pod_facts
from gpuledger.agent.holders.source import Holders
from gpuledger.contract.records import Device, Holder
from tests.support.agent import devices
from tests.support.kube_api import pod

U1, U2 = "11111111-0000-0000-0000-000000000000", "22222222-0000-0000-0000-000000000000"


MIG_UUID = "MIG-33333333-0000-0000-0000-000000000000"


def facts(item: dict[str, Any]) -> PodFacts:
    found = pod_facts(item)
    assert found is not None
    return found


def given(*ids: str, resource: str = "nvidia.com/gpu", pod: str = "train-0") -> Allocation:
    return Allocation("research", pod, "main", tuple((resource, id_) for id_ in ids))


def offered(*ids: str, resource: str = "nvidia.com/gpu") -> tuple[tuple[str, str], ...]:
    return tuple((resource, id_) for id_ in ids)


def claimed(device: str, pod: str = "train-0", driver: str = "gpu.nvidia.com") -> Allocation:
    return Allocation("research", pod, "main", (), (ClaimDevice("research/c", driver, "node-a", device),))


def holders(*allocations: Allocation, alive: Collection[str] = (), **seen: Any) -> Holders:
    seen.setdefault("pods", [facts(pod(U1))])
    return join(Seen(allocations=allocations, **seen), lambda uids: set(uids) & set(alive))[0]


def held(found: Holders, there: list[Device] | None = None) -> list[tuple[str, int, int]]:
    """(pod, device, slots) of each holder."""
    return [(h.consumer, h.device, h.slots) for h in found.records(there or devices())]


def only(found: Holders, there: list[Device] | None = None) -> Holder:
    (record,) = found.records(there or devices())
    return record


def with_instances(*profiles: str) -> list[Device]:
    """GPU 0 with MIG instances, numbered from GPU instance 1 on, and GPU 1 whole."""
    gpu, other = devices()
    made = [
        Device(
            MIG_UUID if number == 0 else f"MIG-{number}",
            index=0,
            minor=gpu.minor,
            parent_uuid=gpu.uuid,
            gpu_instance=number + 1,
            compute_instance=0,
            mig_profile=profile,
        )
        for number, profile in enumerate(profiles)
    ]
    return [replace(gpu, sharing="mig"), *made, other]
