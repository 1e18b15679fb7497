"""Which device each ordinal of one process is, from all that is known of it, the hardest fact first.

1. What the driver knows: the devices that the process registered with it; else those whose device nodes it
   has open. What is not among them can not be meant. Else, where the cluster says what its consumer holds,
   nothing can be meant but that and devices on which NVML lists the process.
2. What the library answered when the process asked for an ordinal's UUID.
3. Its environment, which is the process's own word at the start of its program: it may have been changed
   since (setenv), and the order of unlike devices is a guess. It counts where nothing harder says otherwise,
   and not at all once one fact refutes it.

What can not be told is unknown. Each of it is about the device that work counts to; who pays is the cgroup's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from typing import Final, NamedTuple

from gpuledger.agent.events import UNKNOWN_DEVICE
from gpuledger.agent.ordinals import Visible

MAX_ORDINAL: Final = 63  # no node has more devices, MIG instances of one process included
_NOTHING: Final[frozenset[int]] = frozenset()


class Doubt(StrEnum):
    """Why the devices of a process are less certain than they could be."""

    ENVIRONMENT = "environment"
    """A fact says otherwise than its environment."""
    LIBRARY = "library"
    """The library named a device that the process can not use, or that the node does not have."""
    ORDER = "order"
    """Indices among unlike devices without CUDA_DEVICE_ORDER=PCI_BUS_ID."""
    UNREAD = "unread"
    """What it says of itself could not be made sense of."""


class Seen(NamedTuple):
    """Devices by ordinal: ``devices[0]`` of an unknown one, ``devices[1 + n]`` of ordinal n; -1 unknown."""

    devices: tuple[int, ...]
    doubts: frozenset[Doubt]


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known of the devices of one process, as positions among the node's; empty where not known."""

    there: frozenset[int]
    """Every device of the node on which work can be."""
    visible: Visible | None = None
    """What its environment says; None where that was gone before it was read."""
    told: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """ordinal -> the devices that the answer can mean: several where it names a divided GPU."""
    registered: tuple[frozenset[int], ...] = ()
    """For each registration the devices that it can mean."""
    opened: frozenset[int] = _NOTHING
    contexts: frozenset[int] = _NOTHING
    held: frozenset[int] = _NOTHING
    unread: bool = False

    def seen(self) -> Seen:
        """The device of each ordinal."""
        reach, environment = self._reach(), self._environment()
        doubts = {Doubt.UNREAD} if self.unread else set[Doubt]()
        believed = environment is not None and not self._refuted(environment, reach)
        if environment is not None and not believed:
            doubts.add(Doubt.ENVIRONMENT)
        if any(not devices & reach for devices in self.told.values()):
            doubts.add(Doubt.LIBRARY)
        if (
            believed
            and self.visible is not None
            and not self.visible.sure
            and len(self.told) < len(environment or ())
        ):
            doubts.add(Doubt.ORDER)
        listed = (environment or []) if believed else []
        last = max([len(listed) - 1, *self.told, MAX_ORDINAL if len(reach) == 1 else -1])
        by_ordinal = [self._of(ordinal, reach, listed) for ordinal in range(min(last, MAX_ORDINAL) + 1)]
        return Seen((self._unnamed(reach, listed), *by_ordinal), frozenset(doubts))

    def _reach(self) -> frozenset[int]:
        """What the process can mean at all."""
        if self.registered:
            return _union(self.registered)
        if self.opened:
            return self.opened
        return self.held | self.contexts if self.held else self.there

    def _environment(self) -> list[int] | None:
        return None if self.visible is None else self.visible.positions

    def _refuted(self, environment: list[int], reach: frozenset[int]) -> bool:
        """Whether a fact says otherwise than the environment."""
        listed = frozenset(environment)
        proven = [
            devices for devices in (*self.registered, *({d} for d in self.contexts)) if not listed & devices
        ]
        told = any(n >= len(environment) or environment[n] not in self.told[n] for n in self.told)
        return bool(proven) or told or (bool(listed) and not listed & reach)

    def _of(self, ordinal: int, reach: frozenset[int], environment: list[int]) -> int:
        said = environment[ordinal] if ordinal < len(environment) else UNKNOWN_DEVICE
        possible = self.told.get(ordinal, reach) & reach
        if not possible:  # the library's word against the driver's, which has one device or several
            return _sole(reach) if self.registered else UNKNOWN_DEVICE
        if len(possible) == 1:
            return _sole(possible)
        if ordinal in self.told and (narrowed := _sole(possible & self.contexts)) != UNKNOWN_DEVICE:
            return narrowed
        return said if said in possible else UNKNOWN_DEVICE

    def _unnamed(self, reach: frozenset[int], environment: list[int]) -> int:
        """The device of a call whose ordinal is not known: that of a process which has one only."""
        if len(reach) == 1:
            return _sole(reach)
        if not self.registered and len(self.contexts) == 1:
            return _sole(self.contexts)
        return _sole(reach & frozenset(environment)) if environment else UNKNOWN_DEVICE


def _sole(devices: Iterable[int]) -> int:
    """The one device of a set of one."""
    found = list(devices)
    return found[0] if len(found) == 1 else UNKNOWN_DEVICE


def _union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return reduce(frozenset.union, sets, _NOTHING)
