"""Who a process belongs to, by the path of its cgroup: a pod, a Slurm job, a container or a systemd unit.

The outermost counts, because that is what a scheduler gave the GPU to: a container that a job starts is the
job's, a unit inside a container is the container's; what lies below a user's slice, a service or a job may be
called as its owner likes, and is the owner's (`gpuledger.agent.identity`). Shapes: Slurm's cgroup/v1
(slurm/uid_U/job_J/step_S) and cgroup/v2 plugins (slurmstepd.scope/job_J/step_S, with the node's name in front
where several slurmd share a host), at the root or in system.slice; systemd.slice(5), systemd.scope(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from gpuledger.agent.identity import container_from_cgroup, first_container, pod_from_cgroup, user_slice

POD, SLURM_JOB, CONTAINER, SYSTEMD = "pod", "slurm_job", "container", "systemd"
IN_CONTAINER = frozenset({POD, CONTAINER})
"""Kinds whose processes see what a container runtime shows them."""

_SLURM_ROOT = re.compile(r"slurm(?:_[^/]+)?|(?:[^/]+_)?slurmstepd\.scope")
_SLURM_JOB = re.compile(r"job_(\d{1,10})")
_SLURM_USER = re.compile(r"uid_\d+")
_TRANSIENT = re.compile(r"run-[^/]*\.(?:scope|service)")
_RUNTIME_UNIT = re.compile(r".*[-:][0-9a-f]{64}(?:\.scope|\.service)?")
_PLAIN_SLICES = frozenset({"system.slice", "machine.slice", "-.slice"})


class ConsumerRef(NamedTuple):
    """A consumer: ``kind`` and ``consumer`` as in the record Process, and the container's id where there is
    one."""

    kind: str
    consumer: str
    container_id: str = ""


def consumer_from_cgroup(path: str) -> ConsumerRef | None:
    """The consumer that owns the cgroup at ``path``; None for a bare process: nobody but itself."""
    job = slurm_job(path)
    if job is not None:
        return ConsumerRef(SLURM_JOB, job, first_container(path.split("/")))
    pod = pod_from_cgroup(path)
    if pod is not None:
        return ConsumerRef(POD, pod.pod_uid, pod.container_id)
    container = container_from_cgroup(path)
    if container:
        return ConsumerRef(CONTAINER, container, container)
    unit = systemd_unit(path)
    return None if unit is None else ConsumerRef(SYSTEMD, unit)


def consumer_of_process(path: str | None, cgroup1_paths: Iterable[str]) -> ConsumerRef | None:
    """The consumer by the cgroup v2 path, and on hosts with both versions by those of v1 where that one says
    no more than a unit of systemd: Slurm's cgroup/v1 plugin, and Kubernetes on such hosts, know v1 alone."""
    found = None if path is None else consumer_from_cgroup(path)
    if found is None or found.kind == SYSTEMD:
        for legacy in map(consumer_from_cgroup, cgroup1_paths):
            if legacy is not None and legacy.kind != SYSTEMD:
                return legacy
    return found


def slurm_job(path: str) -> str | None:
    """The id of the Slurm job that owns the cgroup; an array's or heterogeneous job's part has its own."""
    names = [name for name in path.split("/") if name]
    if names[:1] == ["system.slice"]:
        names = names[1:]
    if not names or not _SLURM_ROOT.fullmatch(names[0]):
        return None
    below = names[1:3]
    if below and _SLURM_USER.fullmatch(below[0]):
        below = below[1:]
    match = _SLURM_JOB.fullmatch(below[0]) if below else None
    return None if match is None else match[1]


def systemd_unit(path: str) -> str | None:
    """The service or slice that owns the cgroup: of a login session the user's slice, whatever runs in it; of
    a transient unit in an administrator's slice that slice, since its own name is never seen again."""
    user = user_slice(path)
    if user is not None:
        return user
    segments = [name for name in path.split("/") if name]
    slices = [name for name in segments if name.endswith(".slice")]
    named = [name for name in slices if name not in _PLAIN_SLICES and not name.startswith("system-")]
    for name in segments:
        if (
            name.endswith((".service", ".scope"))
            and name != "init.scope"
            and not _RUNTIME_UNIT.fullmatch(name)
        ):
            return named[-1] if named and _TRANSIENT.fullmatch(name) else name
    return named[-1] if named else None
