"""What the kubelet has given to whom: its PodResources API v1 over gRPC on a unix socket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from gpuledger.agent.holders.podresources_api import SERVICE, messages
from gpuledger.contract.errors import Unavailable

CALL_TIMEOUT_S = 5.0  # the kubelet answers from memory, in milliseconds
MAX_ANSWER_BYTES = 64 << 20  # as kubelets themselves allow; CPUs and memory of 500 pods are some MB


@dataclass(frozen=True, slots=True)
class ClaimDevice:
    """A device of a resource claim (dynamic resource allocation), by its place in a pool."""

    claim: str
    """namespace/name of the claim."""
    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one container of a pod was given. The kubelet says neither uid nor phase nor container id."""

    namespace: str
    pod: str
    container: str
    devices: tuple[tuple[str, str], ...] = ()
    """(resource name, device id) of each device."""
    claims: tuple[ClaimDevice, ...] = ()


class PodResources:
    """A client of one kubelet. Owned by one thread. It reconnects by itself when the kubelet comes back."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel = grpc.insecure_channel(
            f"unix://{socket.absolute()}",
            options=[
                ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
                ("grpc.initial_reconnect_backoff_ms", 200),
                ("grpc.max_reconnect_backoff_ms", 5000),
                ("grpc.enable_http_proxy", 0),
            ],
        )
        self._list = self._call("List", "ListPodResourcesRequest", "ListPodResourcesResponse")
        self._allocatable = self._call(
            "GetAllocatableResources", "AllocatableResourcesRequest", "AllocatableResourcesResponse"
        )

    def list(self) -> tuple[Allocation, ...]:
        """Every container that has devices. Raises Unavailable."""
        return allocations_of(self._ask(self._list, "ListPodResourcesRequest"))

    def allocatable(self) -> tuple[tuple[str, str], ...] | None:
        """(resource name, device id) of every device that can be given out; None where this kubelet does
        not tell (before 1.23, or with the feature off). Raises Unavailable."""
        try:
            answer = self._ask(self._allocatable, "AllocatableResourcesRequest")
        except NotOffered:
            return None
        return devices_of_entries(answer.devices)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def _call(self, method: str, request: str, response: str) -> Any:
        return self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=messages()[request].SerializeToString,
            response_deserializer=messages()[response].FromString,
        )

    def _ask(self, call: Any, request: str) -> Any:
        try:
            return call(messages()[request](), timeout=CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            # a kubelet with GetAllocatableResources turned off answers UNKNOWN with that word
            if code == grpc.StatusCode.UNIMPLEMENTED or "disabled" in str(details):
                raise NotOffered(f"{self._socket}: {details}") from error
            raise Unavailable(f"{self._socket}: {code.name} {details}") from error


class NotOffered(Unavailable):
    """This kubelet does not offer the call."""


def allocations_of(answer: Any) -> tuple[Allocation, ...]:
    """Every container of a ListPodResourcesResponse that has devices."""
    return tuple(
        Allocation(
            pod.namespace,
            pod.name,
            container.name,
            devices_of_entries(container.devices),
            _claims(container),
        )
        for pod in answer.pod_resources
        for container in pod.containers
        if container.devices or container.dynamic_resources
    )


def devices_of_entries(entries: Any) -> tuple[tuple[str, str], ...]:
    """(resource name, device id) of each device in a list of ContainerDevices."""
    return tuple((entry.resource_name, device) for entry in entries for device in entry.device_ids)


def _claims(container: Any) -> tuple[ClaimDevice, ...]:
    return tuple(
        ClaimDevice(
            f"{claim.claim_namespace}/{claim.claim_name}",
            resource.driver_name,
            resource.pool_name,
            resource.device_name,
        )
        for claim in container.dynamic_resources
        for resource in claim.claim_resources
    )
