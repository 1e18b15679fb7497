"""Pod-shaped cgroups (version 2), as kubelet and containerd make them with the systemd driver."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Sequence
from pathlib import Path

REMOVE_S = 240.0  # a cgroup is busy until the kernel has buried its last process


def cgroup2_mount(mountinfo: Path = Path("/proc/self/mountinfo")) -> Path:
    """Where cgroup v2 is mounted. Raises FileNotFoundError where it is not."""
    for line in mountinfo.read_text().splitlines():
        fields, _, after = line.partition(" - ")
        if after.split()[0] == "cgroup2":
            return Path(fields.split()[4])
    raise FileNotFoundError(errno.ENOENT, "no cgroup2 mount", str(mountinfo))


def pod_cgroup_path(pod_uid: str, container_id: str) -> str:
    """The path of a burstable pod's container below the mount, as /proc/PID/cgroup shows it."""
    uid = pod_uid.replace("-", "_")
    return (
        "/kubepods.slice/kubepods-burstable.slice"
        f"/kubepods-burstable-pod{uid}.slice/cri-containerd-{container_id}.scope"
    )


def make_pod_cgroup(pod_uid: str, container_id: str) -> Path:
    """Make that cgroup and return its directory. Raises OSError (it needs root)."""
    directory = cgroup2_mount() / pod_cgroup_path(pod_uid, container_id).lstrip("/")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def remove_pod_cgroup(directory: Path) -> None:
    """Remove a container's cgroup and those above it that are empty, up to the mount.

    Processes in it must have ended; it waits a little for the kernel to notice. Raises OSError.
    """
    deadline = time.monotonic() + REMOVE_S
    while True:
        try:
            directory.rmdir()
            break
        except FileNotFoundError:
            break
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    mount = cgroup2_mount()
    for parent in directory.parents:
        if parent == mount:
            return
        with contextlib.suppress(OSError):  # another pod lives there
            parent.rmdir()


def in_cgroup(command: Sequence[str], directory: Path) -> list[str]:
    """`command` wrapped so that it is in the cgroup before it starts, under the pid that was forked."""
    script = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    return ["/bin/sh", "-c", script, os.fspath(directory), *command]
