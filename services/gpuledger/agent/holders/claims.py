"""Devices of resource claims (dynamic resource allocation): from a pool's device to NVML's.

ResourceSlices say a device's uuid, or for a MIG instance that is made only when it is asked for, its GPU's
uuid and its profile. Where no slice is known, the NVIDIA driver's own names say which it is (deviceinfo.go):
gpu-<minor>, for a static MIG instance gpu-<minor>-mig-<profile's id>-<first slot>-<slots>, for a dynamic one
gpu-<minor>-mig-<profile>-<profile's id>-<first slot>. NVML says who lies on those slots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuledger.agent.devices import DeviceRef, parse_device_id
from gpuledger.agent.holders.claim_status import amounts
from gpuledger.agent.holders.podresources import ClaimDevice
from gpuledger.agent.holders.source import NOT_PLACED, InstanceRef

DRIVER_DOMAIN = "nvidia.com"
_STATIC = re.compile(r"gpu-([0-9]{1,4})-mig-[0-9]{1,4}-([0-9]{1,3})-([0-9]{1,3})")
_DYNAMIC = re.compile(
    r"gpu-([0-9]{1,4})-mig-([0-9]{1,2}g[0-9a-z]*(?:-[a-z]{1,16}){0,4})-[0-9]{1,4}-([0-9]{1,3})"
)


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """A device as its ResourceSlice describes it; empty where it does not say. ``capacities``: amounts by
    name without its domain."""

    uuid: str = ""
    parent_uuid: str = ""
    profile: str = ""
    capacities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimTarget:
    """The device that a claim means: ``ref``, or with an ``instance`` that one on it."""

    ref: DeviceRef
    instance: InstanceRef | None = None


Slices = Mapping[tuple[str, str, str], SliceDevice]
"""By (driver, pool, device)."""


def slice_devices(slice_: Mapping[str, Any]) -> dict[tuple[str, str, str], SliceDevice]:
    """The devices of a ResourceSlice given as JSON, of API versions v1 and v1beta1 alike."""
    spec = slice_.get("spec") or {}
    driver, pool = str(spec.get("driver") or ""), str((spec.get("pool") or {}).get("name") or "")
    found = {}
    for device in spec.get("devices") or ():
        before = device.get("basic") or {}  # as v1beta1 nests it
        attributes = device.get("attributes") or before.get("attributes") or {}
        capacity = device.get("capacity") or before.get("capacity") or {}
        texts = {name.rpartition("/")[2]: _text(value) for name, value in attributes.items()}
        found[driver, pool, str(device.get("name") or "")] = SliceDevice(
            texts.get("uuid", ""),
            texts.get("parentUUID", ""),
            texts.get("profile", ""),
            amounts({name: value.get("value") for name, value in capacity.items()}),
        )
    return found


def target_of(claim: ClaimDevice, slices: Slices) -> ClaimTarget | None:
    """The device that a claim's device is; None where nothing says it. Of other drivers than NVIDIA's (HAMi's
    is one) only a uuid of NVML's form says it: names such as gpu-0 those of other vendors have as well."""
    known = slices.get((claim.driver, claim.pool, claim.device))
    if known is not None and (ref := parse_device_id(claim.driver, known.uuid)).uuid is not None:
        return ClaimTarget(ref)
    if not (claim.driver == DRIVER_DOMAIN or claim.driver.endswith(f".{DRIVER_DOMAIN}")):
        return None
    static, dynamic = _STATIC.fullmatch(claim.device), _DYNAMIC.fullmatch(claim.device)
    named = static or dynamic
    if known is not None and known.parent_uuid and known.profile:
        start = int(dynamic[3]) if dynamic is not None else NOT_PLACED
        return ClaimTarget(DeviceRef(uuid=known.parent_uuid), InstanceRef(known.profile, start))
    if named is not None:
        instance = (
            InstanceRef("", int(static[2]), int(static[3]))
            if static is not None
            else InstanceRef(named[2], int(named[3]))
        )
        return ClaimTarget(DeviceRef(index=int(named[1])), instance)
    ref = parse_device_id(claim.driver, claim.device)
    return None if ref == DeviceRef() else ClaimTarget(ref)


def _text(value: Any) -> str:
    return str(value.get("string") or "") if isinstance(value, dict) else ""
