"""Which pod and container a cgroup belongs to, read from its path alone.

The path is that of the cgroup as the host sees it. Kubelet lays pods out below ``kubepods`` as
``[qos/]pod<uid>/<container>`` (cgroupfs driver) or as nested slices whose last names the pod, with ``-`` in
the uid written as ``_`` (systemd driver). A node may itself be a container (kind, minikube), so what lies
above the pod does not matter; and a process may live below its container's cgroup, also in a container or a
cluster that it runs itself, so the outermost pod counts and the first container below it: those are the ones
that the node's kubelet knows and gave the GPU to.
Source: kubernetes/pkg/kubelet/cm (cgroup names) and the container runtimes' own prefixes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_UID: Final = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
"""A UUID, or the 32 hex digits of a static pod's configuration hash."""

_POD_DIRECTORY: Final = re.compile(rf"pod({_UID})")
_POD_SLICE: Final = re.compile(
    rf"(?:[^/]*-)?kubepods(?:-(besteffort|burstable|guaranteed))?-pod({_UID})\.slice(?::.*)?"
)
"""What follows a colon is the container: so are cgroups of pods with user namespaces named."""
_QOS_DIRECTORY: Final = frozenset({"besteffort", "burstable", "guaranteed"})
_CONTAINER: Final = re.compile(r"(?:.*[-:])?([0-9a-f]{64})(?:\.scope|\.service)?")
"""``<id>``, ``<runtime>-<id>.scope``, and ``<slice>:<runtime>:<id>`` of pods with user namespaces."""

_CONTAINER_IGNORED: Final = re.compile(r".*conmon-[0-9a-f]{64}(?:\.scope)?")
"""The runtime's own monitor of a container is none of its processes."""


@dataclass(frozen=True, slots=True)
class PodRef:
    """A pod, and where the path says it one of its containers.

    ``pod_uid`` is as Kubernetes writes it (with dashes; static pods have 32 hex digits); ``container_id`` is
    without prefix or suffix, empty for the pod's own cgroup; ``qos`` is besteffort, burstable or guaranteed.
    """

    pod_uid: str
    container_id: str
    qos: str


def pod_from_cgroup(path: str) -> PodRef | None:
    """The pod that owns the cgroup at ``path``, None where it is no pod's."""
    segments = path.split("/")
    for index in range(len(segments)):
        found = _pod_at(segments, index)
        if found is not None:
            uid, qos = found
            return PodRef(uid.replace("_", "-"), _first_container(segments[index:]), qos)
    return None


def container_from_cgroup(path: str) -> str | None:
    """The container that owns the cgroup at ``path``, with or without a pod, None where there is none.

    The innermost one, except that inside a pod it is the pod's own container.
    """
    pod = pod_from_cgroup(path)
    if pod is not None:
        return pod.container_id or None
    return _first_container(list(reversed(path.split("/")))) or None


def _pod_at(segments: list[str], index: int) -> tuple[str, str] | None:
    """(uid, qos) where the segment is a pod's cgroup."""
    name = segments[index]
    in_slice = _POD_SLICE.fullmatch(name)
    if in_slice is not None:
        return in_slice[2], in_slice[1] or "guaranteed"
    directory = _POD_DIRECTORY.fullmatch(name)
    if directory is None or index == 0:
        return None
    parent = segments[index - 1]
    if parent in _QOS_DIRECTORY:
        return directory[1], parent
    return (directory[1], "guaranteed") if parent.startswith("kubepods") else None


def _first_container(segments: list[str]) -> str:
    for name in segments:
        found = _CONTAINER.fullmatch(name)
        if found is not None and _CONTAINER_IGNORED.fullmatch(name) is None:
            return found[1]
    return ""
