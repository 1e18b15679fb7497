"""The devices that a process's environment says it sees, in the order in which the process counts them.

CUDA programming guide, environment variables: CUDA_VISIBLE_DEVICES is a list of indices or of UUIDs, each a
prefix that only one device has; it is cut at the first entry that names no device, or one a second time.
Indices count in the order of CUDA_DEVICE_ORDER, whose default puts the fastest first by a rule that is
nowhere said. MIG user guide: a process sees one instance, whatever is listed; a GPU in MIG mode is not seen
itself. NVIDIA container toolkit: NVIDIA_VISIBLE_DEVICES says which devices a container is given, GPU:N being
instance N of a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from gpuledger.agent.devices import parse_device_id
from gpuledger.contract.records import Device

ENVIRONMENT_NAMES = frozenset({b"NVIDIA_VISIBLE_DEVICES", b"CUDA_VISIBLE_DEVICES", b"CUDA_DEVICE_ORDER"})
"""All that is ever taken from a process's environment, which may hold secrets."""

_WHOLE_NODE = frozenset({"", "all", "void", "none"})
"""Values of NVIDIA_VISIBLE_DEVICES that do not list devices: with CDI the toolkit writes void."""
_BY_BUS: Final = "PCI_BUS_ID"
_INDEX: Final = re.compile("[0-9]{1,4}")  # no node has more
_INSTANCE_NUMBER: Final = re.compile("([0-9]{1,4}):([0-9]{1,4})")
MAX_LISTED: Final = 1024  # entries of a list that are read: a variable may be a megabyte long


class Visible(NamedTuple):
    """Positions among the node's devices by the process's ordinals; not ``sure`` if the order is a guess."""

    positions: list[int]
    sure: bool = True


def visible_devices(
    devices: Sequence[Device],
    environment: Mapping[str, str],
    in_container: bool,
    minors: Collection[int] = (),
) -> Visible:
    """What the environment says that the process sees.

    ``minors``: device nodes (/dev/nvidiaN) in its mount namespace, empty where that is not known. This is the
    environment at the start of the program, and the process's own word: see `gpuledger.agent.sight`.
    """
    given = _given(devices, environment.get("NVIDIA_VISIBLE_DEVICES", ""), in_container, minors)
    order, alike = _enumerated(devices, given, environment.get("CUDA_DEVICE_ORDER", ""))
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return Visible(order, alike or len(order) < 2)
    found: list[int] = []
    sure = True
    for entry in _entries(chosen):
        position = _named(devices, given, order, entry)
        if position is None or position in found:
            break
        sure = sure and (alike or not _INDEX.fullmatch(entry))
        found.append(position)
    return Visible(_one_instance(devices, found), sure)


def _given(devices: Sequence[Device], text: str, in_container: bool, minors: Collection[int]) -> list[int]:
    """What the process can reach: GPUs that are not divided, and instances."""
    there = [position for position, device in enumerate(devices) if device.sharing != "mig"]
    if in_container and text not in _WHOLE_NODE:
        listed = {position for entry in _entries(text) for position in _given_by(devices, there, entry)}
        return sorted(listed) or there
    if minors:
        return [position for position in there if devices[position].minor in minors] or there
    return there


def _given_by(devices: Sequence[Device], there: Sequence[int], entry: str) -> list[int]:
    number = _INSTANCE_NUMBER.fullmatch(entry)
    if number is not None:
        instances = [p for p in there if devices[p].parent_uuid and devices[p].index == int(number[1])]
        return instances[int(number[2]) : int(number[2]) + 1]
    if _INDEX.fullmatch(entry):
        return [position for position in there if devices[position].index == int(entry)]
    return _by_uuid(devices, there, entry)


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",", MAX_LISTED)[:MAX_LISTED]]


def _enumerated(devices: Sequence[Device], given: Sequence[int], order: str) -> tuple[list[int], bool]:
    """(positions in the order in which CUDA counts them, whether that order is certain)."""
    whole = [position for position in given if not devices[position].parent_uuid]
    instances = [position for position in given if devices[position].parent_uuid]
    alike = order == _BY_BUS or len({(devices[p].model, devices[p].sm_count) for p in whole}) < 2
    if not alike:
        whole.sort(key=lambda position: -devices[position].sm_count)
    return whole + instances[:1], alike


def _named(devices: Sequence[Device], given: Sequence[int], order: Sequence[int], entry: str) -> int | None:
    if _INDEX.fullmatch(entry):
        return order[int(entry)] if int(entry) < len(order) else None
    matches = _by_uuid(devices, given, entry)
    divided = {devices[position].parent_uuid for position in matches}
    if len(matches) > 1 and (entry.startswith("MIG-") or divided == {""} or len(divided) > 1):
        return None
    return matches[0] if matches else None


def _by_uuid(devices: Sequence[Device], given: Sequence[int], entry: str) -> list[int]:
    """Devices whose UUID begins so, whatever the case; of a divided GPU its instances."""
    before_r470 = parse_device_id("", entry)
    if before_r470.gpu_instance is not None and before_r470.uuid is not None:
        named = (before_r470.uuid, before_r470.gpu_instance, before_r470.compute_instance)
        return [
            position
            for position in given
            if (d := devices[position]) and (d.parent_uuid, d.gpu_instance, d.compute_instance) == named
        ]
    if not entry.startswith(("GPU-", "MIG-")):
        return []
    wanted = entry.lower()
    found = [position for position in given if devices[position].uuid.lower().startswith(wanted)]
    return found or [
        position for position in given if devices[position].parent_uuid.lower().startswith(wanted)
    ]


def _one_instance(devices: Sequence[Device], found: Sequence[int]) -> list[int]:
    """Of the instances only the first that is named is seen."""
    instances = [position for position in found if devices[position].parent_uuid]
    return [position for position in found if position not in instances[1:]]
