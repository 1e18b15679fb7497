"""The processes that use the node's GPUs, and the consumer that the kernel says each belongs to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpuledger.agent.asking import Asking
from gpuledger.agent.consumers import IN_CONTAINER, consumer_of_process
from gpuledger.agent.distinct import distinct, first_rows
from gpuledger.agent.events import Events, OperationSet
from gpuledger.agent.evidence import DeviceEvidence, Witness
from gpuledger.agent.holders.source import Holders
from gpuledger.agent.kernel_events import agent_events, lives
from gpuledger.agent.known import Known, Sights, columns, device_table
from gpuledger.agent.names import Names
from gpuledger.agent.ordinals import visible_devices
from gpuledger.agent.probes.events import RawEvents
from gpuledger.agent.process_reader import ProcessFacts, ProcessReader
from gpuledger.agent.sight import Sight
from gpuledger.contract.operations import LAUNCHES, Operation
from gpuledger.contract.records import Device, Process

_TELLS_DEVICES = OperationSet(
    (Operation.CREATE_CONTEXT, Operation.RETAIN_PRIMARY_CONTEXT, Operation.IOCTL_UVM_REGISTER_GPU)
)
"""Before these, or by these, a process learns or says which devices it has."""
MPS_SERVER = "nvidia-cuda-mps-server"
FORGET_AFTER_NS = 120_000_000_000  # events of an ended process may lie in two windows of a minute at most


class ProcessTable:
    """Processes by (pid, start, cgroup); an index stays the same process's until it is long gone."""

    def __init__(
        self,
        reader: ProcessReader,
        devices: Sequence[Device],
        boot: str,
        witness: Witness | None = None,
        whole: bool = True,
    ) -> None:
        """``whole``: calls are seen with all that there is to say of them."""
        self._whole = whole
        self._reader = reader
        self._devices = devices
        self._witness = witness
        self._evidence = DeviceEvidence(devices, reader.tick_ns)
        self._sights = Sights(devices)
        self._boot = boot
        self._probed: frozenset[tuple[int, int]] = frozenset()
        self._next = 0
        self._known: dict[int, Known] = {}
        self._by_key: dict[tuple[int, int, int], int] = {}
        self._living: dict[int, list[int]] = {}  # pid -> indexes; several when it changed its cgroup
        self._asking = Asking()

    def __getitem__(self, index: int) -> Known:
        return self._known[index]

    @property
    def all(self) -> Collection[Known]:
        """Every process that is not forgotten."""
        return self._known.values()

    def living(self, boot_ns: int) -> list[Known]:
        """Those that lived at ``boot_ns``, by index."""
        return [
            known
            for known in self._known.values()
            if known.start_ns <= boot_ns
            and (known.ended_ns is None or known.ended_ns > boot_ns)
            and not known.serves
        ]

    def _alive(self) -> Iterator[Known]:
        return (self._known[index] for indexes in self._living.values() for index in indexes)

    def ended_between(self, start_ns: int, end_ns: int) -> dict[int, int]:
        """When each ended, of those that ended in [start, end) of the boot clock."""
        return {
            known.index: known.ended_ns
            for known in self._known.values()
            if known.ended_ns is not None and start_ns <= known.ended_ns < end_ns
        }

    def resolve(self, raw: RawEvents, offset_ns: int) -> Events:
        """The kernel's events in agent time, each with its process and device; in the order given."""
        events = agent_events(raw, offset_ns)
        if not len(raw):
            return events
        keys, inverse = distinct(lives(raw))
        before = self._next
        found = [self._of_event(raw[row]) for row in first_rows(inverse, len(keys))]
        for position in np.flatnonzero([known.serves for known in found]):
            if np.isin(raw["operation"][inverse == position], list(LAUNCHES)).any():
                found[position].serves = False  # whatever it is called, it works for itself
        if self._next != before or _TELLS_DEVICES.of(raw["operation"]).any():
            self.ask()
        events["process"] = np.array([known.index for known in found], np.int64)[inverse]
        events["device"] = device_table(found)[inverse, columns(raw["ordinal"])]
        return events

    def of_pid(self, pid: int) -> int | None:
        """The living process with that pid, as the driver names it; None where it is gone, or is the MPS
        server: what NVML says of that, its clients did."""
        for index in self._living.get(pid, ()):
            return None if self._known[index].serves else index
        facts = self._look(pid)
        tick = None if facts is None else self._tick(facts.start_ns)
        if facts is None or any(one.pid == pid and self._tick(one.start_ns) == tick for one in self.all):
            return None  # gone; or ended, and its parent has not reaped it yet
        known = self._add(pid, facts.start_ns, facts.cgroup_id, facts)
        known.witnessed = known.traced or self._is_probed(pid)  # its first calls may not have been read yet
        return None if known.serves else known.index

    def device_of(self, index: int, ordinal: int) -> int:
        """Position of the device that the process counts as ``ordinal``; -1 where not known."""
        return int(device_table([self._known[index]])[0, columns(np.array([ordinal]))[0]])

    def ask(self) -> None:
        """Ask what processes were told of their devices by now, and which they registered."""
        if self._witness is None:
            return
        for pid, tick in self._evidence.learn(self._witness):
            for known in self._known.values():
                if known.pid == pid and self._tick(known.start_ns) == tick:
                    facts = self._evidence.of(pid, known.start_ns)
                    registered = tuple(facts.registered.values())
                    self._sights.renew(
                        known, replace(known.sight, told=dict(facts.told), registered=registered)
                    )

    def hold(self, holders: Holders | None) -> None:
        """Who holds what, as far as it says which device work can be on."""
        held = holders.records(list(self._devices)) if holders else []
        self._sights.hold([(one.consumer, one.device) for one in held], self._known.values())

    def found_on(self, device: int, indexes: Collection[int]) -> None:
        """The driver says which processes have a context on the device."""
        for known in self._alive():
            if (known.index in indexes) != (device in known.sight.contexts):
                self._sights.renew(known, replace(known.sight, contexts=known.sight.contexts ^ {device}))

    def find(self, pid: int, start_ns: int) -> int | None:
        """The living process with that pid and start (0: any), where it is in the table."""
        for index in self._living.get(pid, ()):
            if not start_ns or self._tick(start_ns) == self._tick(self._known[index].start_ns):
                return index
        return None

    def witness(self, probed: Collection[tuple[int, int]]) -> None:
        """Say of the living whose calls were not seen whether they would be: whether probes are on every
        libcuda that they have mapped. ``probed``: (device, inode) of the files with probes."""
        self.ask()
        self._probed = frozenset(probed)
        for pid, indexes in self._living.items():
            if any(self._known[index].doubts and self._known[index].sight.opened for index in indexes):
                self._look_again(pid, indexes)
            silent = [index for index in indexes if not self._known[index].traced]
            if silent:
                witnessed = self._is_probed(pid)
                for index in silent:
                    self._known[index].witnessed = witnessed

    def _is_probed(self, pid: int) -> bool:
        files = self._asking(pid, lambda: self._reader.libraries(pid)) or frozenset()
        return bool(files) and files <= self._probed

    def note_ends(self, now_boot_ns: int) -> list[int]:
        """Mark the processes that ended since the last call; forget those that ended long ago."""
        pids = self._reader.ended()
        self._asking.forget(pids)
        ended = [i for pid in pids for i in self._living.pop(pid, ())]
        for index in ended:
            self._known[index].ended_ns = now_boot_ns
        if ended:
            self._forget(now_boot_ns - FORGET_AFTER_NS)
        return ended

    def describe(self, index: int, names: Names, offset_ns: int) -> Process:
        """The record of a process; times in agent time of the epoch with that offset."""
        known = self._known[index]
        return Process(
            pid=known.pid,
            started_ns=self._tick(known.start_ns) * self._reader.tick_ns + offset_ns if known.start_ns else 0,
            ended_ns=None if known.ended_ns is None else known.ended_ns + offset_ns,
            cgroup_id=known.cgroup_id,
            consumer_kind=known.kind,
            consumer=known.consumer,
            container_id=known.container_id,
            container=names.container(known.container_id),
            name=known.name,
            pending=known.kind == "pod" and names.pod(known.consumer) is None,
            # whose work may count to another device is not seen whole on any
            witnessed=self._whole and known.witnessed and not known.seen.doubts,
        )

    def _of_event(self, row: np.void) -> Known:
        pid, start_ns, cgroup_id = int(row["pid"]), int(row["start_ns"]), int(row["cgroup_id"])
        index = self._by_key.get((pid, self._tick(start_ns), cgroup_id))
        if index is not None and (start_ns or self._known[index].ended_ns is None):
            known = self._known[index]
        else:
            facts = self._look(pid)
            if facts is not None and start_ns and self._tick(facts.start_ns) != self._tick(start_ns):
                facts = None  # the pid is another process's by now
            known = self._add(pid, start_ns or (facts.start_ns if facts else 0), cgroup_id, facts)
            self._by_key[pid, self._tick(start_ns), cgroup_id] = known.index
        known.traced = known.witnessed = True
        return known

    def _add(self, pid: int, start_ns: int, cgroup_id: int, facts: ProcessFacts | None) -> Known:
        key = (pid, self._tick(start_ns), cgroup_id)
        if key in self._by_key and self._known[self._by_key[key]].ended_ns is None:
            return self._known[self._by_key[key]]
        cgroup1 = facts.cgroup1_paths if facts is not None else ()
        kind, consumer, container = self._consumer(pid, start_ns, cgroup_id, cgroup1)
        sight = self._begin_sight(pid, start_ns, kind, consumer, facts)
        known = Known(
            index=self._next,
            pid=pid,
            start_ns=start_ns,
            cgroup_id=cgroup_id,
            name=facts.name if facts else "",
            kind=kind,
            consumer=consumer,
            container_id=container,
            sight=sight,
            witnessed=False,
            # one that runs inside a holder's own pod works for that pod
            serves=facts is not None and facts.program == MPS_SERVER and not sight.held,
        )
        self._sights.renew(known, sight)
        self._next += 1
        self._known[known.index] = known
        self._by_key[key] = known.index
        self._living.setdefault(pid, []).append(known.index)
        self._reader.watch(pid)
        return known

    def _begin_sight(
        self, pid: int, start_ns: int, kind: str, consumer: str, facts: ProcessFacts | None
    ) -> Sight:
        visible = None
        if facts is not None:
            said, inside, minors = facts.environment, kind in IN_CONTAINER, facts.minors
            visible = self._asking(pid, lambda: visible_devices(self._devices, said, inside, minors))
        told = self._evidence.of(pid, start_ns)
        sight = self._sights.begin(visible, facts.opened if facts else (), consumer, told)
        return replace(sight, unread=self._asking.take_unread(pid))

    def know(self, devices: Sequence[Device], places: Mapping[int, int]) -> None:
        """The node has other devices now. ``places``: position before -> position now, of those that stay.
        Who holds what has to be told again (`hold`)."""
        self._devices = devices
        self._evidence = DeviceEvidence(devices, self._reader.tick_ns)
        self._sights = Sights(devices)
        if self._witness is not None:
            self._evidence.learn(self._witness)
        for known in self._known.values():
            facts = self._look(known.pid) if known.ended_ns is None else None
            if facts is not None and self._tick(facts.start_ns) != self._tick(known.start_ns):
                facts = None
            sight = self._begin_sight(known.pid, known.start_ns, known.kind, known.consumer, facts)
            there = frozenset(places[device] for device in known.sight.contexts if device in places)
            self._sights.renew(known, replace(sight, contexts=there))

    def _look_again(self, pid: int, indexes: Sequence[int]) -> None:
        """What it has open may have become more since it was first looked at."""
        facts = self._look(pid)
        for known in (self._known[index] for index in indexes):
            if facts is not None and self._tick(facts.start_ns) == self._tick(known.start_ns):
                opened = self._sights.with_minors(facts.opened)
                self._sights.renew(known, replace(known.sight, opened=opened))

    def _look(self, pid: int) -> ProcessFacts | None:
        return self._asking(pid, lambda: self._reader.look(pid))

    def _consumer(
        self, pid: int, start_ns: int, cgroup_id: int, cgroup1: Sequence[str]
    ) -> tuple[str, str, str]:
        path = self._asking(pid, lambda: self._reader.cgroup_path(cgroup_id))
        found = consumer_of_process(path, cgroup1)
        if found is not None:
            return found
        return "host_process", f"{pid}-{self._tick(start_ns)}-{self._boot[:8]}", ""

    def _forget(self, before_ns: int) -> None:
        old = [k for k in self._known.values() if k.ended_ns is not None and k.ended_ns < before_ns]
        for known in old:
            del self._known[known.index]
        self._evidence.forget((known.pid, known.start_ns) for known in old)
        gone = {known.index for known in old}
        self._by_key = {key: index for key, index in self._by_key.items() if index not in gone}

    def _tick(self, start_ns: int) -> int:
        return start_ns // self._reader.tick_ns
