"""What tells who holds the devices: the kubelet's socket, the API server, the kubelet's own list of pods."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Final

from gpuledger.agent.doctor.report import Check
from gpuledger.agent.holders.claim_status import CLAIM, VERSIONS
from gpuledger.agent.holders.kubernetes import OLDER, SLICES
from gpuledger.agent.holders.podresources import PodResources
from gpuledger.contract.errors import ConfigError, Unavailable
from gpuledger.kube import KubeAccess, KubeClient
from gpuledger.kube.access import Refusal

_ONE: Final = {"limit": "1"}
_AGENT: Final = "deploy/kubernetes/agent.yaml"
_NO_CLAIM: Final = ("default", "gpuledger-doctor")
_READ: Final = {"pods": "/api/v1/pods", "nodes": "/api/v1/nodes"}


def kubelet(path: Path) -> Iterator[Check]:
    """Whether the kubelet lists what it has given out, and what it could give out."""
    kubelet = PodResources(path)
    try:
        given = kubelet.list()
        offered = kubelet.allocatable()
    except Unavailable as error:
        remedy = "under Kubernetes mount it into the agent; elsewhere name the holders in a file"
        yield Check("kubelet", False, str(error), remedy, required=False)
        return
    told = f"{path} answers: {len(given)} containers have devices"
    told += "" if offered is None else f", {len(offered)} devices can be given out"
    yield Check("kubelet", True, told, required=False)
    yield Check(
        "slots",
        offered is not None,
        "the kubelet says what can be given out" if offered is not None else f"{path} does not say it",
        "Kubernetes before 1.23: label the nodes with nvidia.com/gpu.replicas where devices are shared",
        required=False,
    )


def api_server(access: KubeAccess | None) -> Iterator[Check]:
    """Whether this agent may read what names the holders. ``access`` None: as a pod finds its API server;
    outside a cluster there is nothing to say."""
    asked = access is not None
    if access is None:
        try:
            access = KubeAccess.in_cluster()
        except ConfigError:
            return
    try:
        client = KubeClient(access)
    except ConfigError as error:
        remedy = "let the pod have its service account's token (automountServiceAccountToken)"
        yield Check("api server", False, str(error), remedy, required=asked)
        return
    with client:
        for kind, path in _READ.items():
            refused = _refused(client, path)
            yield Check(
                f"read {kind}",
                refused is None,
                f"the API server lets {kind} be read" if refused is None else str(refused),
                _remedy(refused, f"bind a ClusterRole that may list and watch {kind} ({_AGENT})"),
                required=asked,
            )
        yield _slices(client)
        yield _claims(client)


def _slices(client: KubeClient) -> Check:
    for version in ("v1", *OLDER):
        refused = _refused(client, SLICES.format(version))
        if isinstance(refused, Refusal) and refused.status == HTTPStatus.NOT_FOUND:
            continue
        told = f"ResourceSlices are read as {version}" if refused is None else str(refused)
        remedy = _remedy(refused, f"bind a ClusterRole that may list and watch resourceslices ({_AGENT})")
        return Check("read resourceslices", refused is None, told, remedy, required=False)
    return Check("read resourceslices", True, "the cluster has none: no dynamic resource allocation")


def _claims(client: KubeClient) -> Check:
    """One that hardly exists is asked for: who may not read it is told so before it is looked for."""
    refused = _refused(client, CLAIM.format(VERSIONS[0], *_NO_CLAIM))
    allowed = refused is None or (isinstance(refused, Refusal) and refused.status == HTTPStatus.NOT_FOUND)
    told = "claims of a share of a device, or of a look at it, are told apart" if allowed else str(refused)
    remedy = _remedy(refused, f"bind a ClusterRole that may get resourceclaims ({_AGENT})")
    return Check("read resourceclaims", allowed, told, remedy, required=False)


def kubelet_pods(access: KubeAccess | None) -> Iterator[Check]:
    """Whether the kubelet lets its own list of pods be read; only where that was asked for."""
    if access is None:
        return
    with KubeClient(access) as client:
        refused = _refused(client, "/pods")
    told = f"{access.url} lists its pods" if refused is None else str(refused)
    role = "bind the ClusterRole of deploy/kubernetes/agent-kubelet.yaml (get on nodes/pods or nodes/proxy)"
    yield Check("kubelet's pods", refused is None, told, _remedy(refused, role))


def _remedy(refused: Unavailable | None, role: str) -> str:
    """What to do: who was let in and then refused lacks a role, whoever got no answer something else."""
    if not isinstance(refused, Refusal):
        return "see that the URL is the server's, that it can be reached, and that the token's file is there"
    if refused.status == HTTPStatus.UNAUTHORIZED:
        return "give a token that this server takes (--kube-token, or the service account's)"
    return role


def _refused(client: KubeClient, path: str) -> Unavailable | None:
    try:
        client.get(path, _ONE)
    except Unavailable as error:
        return error
    return None
