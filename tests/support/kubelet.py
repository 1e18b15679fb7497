"""A kubelet's PodResources endpoint: a real gRPC server on a unix socket."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from gpuledger.agent.holders.podresources import SERVICE
from gpuledger.agent.holders.podresources_api import messages


class Kubelet:
    """What it lists is set; it can be away, and it can be one that does not know a call."""

    def __init__(self, socket: Path, knows_allocatable: bool = True) -> None:
        self.socket = socket
        self.knows_allocatable = knows_allocatable
        self.listed = messages()["ListPodResourcesResponse"]()
        self.available = messages()["AllocatableResourcesResponse"]()
        self._server: grpc.Server | None = None
        self.up()

    def give(
        self,
        name: str,
        devices: dict[str, list[str]] | None = None,
        namespace: str = "research",
        container: str = "main",
    ) -> Any:
        """A pod with devices by resource name; the container's message, for what else is to be on it."""
        pod = self.listed.pod_resources.add(name=name, namespace=namespace)
        made = pod.containers.add(name=container)
        for resource, ids in (devices or {}).items():
            # the kubelet lists one entry a NUMA node or id, never all in one
            for device in ids:
                made.devices.add(resource_name=resource, device_ids=[device])
        return made

    def claim(
        self, name: str, claim: str, device: str, driver: str = "gpu.nvidia.com", share: str = ""
    ) -> None:
        """A pod with a device of a resource claim."""
        dynamic = self.give(name).dynamic_resources.add(claim_name=claim, claim_namespace="research")
        dynamic.claim_resources.add(
            driver_name=driver, pool_name="node-a", device_name=device, share_id=share
        )

    def release(self, name: str) -> None:
        """The pod is not listed any more."""
        kept = [pod for pod in self.listed.pod_resources if pod.name != name]
        del self.listed.pod_resources[:]
        self.listed.pod_resources.extend(kept)

    def offer(self, resource: str, ids: list[str]) -> None:
        """Devices that can be given out."""
        self.available.devices.add(resource_name=resource, device_ids=ids)

    def up(self) -> None:
        handlers = {"List": self._handler("ListPodResourcesRequest", lambda: self.listed)}
        if self.knows_allocatable:
            handlers["GetAllocatableResources"] = self._handler(
                "AllocatableResourcesRequest", lambda: self.available
            )
        self._server = grpc.server(ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self._server.add_insecure_port(f"unix://{self.socket}")
        self._server.start()

    def down(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None

    def _handler(self, request: str, answer: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            lambda _, __: answer(),
            request_deserializer=messages()[request].FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
