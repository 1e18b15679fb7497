"""What the status of a ResourceClaim says beyond the kubelet's list: how much of a device a share of it has
(consumable capacity, KEP-5075), which devices are only looked at (admin access), which holds nothing, and how
those share a device that have one claim together (GpuConfig and MigDeviceConfig of NVIDIA's driver).

The kubelet names the claims of the node's containers, so each is asked for by its name, once: a watch of
claims can not be narrowed to a node, and would bring every agent those of the whole cluster.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from gpuledger.agent.holders.podresources import ClaimDevice
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import Unavailable
from gpuledger.kube import KubeClient
from gpuledger.kube.access import Refusal

CLAIM: Final = "/apis/resource.k8s.io/{}/namespaces/{}/resourceclaims/{}"
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")  # v1 came with Kubernetes 1.34, the others with 1.33 and 1.32
AGAIN_NS: Final = 10 * NS_PER_S  # then a claim is asked for again that was not there, or said too little
MPS: Final = "MPS"
STRATEGIES: Final = {MPS: "mps", "TimeSlicing": "time_slicing"}  # of sharing in NVIDIA's configurations
ASKED_AT_ONCE: Final = 64  # a tenth of a second's calls; the next look goes on
_NUMBER: Final = r"([0-9]{1,20}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})"
_QUANTITY: Final = re.compile(_NUMBER + r"([eE][+-]?[0-9]{1,2}|[A-Za-z]{0,2})")
_DECIMAL: Final = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


@dataclass(frozen=True, slots=True)
class Allotment:
    """What a claim has of a device: amounts by the capacity's name without its domain, empty where the status
    names none. ``admin``: it may look, and holds nothing. ``sharing``: mps or time_slicing, empty where it
    does not say; ``threads``: the percentage of the threads that each client of MPS may use,
    ``memory_bytes`` what it may allocate."""

    consumed: Mapping[str, float] = field(default_factory=dict)
    admin: bool = False
    sharing: str = ""
    threads: float | None = None
    memory_bytes: int | None = None


Allotments = Mapping[ClaimDevice, Allotment]


class ClaimStatuses:
    """The statuses of the claims that the node's containers have, as one API server tells them. It borrows
    the client; one thread uses it."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._versions: tuple[str, ...] = VERSIONS
        self._said: dict[str, dict[ClaimDevice, Allotment]] = {}
        self._due_ns: dict[str, int] = {}
        self.problem = ""
        """Why a claim could not be read the last time that one was asked for; empty where all could."""

    def of(self, devices: Collection[ClaimDevice]) -> Allotments:
        """What is known of these; asks for the claims that are new. What is no longer named is forgotten."""
        named = {device.claim for device in devices}
        self._said = {claim: said for claim, said in self._said.items() if claim in named}
        self._due_ns = {claim: due_ns for claim, due_ns in self._due_ns.items() if claim in named}
        known = {device: said for of_claim in self._said.values() for device, said in of_claim.items()}
        missing = {device.claim for device in devices if device not in known}
        self._ask(sorted(missing))
        if not missing:
            self.problem = ""
        found = (self._said.get(device.claim, {}).get(device) for device in devices)
        return {device: one for device, one in zip(devices, found, strict=True) if one is not None}

    def _ask(self, claims: Iterable[str]) -> None:
        now = self._clock.boot_ns()
        due = [claim for claim in claims if self._due_ns.get(claim, now) <= now]
        for claim in due[:ASKED_AT_ONCE]:
            self._due_ns[claim] = now + AGAIN_NS
            try:
                self._said[claim] = allotments(claim, self._get(claim))
                self.problem = ""
            except Unavailable as error:
                self.problem = str(error)
                return  # the others would hardly fare better, and would take as long

    def _get(self, claim: str) -> dict[str, Any]:
        """The claim; one without a status where there is none of that name. Raises Unavailable."""
        namespace, _, name = claim.partition("/")
        for version in self._versions:
            try:
                found = self._client.get(CLAIM.format(version, quote(namespace), quote(name)))
            except Refusal as refused:
                if refused.status != HTTPStatus.NOT_FOUND:
                    raise
                continue
            self._versions = (version, *(other for other in VERSIONS if other != version))
            return found
        return {}


def allotments(claim: str, item: Mapping[str, Any]) -> dict[ClaimDevice, Allotment]:
    """What a ResourceClaim of that name, given as JSON, was allotted: of v1 and of v1beta1 and 2 alike."""
    status = item.get("status") or {}
    devices = (status.get("allocation") or {}).get("devices") or {}
    found = {}
    for result in devices.get("results") or ():
        place = (str(result.get(part) or "") for part in ("driver", "pool", "device", "shareID"))
        consumed = amounts(result.get("consumedCapacity"))
        shared = _sharing(devices.get("config") or (), result)
        found[ClaimDevice(claim, *place)] = Allotment(consumed, result.get("adminAccess") is True, *shared)
    return found


def _sharing(configs: Iterable[Any], result: Mapping[str, Any]) -> tuple[str, float | None, int | None]:
    """How those share a device that have its claim: by the last configuration that speaks of its request and
    its driver, since a claim's stands behind its class's."""
    said: tuple[str, float | None, int | None] = "", None, None
    for config in configs:
        opaque, requests = config.get("opaque") or {}, config.get("requests") or ()
        mine = not requests or result.get("request") in requests
        parameters = opaque.get("parameters") if opaque.get("driver") == result.get("driver") else None
        sharing = parameters.get("sharing") if mine and isinstance(parameters, dict) else None
        if not isinstance(sharing, dict) or sharing.get("strategy") not in STRATEGIES:
            continue
        limits = sharing.get("mpsConfig")
        limits = limits if isinstance(limits, dict) and sharing["strategy"] == MPS else {}
        threads = quantity(limits.get("defaultActiveThreadPercentage"))
        memory = quantity(limits.get("defaultPinnedDeviceMemoryLimit"))
        said = (
            STRATEGIES[sharing["strategy"]],
            threads if threads is not None and 0 < threads <= 100 else None,
            None if memory is None else round(memory),
        )
    return said


def amounts(capacities: Any) -> dict[str, float]:
    """Quantities by name, without the domain that names may begin with; what is no amount is left out."""
    if not isinstance(capacities, dict):
        return {}
    read = {str(name).rpartition("/")[2]: quantity(value) for name, value in capacities.items()}
    return {name: value for name, value in read.items() if value is not None}


def quantity(text: Any) -> float | None:
    """An amount as Kubernetes writes it: 12, 0.5, 500m, 10Gi, 1e3; None where it is none, or below 0."""
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None:
        return None
    number, suffix = float(match[1]), match[2]
    if suffix in _BINARY:
        number *= 1024.0 ** _BINARY[suffix]
    elif suffix in _DECIMAL:
        number *= 1000.0 ** _DECIMAL[suffix]
    elif suffix[1:].lstrip("+-").isdigit():
        number *= 10.0 ** int(suffix[1:])
    else:
        return None
    return number if math.isfinite(number) else None
