"""Pods without GPUs that keep a node alive, and why an autoscaler leaves the node alone because of them.

Sources: Karpenter, concepts/disruption, "Pod-Level Controls" (it moves pods without an owner); Kubernetes
autoscaler, cluster-autoscaler/FAQ.md, "What types of pods can prevent CA from removing a node?". Whether a
PodDisruptionBudget stands in the way, which both respect, is not the pod's to say (`holders/disruption.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from gpuledger.contract.records import Keeper, Pod

KEEPERS_LISTED: Final = 16  # named in a keyframe: 1.5 kB; a person moves no more before looking again
KEEPING_PHASES: Final = frozenset({"Pending", "Running"})
DO_NOT_DISRUPT: Final = ("karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-evict")
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
SYSTEM_NAMESPACE: Final = "kube-system"
DISRUPTION_BUDGET: Final = "disruption_budget"
CONFIG_SOURCE: Final = "kubernetes.io/config.source"


def keeper_of(pod: Mapping[str, Any], known: Pod) -> Keeper | None:
    """The pod, given as JSON and as it is ``known``, as one that keeps its node alive; None where it does
    not: a DaemonSet's, a static one, or one that has finished. Whether it has a GPU is not looked at."""
    if known.phase not in KEEPING_PHASES or known.workload_kind == "DaemonSet" or _is_static(pod, known):
        return None
    workload = f"{known.workload_kind}/{known.workload}" if known.workload_kind else ""
    return Keeper(known.uid, known.namespace, known.name, workload, _why(pod, known))


def with_budgets(keepers: Iterable[Keeper], blocked: Collection[str]) -> tuple[Keeper, ...]:
    """The same, those of the uids ``blocked`` with a PodDisruptionBudget as one reason more."""
    return tuple(
        replace(one, why=[*one.why, DISRUPTION_BUDGET]) if one.uid in blocked else one for one in keepers
    )


def named(keepers: Iterable[Keeper], users: Collection[str]) -> list[Keeper]:
    """All of them in order, those with a reason of their own first; without ``users``, pods by uid."""
    left = (keeper for keeper in keepers if keeper.uid not in users)
    return sorted(left, key=lambda keeper: (not keeper.why, keeper.namespace, keeper.pod, keeper.uid))


def _is_static(pod: Mapping[str, Any], known: Pod) -> bool:
    """The kubelet runs it from a file: its list has the file's pod, the API server's a mirror of it."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return known.annotations.get(CONFIG_SOURCE, "api") != "api" or any(
        owner.get("kind") == "Node" for owner in owners
    )


def _why(pod: Mapping[str, Any], known: Pod) -> list[str]:
    annotations = known.annotations
    why = []
    if any(annotations.get(name) == "true" for name in DO_NOT_DISRUPT):
        why.append("do_not_disrupt")
    safe = annotations.get(SAFE_TO_EVICT)
    if safe == "false":
        why.append("not_safe_to_evict")
    if safe != "true":
        if not known.workload_kind:
            why.append("no_controller")
        if _local_volumes(pod) - set(annotations.get(SAFE_VOLUMES, "").split(",")):
            why.append("local_storage")
        if known.namespace == SYSTEM_NAMESPACE:
            why.append("system_pod")
    return why


def _local_volumes(pod: Mapping[str, Any]) -> set[str]:
    """Names of the volumes that would be lost with the node."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return {
        str(volume.get("name"))
        for volume in volumes
        if "hostPath" in volume
        or ("emptyDir" in volume and (volume["emptyDir"] or {}).get("medium") != "Memory")
    }
