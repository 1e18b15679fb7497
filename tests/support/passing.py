"""An agent, and behind the interfaces of its real sources a node on which processes come and go."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.holders.source import HeldDevice, Holders
from gpuledger.agent.probes.attach import LibraryReport
from gpuledger.agent.probes.driver import DriverXid, GpuRegistration
from gpuledger.agent.probes.events import RAW_EVENT, DeviceUuid, Losses, RawEvents, Resident
from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.rules import EVENT_GRACE_NS
from gpuledger.agent.samplers.samples import Gap, Round, Sample
from gpuledger.agent.sampling import SamplerThread
from gpuledger.agent.service import Agent
from gpuledger.agent.settings import AgentSettings
from gpuledger.agent.spool import Journal, NodeQueue, Ticket
from gpuledger.contract.clock import ManualClock
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.records import NodeLayout, Pod
from gpuledger.contract.windows import WindowGrid
from gpuledger.kube.reflector import KEEP_GONE_NS
from tests.support.agent import MS, NODE, S, devices, uuid
from tests.support.passing_node import FIRST_CGROUP, GPUS, KNOWN_BYTES, Passing, PassingNode

TICK_NS = S // 2
CONFIRMED_LATE_TICKS = 3


class PassingSource:
    """An `EventSource` that tells of the dead once, as the kernel's tables do."""

    missing: tuple[str, ...] = ()
    delay_ns = EVENT_GRACE_NS
    filled_ratio = 0.0
    probes_changed = False

    def __init__(self, node: PassingNode) -> None:
        self._node = node
        self._through_ns = node.first_ns - 1
        self._told_through = 0
        self.made = 0  # calls so far
        self.making_ns = 0  # CPU time that it took to make them up, which a benchmark takes off

    def start(self) -> None: ...

    def preattach(self, path: str | Path) -> None: ...

    def refresh(self) -> int:
        return 0

    def follow(self, seconds: float) -> bool:
        return False

    def drain(self) -> RawEvents:
        began_ns = time.process_time_ns()
        now, before = self._node.clock.boot_ns(), self._through_ns
        self._through_ns = now
        rows = [self._node.calls(number, before, now) for number in self._node.numbers(before, now)]
        found: RawEvents = np.concatenate([*rows, np.empty(0, RAW_EVENT)])
        found = found.take(np.argsort(found["time_ns"], kind="stable"))
        self.made += len(found)
        self.making_ns += time.process_time_ns() - began_ns
        return found

    def losses(self) -> Losses:
        return Losses()

    def probes(self) -> list[LibraryReport]:
        return []

    def resident(self) -> list[Resident]:
        node = self._node
        return [Resident(node.pid(n), node.start_ns(n), 0, KNOWN_BYTES) for n in node.living()]

    def device_uuids(self) -> list[DeviceUuid]:
        node, living = self._node, self._node.living()
        told = [*range(self._told_through, living.start), *living]
        self._told_through = living.start
        return [DeviceUuid(node.pid(n), node.start_ns(n), 0, uuid(n % GPUS), alive=n in living) for n in told]

    def registrations(self) -> list[GpuRegistration]:
        node = self._node
        return [
            GpuRegistration(node.pid(n), node.start_ns(n), uuid(n % GPUS), False, node.start_ns(n))
            for n in node.living()
        ]

    def xids(self) -> list[DriverXid]:
        return []

    def close(self) -> None: ...


class PassingProcesses:
    """A `ProcessReader` over the node."""

    tick_ns = 10 * MS

    def __init__(self, node: PassingNode) -> None:
        self._node = node
        self._watched: set[int] = set()

    def look(self, pid: int) -> ProcessFacts | None:
        number = self._node.number_of_pid(pid)
        if number is None:
            return None
        start = self._node.start_ns(number)
        environment = {"NVIDIA_VISIBLE_DEVICES": uuid(number % GPUS)}
        opened = frozenset({number % GPUS})
        return ProcessFacts(start, FIRST_CGROUP + number, f"process-{number}", environment, opened=opened)

    def cgroup_path(self, cgroup_id: int) -> str | None:
        pod = self._node.pod(cgroup_id - FIRST_CGROUP)
        return f"/kubepods/besteffort/pod{pod}/{cgroup_id:064x}"

    def watch(self, pid: int) -> None:
        self._watched.add(pid)

    def libraries(self, pid: int) -> frozenset[tuple[int, int]]:
        return frozenset({(1, 1)})

    def ended(self) -> list[int]:
        gone = self._watched - {self._node.pid(number) for number in self._node.living()}
        self._watched -= gone
        return sorted(gone)

    def close(self) -> None: ...


