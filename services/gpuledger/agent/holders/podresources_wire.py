"""The kubelet's answers as they lie on the wire: protobuf's encoding of the messages in podresources.proto.

Read by hand, for protobuf's library takes 2 MB of each agent. An answer is asked for each second and is
nearly always the one before, pod by pod: what a pod's bytes say is kept with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES: Final = 10

Devices: TypeAlias = tuple[tuple[str, str], ...]
"""(resource name, device id) of each device."""


@dataclass(frozen=True, slots=True)
class ClaimDevice:
    """A device of a resource claim (dynamic resource allocation), by its place in a pool."""

    claim: str
    """namespace/name of the claim."""
    driver: str
    pool: str
    device: str
    share: str = ""
    """Which share of a device that several claims have (consumable capacity); empty where it has it whole."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one container of a pod was given. The kubelet says neither uid nor phase nor container id."""

    namespace: str
    pod: str
    container: str
    devices: Devices = ()
    """(resource name, device id) of each device."""
    claims: tuple[ClaimDevice, ...] = ()


class ListingReader:
    """Reads one ListPodResourcesResponse after another. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Allocation, ...]] = {}

    def read(self, answer: bytes) -> tuple[Allocation, ...]:
        """Every container that has devices. Raises ValueError where the bytes are no such message."""
        known, self._known = self._known, {}
        for pod in _all(answer, 1):
            self._known[pod] = known[pod] if pod in known else tuple(_of_pod(pod))
        return tuple(one for pod in _all(answer, 1) for one in self._known[pod])


def read_devices(answer: bytes) -> Devices:
    """What an AllocatableResourcesResponse says. Raises ValueError where the bytes are no such message."""
    return tuple(_devices(answer, 1))


def _of_pod(pod: bytes) -> Iterator[Allocation]:
    name, namespace = _text(pod, 1), _text(pod, 2)
    for container in _all(pod, 3):
        if any(True for number in (2, 5) for _ in _all(container, number)):
            devices, claims = tuple(_devices(container, 2)), tuple(_claims(container))
            yield Allocation(namespace, name, _text(container, 1), devices, claims)


def _devices(message: bytes, number: int) -> Iterator[tuple[str, str]]:
    for entry in _all(message, number):
        resource = _text(entry, 1)
        for device in _all(entry, 2):
            yield resource, device.decode()


def _claims(container: bytes) -> Iterator[ClaimDevice]:
    for claim in _all(container, 5):
        name = f"{_text(claim, 3)}/{_text(claim, 2)}"
        for resource in _all(claim, 4):
            yield ClaimDevice(name, *(_text(resource, number) for number in (2, 3, 4, 5)))


def _text(message: bytes, number: int) -> str:
    """The field as text; of several the last one, of none "", as protobuf has it."""
    *_, value = b"", *_all(message, number)
    return value.decode()


def _all(message: bytes, number: int) -> Iterator[bytes]:
    """The values of a field of strings or messages, in order."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise ValueError(f"wire type {kind} at byte {at}")
        if at + size > len(message):
            raise ValueError(f"a field ends {at + size - len(message)} bytes behind its message")
        if kind == _BYTES and key >> 3 == number:
            yield message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """(the number, where it ends)."""
    value = 0
    for place in range(_MAX_VARINT_BYTES):
        if at >= len(message):
            raise ValueError("a number ends behind its message")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at
    raise ValueError(f"a number of more than {_MAX_VARINT_BYTES} bytes")
