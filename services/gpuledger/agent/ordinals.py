"""From the ordinal by which a process counts its devices to the device of the node.

CUDA programming guide, environment variables: CUDA_VISIBLE_DEVICES is a list of indices or of UUIDs, each a
prefix that only one device has; it is cut at the first entry that names no device, or one a second time.
NVIDIA container toolkit: NVIDIA_VISIBLE_DEVICES says which devices a container is given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gpuledger.contract.records import Device

ENVIRONMENT_NAMES = frozenset({b"NVIDIA_VISIBLE_DEVICES", b"CUDA_VISIBLE_DEVICES"})
"""All that is ever taken from a process's environment, which may hold secrets."""

_WHOLE_NODE = frozenset({"", "all", "void", "none"})
"""Values of NVIDIA_VISIBLE_DEVICES that do not list devices: with CDI the toolkit writes void."""


def visible_devices(
    devices: Sequence[Device],
    environment: Mapping[str, str],
    in_container: bool,
    minors: Collection[int] = (),
) -> list[int]:
    """Positions in ``devices`` of what the process sees, by its ordinals.

    ``minors``: device nodes (/dev/nvidiaN) in its mount namespace, empty where that is not known.
    What the process says here maps an ordinal to a device; it never decides who pays.
    """
    base = [position for position, device in enumerate(devices) if device.sharing != "mig"]
    given = environment.get("NVIDIA_VISIBLE_DEVICES", "")
    if in_container and given not in _WHOLE_NODE:
        base = sorted(_listed(devices, base, given)) or base
    elif minors:
        base = [position for position in base if devices[position].minor in minors] or base
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    return base if chosen is None else _listed(devices, base, chosen)


def _listed(devices: Sequence[Device], base: Sequence[int], text: str) -> list[int]:
    found: list[int] = []
    for entry in text.split(","):
        position = _named(devices, base, entry.strip())
        if position is None or position in found:
            break
        found.append(position)
    return found


def _named(devices: Sequence[Device], base: Sequence[int], entry: str) -> int | None:
    if entry.isascii() and entry.isdigit():
        return base[int(entry)] if int(entry) < len(base) else None
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    matches = [position for position in base if devices[position].uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None
