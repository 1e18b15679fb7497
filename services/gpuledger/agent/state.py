"""The state of the node as the cutter needs it: at a window's start, and after each chunk of events."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeAlias

from gpuledger.agent.distinct import distinct
from gpuledger.agent.events import Events, work_of
from gpuledger.agent.holders.keepers import KEEPERS_LISTED, named
from gpuledger.agent.holders.source import Holders
from gpuledger.agent.learned import LearnedDurations
from gpuledger.agent.names import Names
from gpuledger.agent.outstanding import Outstanding
from gpuledger.agent.pending import PendingNames
from gpuledger.agent.probes.events import Resident
from gpuledger.agent.processes import ProcessTable
from gpuledger.agent.resident import ResidentMemory
from gpuledger.agent.samplers.samples import Round
from gpuledger.contract.columns import longs
from gpuledger.contract.records import Device, Header, Holdings, NodeLayout, Pod, Process


class View(NamedTuple):
    """What changes of a node besides its processes: who holds, and which devices are lost."""

    holders: Holders | None
    lost: frozenset[str] = frozenset()


class ResidentTotals(NamedTuple):
    """What the kernel itself counts as resident: bytes by (process, device)."""

    totals: dict[tuple[int, int], int]


Change: TypeAlias = View | ResidentTotals


class NodeState:
    """Devices, holders, processes, outstanding work and resident memory at one instant.

    Owned by the agent's loop. It moves forward only: by chunks of events in order of time (`apply`), ends
    of processes and changes of the view.
    """

    def __init__(self, layout: NodeLayout, processes: ProcessTable, offset_ns: int) -> None:
        self.processes = processes
        self.outstanding = Outstanding()
        self.resident = ResidentMemory()
        self.learned = LearnedDurations()
        self._layout = layout
        self._offset_ns = offset_ns
        self._contexts: dict[int, frozenset[int]] = {}
        self._ending: list[tuple[int, int]] = []  # (boot clock, process), in order of time
        self._over: set[int] = set()  # ended and settled, as long as the table knows them
        self.view = View(None)
        self._latest: Holders | None = None
        self.pending = PendingNames()
        self._positions = {device.uuid: position for position, device in enumerate(layout.devices)}

    @property
    def latest(self) -> Holders | None:
        """What is known of names by now: it may be newer than the instant that this state is of."""
        return self._latest

    @latest.setter
    def latest(self, holders: Holders | None) -> None:
        self._latest = holders
        self.processes.hold(holders)

    @property
    def device_uuids(self) -> list[str]:
        """UUIDs of the node's devices by position."""
        return [device.uuid for device in self._layout.devices]

    def position(self, uuid: str) -> int:
        """Position of a device; -1 where the node has none such."""
        return self._positions.get(uuid, -1)

    def know(self, devices: list[Device]) -> None:
        """The node has other devices from now on. What is known of those that stay is kept, but for work on
        a GPU that is divided now: that is over."""
        self._positions = {device.uuid: position for position, device in enumerate(devices)}
        before = enumerate(self.device_uuids)
        stay = {old: self._positions[uuid] for old, uuid in before if uuid in self._positions}
        places = {old: new for old, new in stay.items() if devices[new].sharing != "mig"}
        self._layout = dataclasses.replace(self._layout, devices=devices)
        self.processes.know(devices, places)
        self.processes.hold(self._latest)

        def place(process: int, device: int) -> int | None:
            """Work on a device that was not known is on the only one that the process can mean, if it is."""
            known = self.processes.device_of(process, -1) if device < 0 else places.get(device, -1)
            return None if known < 0 else known

        self.outstanding.move(place)
        self.resident.move(places)
        self._contexts = {places[d]: pids for d, pids in self._contexts.items() if d in places}

    @property
    def layout(self) -> NodeLayout:
        """The node and its devices, with sharing as the holders state it and losses as NVML does."""
        layout = self._layout
        if self.view.holders is not None:
            layout = self.view.holders.layout(layout)
        return dataclasses.replace(layout, devices=[self._with_loss(device) for device in layout.devices])

    def _with_loss(self, device: Device) -> Device:
        return dataclasses.replace(device, lost=device.uuid in self.view.lost)

    def apply(self, events: Events) -> None:
        """Advance by a chunk of events that is ordered by time."""
        work = work_of(events)
        self.learned.apply(events, work, self.outstanding.items())
        self.outstanding.apply(events, work)
        self.resident.apply(events)
        if self._over:
            for process in self._over.intersection(distinct(events["process"])[0].tolist()):
                self._end(process)  # its last calls came late: they leave nothing either

    def change(self, change: Change) -> bool:
        """From now on it is so; whether a record of the state would say anything else than before."""
        if not isinstance(change, View):
            self.resident.set_traced(change.totals)
            return True
        before = self._told()
        self.view = change
        return self._told() != before

    def _told(self) -> tuple[object, ...]:
        """What a record says of holders: a node has a hundred pods, of which some have to do with a GPU."""
        holders, known = self.view.holders, list(self.processes.all)
        if holders is None:
            return (self.view.lost,)
        pods = {one.consumer: holders.pod_of.get(one.consumer) for one in known} | {
            held.consumer: holders.pod_of.get(held.consumer) for held in holders.held
        }
        containers = [holders.container_names.get(one.container_id) for one in known]
        return self.view.lost, holders.held, holders.sharing, holders.node, pods, containers

    def note_ends(self, now_boot_ns: int) -> None:
        """Find the processes that have ended; `settle` takes what they held once their time has come."""
        self._ending += [(now_boot_ns, process) for process in self.processes.note_ends(now_boot_ns)]

    def settle(self, before_ns: int) -> None:
        """All events before that instant (agent time) are applied: of who ended by then, nothing is left."""
        due = [entry for entry in self._ending if entry[0] + self._offset_ns < before_ns]
        for _, process in due:
            self._end(process)
        if due:
            self._ending = self._ending[len(due) :]
            self._over.update(process for _, process in due)
            self._over.intersection_update(known.index for known in self.processes.all)

    def _end(self, process: int) -> None:
        self.outstanding.end(process)
        self.resident.end(process)
        self.learned.end(process)
        self._contexts = {device: pids - {process} for device, pids in self._contexts.items()}

    def take_contexts(self, taken: Round) -> None:
        """What the driver says in a round of who has a context where, without those that are gone by now."""
        for uuid, contexts in taken.contexts.items():
            pids = {pid: self.processes.of_pid(pid) for pid in contexts}
            found = {index: contexts[pid] for pid, index in pids.items() if index is not None}
            if (device := self.position(uuid)) >= 0:
                self.set_contexts(device, taken.through_ns, found)

    def set_contexts(self, device: int, at_ns: int, found: Mapping[int, int | None]) -> None:
        """Processes that the driver says have a context on the device, and their bytes where it knows."""
        self._contexts[device] = frozenset(found)
        self.processes.found_on(device, found)
        self.resident.set_driver(device, at_ns, {p: size for p, size in found.items() if size is not None})

    def resident_totals(self, counted: Iterable[Resident]) -> ResidentTotals:
        """What the kernel counts by itself, of the processes and devices that are known here."""
        totals: dict[tuple[int, int], int] = {}
        for entry in counted:
            index = self.processes.find(entry.pid, entry.start_ns)
            if index is not None and (device := self.processes.device_of(index, entry.ordinal)) >= 0:
                totals[index, device] = totals.get((index, device), 0) + entry.bytes
        return ResidentTotals(totals)

    def rebase(self, offset_ns: int) -> None:
        """Go over to another epoch's time."""
        shift = offset_ns - self._offset_ns
        self.outstanding.shift(shift)
        self.resident.shift(shift)
        self._offset_ns = offset_ns

    def describe(self, process: int) -> Process:
        """The record of a process as it is known now."""
        return self.processes.describe(process, self.names, self._offset_ns)

    @property
    def names(self) -> Names:
        """Names of pods and containers."""
        return Names(self.view.holders, self.latest)

    def nameless(self, time_ns: int) -> list[int]:
        """The processes that live at an instant and whose pod's name could be known and is not yet."""
        names = self.names
        if names.now is None and names.latest is None:
            return []
        living = self.processes.living(time_ns - self._offset_ns)
        return [known.index for known in living if known.kind == "pod" and names.pod(known.consumer) is None]

    def ended_between(self, start_ns: int, end_ns: int) -> dict[int, int]:
        """When each process ended that ended in [start, end) of agent time."""
        ended = self.processes.ended_between(start_ns - self._offset_ns, end_ns - self._offset_ns)
        return {process: at_ns + self._offset_ns for process, at_ns in ended.items()}

    def ends_before(self, end_ns: int) -> dict[int, int]:
        """When each process ended that is known still and ended before that instant (agent time)."""
        ends = ((known.index, known.ended_ns) for known in self.processes.all)
        return {i: at + self._offset_ns for i, at in ends if at is not None and at + self._offset_ns < end_ns}

    def holdings(
        self, header: Header, time_ns: int, keyframe: bool, also: AbstractSet[str] = frozenset()
    ) -> Holdings:
        """The whole state as a record that holds from ``time_ns``; ``also``: pods to name besides."""
        layout = self.layout
        holders = self.view.holders
        living = self.processes.living(time_ns - self._offset_ns)
        held = holders.records(layout.devices) if holders else []
        keepers = named(holders.keepers, {one.consumer for one in living}) if holders and not held else []
        place = {known.index: position for position, known in enumerate(living)}
        resident = [(key, size) for key, size in self.resident.items() if key[0] in place]
        outstanding = [
            (key, pending) for key, pending in self.outstanding.items() if key[0] in place and key[1] >= 0
        ]
        learned = [entry for entry in self.learned.known() if entry[0].process in place]
        unwitnessed = [
            sum(not self.processes[index].witnessed for index in self._contexts.get(device, ()))
            for device in range(len(layout.devices))
        ]
        return Holdings(
            header=header,
            time_ns=time_ns,
            layout=layout,
            keyframe=keyframe,
            holders_known=holders is not None,
            pods=self._pods({known.consumer for known in living} | also),
            holders=held,
            processes=[self.describe(known.index) for known in living],
            resident_process=longs([place[key[0]] for key, _ in resident]),
            resident_device=longs([key[1] for key, _ in resident]),
            resident_bytes=longs([size for _, size in resident]),
            outstanding_process=longs([place[key[0]] for key, _ in outstanding]),
            outstanding_device=longs([key[1] for key, _ in outstanding]),
            outstanding_since_ns=longs([pending.since_ns for _, pending in outstanding]),
            outstanding_launches=longs([pending.launches for _, pending in outstanding]),
            learned_process=longs([place[kernel.process] for kernel, _, _ in learned]),
            learned_function=longs([kernel.function for kernel, _, _ in learned]),
            learned_threads=longs([kernel.threads for kernel, _, _ in learned]),
            learned_duration_ns=longs([duration_ns for _, duration_ns, _ in learned]),
            learned_count=longs([launches for _, _, launches in learned]),
            unwitnessed=longs(unwitnessed),
            keepers=keepers[:KEEPERS_LISTED],
            keepers_count=len(keepers),
        )

    def _pods(self, consumers: set[str]) -> list[Pod]:
        """Pods that hold a device or whose processes use one."""
        names, holders = self.names, self.view.holders
        wanted = consumers | ({held.consumer for held in holders.held} if holders else set())
        return [pod for uid in sorted(wanted) if (pod := names.pod(uid)) is not None]
