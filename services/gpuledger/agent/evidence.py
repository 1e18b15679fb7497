"""What processes were told of their devices, and which they registered with the driver, by process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from gpuledger.agent.probes.driver import GpuRegistration
from gpuledger.agent.probes.events import DeviceUuid
from gpuledger.contract.records import Device

MAX_WAITING: Final = (
    4096  # processes of which something is known and no call was seen yet; the oldest go first
)


class Witness(Protocol):
    """Who saw what processes were told. Of the living it is always told, of the dead once."""

    def device_uuids(self) -> list[DeviceUuid]:
        """Answers of the CUDA library."""

    def registrations(self) -> list[GpuRegistration]:
        """Registrations with the driver."""


@dataclass(slots=True)
class Facts:
    """Of one process: ordinal -> devices it can mean, and for each registration the same."""

    told: dict[int, frozenset[int]] = field(default_factory=dict)
    registered: dict[str, frozenset[int]] = field(default_factory=dict)


class DeviceEvidence:
    """Facts by (pid, start), as positions among ``devices``; ``tick_ns`` is the grain of starts."""

    def __init__(self, devices: Sequence[Device], tick_ns: int) -> None:
        self._tick_ns = tick_ns
        self._instances: dict[str, set[int]] = {}
        self._named: dict[str, set[int]] = {}
        for position, device in enumerate(devices):
            self._named.setdefault(_digits(device.uuid), set()).add(position)
            if device.parent_uuid:
                self._instances.setdefault(_digits(device.parent_uuid), set()).add(position)
        self._facts: dict[tuple[int, int], Facts] = {}

    def learn(self, witness: Witness) -> set[tuple[int, int]]:
        """Ask again; (pid, tick of the start) of each process of which something else is known now."""
        changed: set[tuple[int, int]] = set()
        # by exec one program may follow another under one pid and start: the dead one speaks first
        for told in sorted(witness.device_uuids(), key=lambda one: one.alive):
            key = (told.pid, told.start_ns // self._tick_ns)
            meant = self._meant(told.uuid)
            facts = self._of(key)
            if facts.told.get(told.ordinal) != meant:
                facts.told[told.ordinal] = meant
                changed.add(key)
        for registration in witness.registrations():
            key = (registration.pid, registration.start_ns // self._tick_ns)
            meant = self._meant(registration.uuid, registration.mig)
            facts = self._of(key)
            if meant and facts.registered.get(registration.uuid) != meant:
                facts.registered[registration.uuid] = meant
                changed.add(key)
        return changed

    def of(self, pid: int, start_ns: int) -> Facts:
        """What is known of a process; nothing where it is not known."""
        return self._facts.get((pid, start_ns // self._tick_ns), Facts())

    def forget(self, keys: Iterable[tuple[int, int]]) -> None:
        """Nobody will ask for these processes (pid, start in ns) again."""
        for pid, start_ns in keys:
            self._facts.pop((pid, start_ns // self._tick_ns), None)

    def _of(self, key: tuple[int, int]) -> Facts:
        if key not in self._facts and len(self._facts) >= MAX_WAITING:
            del self._facts[next(iter(self._facts))]
        return self._facts.setdefault(key, Facts())

    def _meant(self, uuid: str, mig: bool = False) -> frozenset[int]:
        """A divided GPU means its instances: the library's first call of that name and the driver name it."""
        digits = _digits(uuid)
        instances = self._instances.get(digits, set())
        return frozenset(instances if mig or instances else self._named.get(digits, ()))


def _digits(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")
