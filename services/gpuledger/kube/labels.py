"""What a Node object says of a node: the clouds', Karpenter's and NVIDIA's labels as a NodeLayout.

Sources: kubernetes.io well-known labels; Karpenter, EKS, GKE and AKS documentation of node labels; NVIDIA
GPU feature discovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlparse

from gpuledger.contract.capacity import capacity_word
from gpuledger.contract.records import NodeLayout

INSTANCE_TYPE = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
NODE_POOL = (
    "karpenter.sh/nodepool",
    "karpenter.sh/provisioner-name",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
)
CAPACITY_TYPE = (
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "kubernetes.azure.com/scalesetpriority",
)
SPOT_FLAGS = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
GKE_NODE_POOL = "cloud.google.com/gke-nodepool"
AKS_CLUSTER = "kubernetes.azure.com/cluster"
GPU_COUNT = "nvidia.com/gpu.count"

KEPT_PREFIXES = (
    "nvidia.com/gpu.",
    "nvidia.com/mig.",
    "nvidia.com/mps.",
    "cloud.google.com/gke-",
    "karpenter.",
    "eks.amazonaws.com/",
    "kubernetes.azure.com/",
    "node.kubernetes.io/",
    "topology.kubernetes.io/",
    "gpuledger.io/",
)
"""Labels that go on the keyframe. The rest (nvidia.com/cuda.*, feature.node.kubernetes.io/* by the hundred)
prices and teams have no use for."""
MAX_LABELS = 128  # a node has some 60 of these; the keyframe is sent every window
MAX_LABEL_BYTES = 256  # Kubernetes allows 63 in a value and 317 in a name


def layout_of_node(node: Mapping[str, Any]) -> NodeLayout:
    """What a Node object (as JSON) says, without devices; a field that it does not say is empty."""
    metadata = node.get("metadata") or {}
    layout = layout_of_labels(metadata.get("labels") or {})
    layout.instance_id = instance_id(str((node.get("spec") or {}).get("providerID") or ""))
    return layout


def layout_of_labels(labels: Mapping[str, str]) -> NodeLayout:
    """What a node's labels say."""
    count = labels.get(GPU_COUNT, "")
    return NodeLayout(
        instance_type=_first(labels, INSTANCE_TYPE),
        capacity_type=capacity_type(labels),
        region=_first(labels, REGION),
        zone=_first(labels, ZONE),
        node_pool=_first(labels, NODE_POOL),
        gpu_count=int(count) if count.isascii() and count.isdigit() and len(count) <= 3 else 0,
        labels=_kept(labels),
    )


def capacity_type(labels: Mapping[str, str]) -> str:
    """spot, on_demand, reserved or owned; empty where no label says it.

    GKE and AKS label only what is not on demand; a node that is theirs and has no such label is on demand.
    """
    word = capacity_word(_first(labels, CAPACITY_TYPE))
    if word:
        return word
    if any(labels.get(flag) == "true" for flag in SPOT_FLAGS):
        return "spot"
    return "on_demand" if GKE_NODE_POOL in labels or AKS_CLUSTER in labels else ""


def instance_id(provider_id: str) -> str:
    """The cloud's id of the instance: aws:///zone/i-0ab -> i-0ab, gce://project/zone/name -> name.

    Azure's scale sets number their machines (.../virtualMachineScaleSets/pool/virtualMachines/3): the number
    alone is no identity, so the set's name goes with it.
    """
    path = urlparse(provider_id).path.strip("/").split("/")
    if len(path) >= 3 and path[-1].isdigit():
        return f"{path[-3]}/{path[-1]}"
    return path[-1]


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _kept(labels: Mapping[str, str]) -> dict[str, str]:
    kept = {
        str(name): str(value)
        for name, value in sorted(labels.items())
        if name.startswith(KEPT_PREFIXES) and len(str(value)) <= MAX_LABEL_BYTES
    }
    return dict(list(kept.items())[:MAX_LABELS])
