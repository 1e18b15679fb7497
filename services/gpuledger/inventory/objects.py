"""Node and NodeClaim objects as the inventory needs them.

Sources: kubernetes.io core/v1 Node; karpenter.sh/v1 NodeClaim (status.providerID, status.nodeName, and the
condition Launched, whose transition is the instant at which the cloud gave the instance).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuledger.contract.records import NodeLayout
from gpuledger.kube import layout_of_node, parse_time_ns

GPU_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-")
GPU_LABELS = (
    "nvidia.com/gpu.count",
    "karpenter.k8s.aws/instance-gpu-count",
    "cloud.google.com/gke-accelerator-count",
)
"""Labels with the number of GPUs, the more trustworthy first."""
GPU_MARKS = ("nvidia.com/gpu.present", "cloud.google.com/gke-accelerator", "kubernetes.azure.com/accelerator")
REPLICAS = "nvidia.com/gpu.replicas"
MAX_GPUS = 256  # no host has more; a larger number is slices, not GPUs


@dataclass(frozen=True)
class NodeFacts:
    """A Node object. ``layout.instance_id`` is the cloud's, or the object's uid where there is no cloud."""

    name: str
    uid: str
    provider_id: str
    layout: NodeLayout
    created_ns: int | None
    has_gpus: bool


@dataclass(frozen=True)
class ClaimFacts:
    """A NodeClaim object: an instance that Karpenter asked for, there before its node and after it."""

    node: str
    provider_id: str
    launched_ns: int | None


def node_facts(node: Mapping[str, Any]) -> NodeFacts | None:
    """The facts of a Node given as JSON; None where it has no name."""
    metadata = node.get("metadata") or {}
    name, uid = str(metadata.get("name") or ""), str(metadata.get("uid") or "")
    if not name:
        return None
    labels = metadata.get("labels") or {}
    capacity = (node.get("status") or {}).get("capacity") or {}
    count = gpu_count(labels, capacity)
    layout = layout_of_node(node)
    return NodeFacts(
        name=name,
        uid=uid,
        provider_id=str((node.get("spec") or {}).get("providerID") or ""),
        layout=replace(layout, instance_id=layout.instance_id or uid, gpu_count=count),
        created_ns=parse_time_ns(metadata.get("creationTimestamp")),
        has_gpus=count > 0
        or any(labels.get(mark) for mark in GPU_MARKS)
        or any(name.startswith(GPU_RESOURCES) for name in capacity),
    )


def claim_facts(claim: Mapping[str, Any]) -> ClaimFacts | None:
    """The facts of a NodeClaim given as JSON; None while no instance was launched for it."""
    status = claim.get("status") or {}
    provider_id = str(status.get("providerID") or "")
    if not provider_id:
        return None
    launched = [
        parse_time_ns(condition.get("lastTransitionTime"))
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Launched" and condition.get("status") == "True"
    ]
    created = parse_time_ns((claim.get("metadata") or {}).get("creationTimestamp"))
    return ClaimFacts(
        node=str(status.get("nodeName") or ""),
        provider_id=provider_id,
        launched_ns=next((time for time in launched if time is not None), created),
    )


def gpu_count(labels: Mapping[str, str], capacity: Mapping[str, Any]) -> int:
    """GPUs that the node has; 0 where nothing says it.

    The resource counts slots, not GPUs, where they are shared: it is divided by the replicas that the node's
    label states.
    """
    for name in GPU_LABELS:
        if (count := _number(labels.get(name))) is not None:
            return count
    count = _number(capacity.get("nvidia.com/gpu")) or 0
    replicas = _number(labels.get(REPLICAS)) or 1
    return count // max(replicas, 1) if count % max(replicas, 1) == 0 else count


def _number(value: object) -> int | None:
    text = str(value) if value is not None else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        return None
    return int(text) if int(text) <= MAX_GPUS else None
