"""Pods as the API server or the kubelet describe them, cut down to what charging needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuledger.agent.holders.keepers import keeper_of
from gpuledger.contract.records import Keeper, Pod
from gpuledger.kube import parse_time_ns

CONFIG_HASH = "kubernetes.io/config.hash"
CONFIG_MIRROR = "kubernetes.io/config.mirror"
MAX_ANNOTATION_BYTES = 1024  # kubectl's copy of the last configuration alone may have 256 KiB
KEPT_ENVIRONMENT = frozenset({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"})
"""All that is kept of a container's environment, which may hold secrets."""
KEPT_REQUESTS = ("nvidia.com/", "aliyun.com/", "cloud.google.com/", "amd.com/", "gpu.")
FIRST_CRON_MINUTE = 26_000_000  # June 2019, in minutes since 1970; dates such as 20250101 lie below
_CRON_JOB = re.compile(r"(.+)-(\d{8})")
_HASH_LABELS = {"pod-template-hash": "Deployment", "rollouts-pod-template-hash": "Rollout"}


@dataclass(frozen=True)
class ContainerFacts:
    """A container of a pod: its ids without the runtime's prefix, also that of the one before a restart."""

    name: str
    ids: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PodFacts:
    """A pod. ``pod.uid`` is the one that the kubelet's cgroups carry."""

    pod: Pod
    containers: tuple[ContainerFacts, ...] = ()
    created_ns: int = 0
    keeper: Keeper | None = None
    """Set where it asks for no GPU and keeps its node alive."""

    @property
    def name(self) -> tuple[str, str]:
        """(namespace, name)."""
        return self.pod.namespace, self.pod.name

    def container(self, name: str) -> ContainerFacts:
        """The container of that name; one without facts where there is none."""
        return next((found for found in self.containers if found.name == name), ContainerFacts(name))


def pod_facts(pod: Mapping[str, Any]) -> PodFacts | None:
    """The facts of a pod given as JSON; None where it has no uid."""
    metadata = pod.get("metadata") or {}
    labels = _texts(metadata.get("labels"))
    annotations = _texts(metadata.get("annotations"))
    uid = str(metadata.get("uid") or "")
    if CONFIG_MIRROR in annotations:
        uid = annotations.get(CONFIG_HASH, uid)  # the API's copy of a static pod has a uid of its own
    if not uid:
        return None
    kind, workload = owner_of(metadata, labels)
    known = Pod(
        uid=uid,
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        phase=str((pod.get("status") or {}).get("phase") or ""),
        labels=labels,
        annotations={k: v for k, v in annotations.items() if len(v) <= MAX_ANNOTATION_BYTES},
        workload_kind=kind,
        workload=workload,
    )
    containers = _containers(pod)
    asks = any(container.limits for container in containers)
    return PodFacts(
        known,
        containers,
        parse_time_ns(metadata.get("creationTimestamp")) or 0,
        None if asks else keeper_of(pod, known),
    )


def owner_of(metadata: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[str, str]:
    """(kind, name) of the workload that a pod belongs to; two empty texts for a bare pod.

    Controllers name what they make after themselves: a Deployment's ReplicaSet is its name with the hash that
    the pod carries as a label, a CronJob's Job its name with the scheduled minute.
    """
    owners = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    if not owners:
        return "", ""
    kind, name = str(owners[0].get("kind") or ""), str(owners[0].get("name") or "")
    if kind == "Node":
        return "", ""  # a static pod
    if kind == "ReplicaSet":
        for label, owner in _HASH_LABELS.items():
            suffix = f"-{labels.get(label, '')}"
            if len(suffix) > 1 and name.endswith(suffix):
                return owner, name.removesuffix(suffix)
    if kind == "Job":
        match = _CRON_JOB.fullmatch(name)
        if match and int(match[2]) >= FIRST_CRON_MINUTE:
            return "CronJob", match[1]
    return kind, name


def _containers(pod: Mapping[str, Any]) -> tuple[ContainerFacts, ...]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    ids: dict[str, tuple[str, ...]] = {}
    for group in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for entry in status.get(group) or ():
            before = ((entry.get("lastState") or {}).get("terminated") or {}).get("containerID")
            given = (str(text).rpartition("://")[2] for text in (entry.get("containerID"), before) if text)
            ids[str(entry.get("name"))] = tuple(given)
    found = []
    for group in ("containers", "initContainers", "ephemeralContainers"):
        for entry in spec.get(group) or ():
            name = str(entry.get("name") or "")
            environment = {
                str(item.get("name")): str(item.get("value"))
                for item in entry.get("env") or ()
                if item.get("name") in KEPT_ENVIRONMENT and item.get("value")
            }
            limits = _texts((entry.get("resources") or {}).get("limits"))
            found.append(
                ContainerFacts(
                    name,
                    ids.get(name, ()),
                    environment,
                    {k: v for k, v in limits.items() if k.startswith(KEPT_REQUESTS)},
                )
            )
    return tuple(found)


def _texts(mapping: Mapping[str, Any] | None) -> dict[str, str]:
    return {str(name): str(value) for name, value in (mapping or {}).items()}