class PassingHolders:
    """A `HolderSource` in which each living process's pod holds its device; names of those that went stay."""

    problem = ""

    def __init__(self, node: PassingNode) -> None:
        self._node = node

    def read(self) -> Holders | None:
        if not self._node.named:
            return None
        now, living = self._node.clock.boot_ns(), self._node.living()
        known = [n for n in self._node.numbers(now - KEEP_GONE_NS, now) if self._node.is_named(n)]
        pods = tuple(Pod(uid=self._node.pod(n), namespace="team", name=f"train-{n}") for n in known)
        held = tuple(HeldDevice(self._node.pod(n), DeviceRef(index=n % GPUS)) for n in living)
        names = {f"{FIRST_CGROUP + n:064x}": "main" for n in known}
        return Holders(pods, held, (), names)


class PassingSampler(SamplerThread):
    """Rounds that are due, each second, without a thread."""

    def __init__(self, node: PassingNode, epoch_time: AgentTime) -> None:
        self._node = node
        self._offset_ns = epoch_time.offset_ns
        self._through_ns = node.clock.boot_ns() // S * S

    def start(self) -> None: ...

    def stop(self, timeout_s: float = 2.0) -> None: ...

    def rebase(self, time: AgentTime) -> None:
        self._offset_ns = time.offset_ns

    def take(self) -> list[Round]:
        due = range(self._through_ns + S, self._node.clock.boot_ns() + 1, S)
        return [self._round(at) for at in due]

    def _round(self, at_ns: int) -> Round:
        self._through_ns = at_ns
        end = at_ns + self._offset_ns
        taken = Round(end)
        for device in devices(GPUS):
            there = [n for n in self._node.numbers(at_ns, at_ns) if n % GPUS == device.index]
            taken.contexts[device.uuid] = {self._node.pid(n): KNOWN_BYTES for n in there}
            owners: Iterable[int | None] = [None, *(self._node.pid(n) for n in there)]
            taken.samples += [
                Sample(device.uuid, pid, Field.GPU_UTILIZATION, SampleSource.NVML, end - S, S, 0.5)
                for pid in owners
            ]
        if self._node.passing.mixed:
            silent = devices(GPUS)[0].uuid
            taken.gaps.append(Gap(silent, Field.POWER_WATTS, SampleSource.NVML, end - S, S, "timeout"))
        return taken


class PassingAgent:
    """An agent of such a node, and the queue that it fills; what it queues counts as sent at once, where all
    is mixed some ticks later."""

    def __init__(self, directory: Path, passing: Passing, named: bool = True, gpus: int = GPUS) -> None:
        """``gpus``: so many the agent knows at its start."""
        self.clock = ManualClock(unix_ns=1_000_000 * S, boot_ns=500 * S)
        self.node = PassingNode(self.clock, passing, named)
        self.queue = NodeQueue(Journal(directory / "spool", 64 << 20))
        self.source = PassingSource(self.node)
        self._sent: deque[list[Ticket]] = deque()
        epoch_time = AgentTime.begin(self.clock, "boot")
        self.agent = Agent(
            AgentSettings(NODE, directory, WindowGrid(10 * S), NodeLayout(devices=devices(gpus))),
            self.clock,
            epoch_time,
            self.queue,
            self.source,
            PassingProcesses(self.node),
            PassingSampler(self.node, epoch_time),
            PassingHolders(self.node),
        )

    def pass_ns(self, ns: int) -> None:
        """Let so much time pass."""
        for _ in range(ns // TICK_NS):
            self.clock.advance(TICK_NS)
            self.agent.tick()
            self._deliver()

    def _deliver(self) -> None:
        taken: list[Ticket] = []
        while (ticket := self.queue.take(0)) is not None:
            taken.append(ticket)
        self._sent.append(taken)
        if not self.node.passing.mixed or len(self._sent) > CONFIRMED_LATE_TICKS:
            for ticket in self._sent.popleft():
                self.queue.acknowledge(ticket)
