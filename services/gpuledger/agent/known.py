"""A process in the agent's table, and the devices that its ordinals are."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from gpuledger.agent import metrics
from gpuledger.agent.events import UNKNOWN_DEVICE
from gpuledger.agent.evidence import Facts
from gpuledger.agent.ordinals import Visible
from gpuledger.agent.sight import MAX_ORDINAL, Doubt, Seen, Sight
from gpuledger.contract.columns import Longs
from gpuledger.contract.records import Device

_UNSEEN: Final = Seen((UNKNOWN_DEVICE,), frozenset())
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Known:
    """A process in the table; start and end in ns of the boot clock."""

    index: int
    pid: int
    start_ns: int
    cgroup_id: int
    name: str
    kind: str
    consumer: str
    container_id: str
    sight: Sight
    seen: Seen = _UNSEEN
    """What ``sight`` amounts to."""
    ended_ns: int | None = None
    traced: bool = False
    """Whether an event of it was seen."""
    witnessed: bool = True
    serves: bool = False
    """Whether it is the MPS server, through which the driver runs its clients' work: never a consumer."""
    doubts: set[Doubt] = field(default_factory=set)
    """Those that were said."""


class Sights:
    """Makes and renews what is known of each process's devices, and says what is doubtful, once a process."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = devices
        self._there = frozenset(p for p, device in enumerate(devices) if device.sharing != "mig")
        self._held: dict[str, frozenset[int]] = {}

    def begin(self, visible: Visible | None, opened: Collection[int], consumer: str, facts: Facts) -> Sight:
        """What is known of a process that was not known before."""
        return Sight(
            there=self._there,
            visible=visible,
            told=facts.told,
            registered=tuple(facts.registered.values()),
            opened=self.with_minors(opened),
            held=self._held.get(consumer, frozenset()),
        )

    def with_minors(self, minors: Collection[int]) -> frozenset[int]:
        """Devices by the minor numbers of their nodes; the instances of a divided GPU share its node."""
        return frozenset(p for p in self._there if self._devices[p].minor in minors)

    def hold(self, held: Iterable[tuple[str, int]], processes: Iterable[Known]) -> None:
        """Who holds what, as (consumer, device), by now."""
        before, self._held = self._held, {}
        for consumer, device in held:
            self._held[consumer] = self._held.get(consumer, frozenset()) | {device}
        if self._held != before:
            for known in processes:
                holds = self._held.get(known.consumer, frozenset())
                if holds != known.sight.held:
                    self.renew(known, replace(known.sight, held=holds))

    def renew(self, known: Known, sight: Sight) -> None:
        """From now on that is known of it."""
        if sight == known.sight and known.seen is not _UNSEEN:
            return
        known.sight, known.seen = sight, sight.seen()
        for doubt in known.seen.doubts - known.doubts:
            known.doubts.add(doubt)
            metrics.DEVICE_DOUBTS.labels(doubt).inc()
            _log.warning("devices of process %d (%s) are doubtful: %s", known.pid, known.consumer, doubt)


def columns(ordinals: Iterable[int]) -> Longs:
    """Column of each ordinal in `device_table`."""
    numbers = np.asarray(ordinals, np.int64)
    return np.where((numbers < 0) | (numbers > MAX_ORDINAL), 0, numbers + 1)


def device_table(processes: Sequence[Known]) -> Longs:
    """For each process (row): the device of an unknown ordinal, then of ordinals 0, 1, ...; -1 unknown."""
    table = np.full((len(processes), MAX_ORDINAL + 2), UNKNOWN_DEVICE, np.int64)
    for row, known in enumerate(processes):
        table[row, : len(known.seen.devices)] = known.seen.devices
    return table
