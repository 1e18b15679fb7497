"""Which pod and container a cgroup belongs to, read from its path alone.

The path is that of the cgroup as the host sees it. Kubelet lays pods out below ``kubepods`` as
``[qos/]pod<uid>/<container>`` (cgroupfs driver) or as nested slices whose last names the pod, with ``-`` in
the uid written as ``_`` (systemd driver). A node may itself be a container (kind, minikube), so what lies
above the pod does not matter; and a process may live below its container's cgroup, also in a container or a
cluster that it runs itself, so the outermost pod counts and the first container below it: those are the ones
that the node's kubelet knows and gave the GPU to.

Whoever owns a cgroup may name what lies below it as it likes, also like another's pod. So names count down to
the first one that is handed to somebody (`handed_to`): a user's slice, a service, a scope, Slurm's. What lies
in a container counts, for a whole node may be one; to make cgroups there takes a privileged container.
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

_USER: Final = re.compile(r"user-\d+\.slice")
_ROOTLESS: Final = re.compile(r"(?:libpod|docker|nerdctl|podman)(?:-payload)?-([0-9a-f]{64})(?:\.scope)?")
_RUNTIME_SERVICE: Final = re.compile(
    r"(?:containerd|docker|podman|crio|cri-o|kubelet|k3s[^/]*|k0s[^/]*|rke2[^/]*|snap\.(?:microk8s|docker)[^/]*)\.service"
)
"""Services below which kubelets and runtimes lay out what they start."""
_SLURM: Final = re.compile(r"slurm(?:_[^/]+)?")

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
    segments = handed_to(path)
    for index in range(len(segments)):
        found = _pod_at(segments, index)
        if found is not None:
            uid, qos = found
            return PodRef(uid.replace("_", "-"), first_container(segments[index:]), qos)
    return None


def container_from_cgroup(path: str) -> str | None:
    """The container that owns the cgroup at ``path``, with or without a pod, None where there is none.

    The outermost one, inside a pod the pod's own. A user's is one that a rootless runtime named.
    """
    pod = pod_from_cgroup(path)
    if pod is not None:
        return pod.container_id or None
    if user_slice(path) is None:
        return first_container(handed_to(path)) or None
    found = (_ROOTLESS.fullmatch(name) for name in path.split("/"))
    return next((match[1] for match in found if match is not None), None)


def user_slice(path: str) -> str | None:
    """The slice of the user whose login sessions and services the cgroup is of."""
    names = [name for name in path.split("/") if name]
    return names[1] if names[:1] == ["user.slice"] and len(names) > 1 and _USER.fullmatch(names[1]) else None


def handed_to(path: str) -> list[str]:
    """The names from the root down to the first cgroup whose owner names what is below it; all where there is
    none such."""
    names = [name for name in path.split("/") if name]
    if user_slice(path) is not None:
        return names[:2]
    if names and _SLURM.fullmatch(names[0]):
        return names[:1]
    for index, name in enumerate(names):
        service = name.endswith(".service") and _RUNTIME_SERVICE.fullmatch(name) is None
        if service or (name.endswith(".scope") and _CONTAINER.fullmatch(name) is None):
            return names[: index + 1]
    return names


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


def first_container(segments: list[str]) -> str:
    """The outermost container among these names; empty where there is none."""
    for name in segments:
        found = _CONTAINER.fullmatch(name)
        if found is not None and _CONTAINER_IGNORED.fullmatch(name) is None:
            return found[1]
    return ""
