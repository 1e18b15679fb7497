"""What a recommendation changes, as manifests that are ready to apply.

Karpenter's NodePool is karpenter.sh/v1; MIG layouts are a configuration of the GPU operator's MIG manager,
sharing one of NVIDIA's device plugin. Where a manifest is for a node, its first line says how to label one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from gpuledger.recommend.evidence import WorkloadUse

Manifests = dict[str, str]
OPERATOR_NAMESPACE: Final = "gpu-operator"
CONSOLIDATE_AFTER: Final = "5m"  # longer than a pod takes to be replaced, far shorter than what is wasted


def gpu_node_pool() -> Manifests:
    """A pool whose GPU nodes go when no GPU pod is on them, and that other pods do not come to."""
    return {"gpu-nodepool.yaml": _yaml(_node_pool("gpu", "on-demand", []))}


def spot_node_pool() -> Manifests:
    """The same on spot capacity, for what tolerates it."""
    taint = {"key": "gpuledger.io/spot", "value": "true", "effect": "NoSchedule"}
    return {"gpu-spot-nodepool.yaml": _yaml(_node_pool("gpu-spot", "spot", [taint]))}


def mig_layout(name: str, instances: Mapping[str, int]) -> Manifests:
    """A layout of the MIG manager, by profile and count a GPU."""
    layout = {"devices": "all", "mig-enabled": True, "mig-devices": dict(instances)}
    config = {"version": "v1", "mig-configs": {name: [layout]}}
    told = (
        "# Name it in the ClusterPolicy (migManager.config.name), which reads one ConfigMap: keep\n"
        "# the layouts that yours has. Then drain and label each node:\n"
        f"#   kubectl label node NODE nvidia.com/mig.config={name} --overwrite\n"
    )
    return {
        "mig-config.yaml": told + _yaml(_config_map("gpuledger-mig-parted-config", {"config.yaml": config}))
    }


def time_slicing(replicas: int) -> Manifests:
    """Sharing by time-slices; a pod that asks for two is refused, as it would get no more than for one."""
    sharing = {
        "timeSlicing": {
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": "nvidia.com/gpu", "replicas": replicas}],
        }
    }
    return {"time-slicing.yaml": _device_plugin(f"time-slicing-{replicas}", sharing)}


def mps(replicas: int) -> Manifests:
    """Sharing by MPS: each replica has an equal part of the multiprocessors and of the memory."""
    sharing = {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": replicas}]}}
    return {"mps.yaml": _device_plugin(f"mps-{replicas}", sharing)}


def schedule(one: WorkloadUse, replicas: int, begin: int, end: int, time_zone: str) -> Manifests:
    """KEDA's cron scaler: so many replicas in working hours, none outside."""
    days_of_end = "1-5" if end < 24 else "2-6"  # midnight is the next day's
    cron = {"timezone": time_zone, "start": f"0 {begin} * * 1-5", "end": f"0 {end % 24} * * {days_of_end}"}
    trigger = {"type": "cron", "metadata": {**cron, "desiredReplicas": str(replicas)}}
    return {f"{one.name}-schedule.yaml": _yaml(_scaled(one, trigger))}


def _node_pool(name: str, capacity_type: str, taints: list[dict[str, str]]) -> dict[str, Any]:
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
        {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]},
    ]
    spec = {
        "requirements": requirements,
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}, *taints],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": {"gpuledger.io/pool": name}}, "spec": spec},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": CONSOLIDATE_AFTER,
                "budgets": [{"nodes": "10%"}],
            },
        },
    }


def _scaled(one: WorkloadUse, trigger: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": one.name, "namespace": one.namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": one.kind, "name": one.name},
            "minReplicaCount": 0,
            "triggers": [trigger],
        },
    }


def _device_plugin(name: str, sharing: dict[str, Any]) -> str:
    told = (
        "# Name it in the ClusterPolicy (devicePlugin.config.name), which reads one ConfigMap: keep\n"
        "# the keys that yours has. Then label each node:\n"
        f"#   kubectl label node NODE nvidia.com/device-plugin.config={name} --overwrite\n"
    )
    return told + _yaml(
        _config_map("gpuledger-device-plugin-config", {name: {"version": "v1", "sharing": sharing}})
    )


def _config_map(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": OPERATOR_NAMESPACE},
        "data": {key: _yaml(value) for key, value in data.items()},
    }


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, as a person would write them."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=110)
