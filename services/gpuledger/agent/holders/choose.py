"""Which source of holders an agent has: made here from its options, with what has to be closed.

Each source is imported by those who have it: the file's checks take 10 MB, the cluster's clients 30.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from gpuledger.agent.cgroups import cgroup2_mount
from gpuledger.agent.holders.source import Holders, HolderSource
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import ConfigError

if TYPE_CHECKING:
    from gpuledger.kube import KubeAccess

FIRST_ANSWER_S = 5.0  # of a kubelet and an API server that are there; a node whose holders come later is told
KUBELET_SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
KUBELET_URL = "https://127.0.0.1:10250"


class HoldersFrom(StrEnum):
    """Where the agent learns who holds which device."""

    NONE = "none"
    FILE = "file"
    KUBELET = "kubelet"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True)
class HolderChoice:
    """A source and where it is. ``api_url`` None: as a pod finds its API server. A kubelet's certificate is
    checked where ``kubelet_ca`` says against what; it is on this very host."""

    source: HoldersFrom = HoldersFrom.NONE
    file: Path | None = None
    kubelet_socket: Path = KUBELET_SOCKET
    kubelet_url: str = KUBELET_URL
    kubelet_ca: Path | None = None
    api_url: str | None = None
    token_file: Path | None = None
    kube_node: str | None = None
    """Name of the Node object where it is not the agent's own."""


class NoHolders:
    """A `HolderSource` for a node whose holders nobody can name."""

    problem = ""

    def read(self) -> Holders | None:
        """See HolderSource.read."""
        return None


def open_holders(stack: contextlib.ExitStack, choice: HolderChoice, node: str, clock: Clock) -> HolderSource:
    """The source, already learning; the stack closes it. Raises ConfigError where a part is missing."""
    if choice.source is HoldersFrom.NONE:
        return NoHolders()
    if choice.source is HoldersFrom.FILE:
        if choice.file is None:
            raise ConfigError("holders from a file need --holders FILE", "options")
        from gpuledger.agent.holders.file import FileHolders

        return FileHolders(choice.file)
    from gpuledger.agent.holders import kubernetes
    from gpuledger.agent.holders.podresources import PodResources
    from gpuledger.kube import KubeClient

    pods: kubernetes.PodSource
    if choice.source is HoldersFrom.KUBERNETES:
        pods = kubernetes.ApiPods(KubeClient(_api(choice)), choice.kube_node or node, clock)
    else:
        pods = kubernetes.KubeletPods(KubeClient(_kubelet(choice)), clock)
    mount = cgroup2_mount(Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines())
    source = kubernetes.KubernetesHolders(
        PodResources(choice.kubelet_socket), pods, clock, kubernetes.alive_uids(mount or "/sys/fs/cgroup")
    )
    stack.callback(source.stop)
    source.start(FIRST_ANSWER_S)
    return source


def _api(choice: HolderChoice) -> KubeAccess:
    from gpuledger.kube import KubeAccess

    if choice.api_url is None:
        return KubeAccess.in_cluster()
    return KubeAccess(choice.api_url, choice.token_file)


def _kubelet(choice: HolderChoice) -> KubeAccess:
    from gpuledger.kube import KubeAccess
    from gpuledger.kube.access import SERVICE_ACCOUNT

    token = choice.token_file
    if token is None and (SERVICE_ACCOUNT / "token").exists():
        token = SERVICE_ACCOUNT / "token"
    return KubeAccess(choice.kubelet_url, token, choice.kubelet_ca, verify=choice.kubelet_ca is not None)
