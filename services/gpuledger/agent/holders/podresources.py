"""What the kubelet has given to whom: its PodResources API v1 over gRPC on a unix socket."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpuledger.agent.holders import unary
from gpuledger.agent.holders.podresources_wire import (
    Allocation,
    ClaimDevice,
    Devices,
    ListingReader,
    read_devices,
)
from gpuledger.contract.errors import Unavailable

__all__ = ["Allocation", "ClaimDevice", "PodResources"]

SERVICE: Final = "v1.PodResourcesLister"
CALL_TIMEOUT_S: Final = 5.0  # the kubelet answers from memory, in milliseconds
MAX_ANSWER_BYTES: Final = 64 << 20  # as kubelets themselves allow; CPUs and memory of 500 pods are some MB


class PodResources:
    """A client of one kubelet. Owned by one thread. Each call has a connection of its own."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._listing = ListingReader()

    def list(self) -> tuple[Allocation, ...]:
        """Every container that has devices. Raises Unavailable."""
        try:
            return self._listing.read(self._ask("List"))
        except ValueError as error:
            raise Unavailable(f"{self._socket}: List: {error}") from error

    def allocatable(self) -> Devices | None:
        """(resource name, device id) of every device that can be given out; None where this kubelet does
        not tell (before 1.23, or with the feature off). Raises Unavailable."""
        try:
            return read_devices(self._ask("GetAllocatableResources"))
        except NotOffered:
            return None
        except ValueError as error:
            raise Unavailable(f"{self._socket}: GetAllocatableResources: {error}") from error

    def _ask(self, method: str) -> bytes:
        """The answer to a request that says nothing, as all requests here."""
        try:
            return unary.call(self._socket, f"/{SERVICE}/{method}", b"", CALL_TIMEOUT_S, MAX_ANSWER_BYTES)
        except unary.CallFailed as error:
            # a kubelet with GetAllocatableResources turned off answers UNKNOWN with that word
            if error.status == unary.UNIMPLEMENTED or "disabled" in str(error):
                raise NotOffered(f"{self._socket}: {error}") from error
            raise Unavailable(f"{self._socket}: {error}") from error
        except OSError as error:
            raise Unavailable(f"{self._socket}: {error.strerror or error}") from error


class NotOffered(Unavailable):
    """This kubelet does not offer the call."""
