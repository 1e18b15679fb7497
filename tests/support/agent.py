"""A small node for tests of the agent: devices, a table of processes that is stated, and records to check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.events import AGENT_EVENT, Events
from gpuledger.agent.probes.events import RAW_EVENT, RawEvents
from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.processes import ProcessTable
from gpuledger.agent.rules import CutterRules
from gpuledger.agent.state import NodeState
from gpuledger.agent.windows import Part, WindowCutter
from gpuledger.contract.identity import Epoch, NodeKey
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Device, EventBatch, NodeLayout
from gpuledger.contract.windows import WindowGrid

S = 1_000_000_000
MS = 1_000_000
NODE = NodeKey("cluster", "node")
POD = "5e481006-5948-46b8-9e5a-2c99ddac1c12"
CONTAINER = "ab" * 32
POD_PATH = f"/kubepods/besteffort/pod{POD}/{CONTAINER}"


def uuid(number: int) -> str:
    """UUID of the device of that number."""
    return f"GPU-{number:08x}-0000-0000-0000-000000000000"


def devices(count: int = 2) -> list[Device]:
    """Whole GPUs, whose nodes are numbered the other way round than NVML counts them."""
    return [
        Device(uuid=uuid(n), index=n, minor=count - 1 - n, memory_total_bytes=80 << 30) for n in range(count)
    ]


class StatedProcesses:
    """A ProcessReader whose answers are set: pid -> facts, cgroup id -> path."""

    tick_ns = 10 * MS

    def __init__(self) -> None:
        self.facts: dict[int, ProcessFacts] = {}
        self.paths: dict[int, str] = {7: POD_PATH, 8: "/init.scope"}
        self.files: dict[int, frozenset[tuple[int, int]]] = {}
        self.gone: list[int] = []
        self.watched: list[int] = []

    def look(self, pid: int) -> ProcessFacts | None:
        return self.facts.get(pid)

    def cgroup_path(self, cgroup_id: int) -> str | None:
        return self.paths.get(cgroup_id)

    def watch(self, pid: int) -> None:
        self.watched.append(pid)

    def libraries(self, pid: int) -> frozenset[tuple[int, int]]:
        return self.files.get(pid, frozenset())

    def ended(self) -> list[int]:
        gone, self.gone = self.gone, []
        return gone

    def close(self) -> None:
        pass


def raw(time_ns: int, operation: Operation = Operation.LAUNCH_KERNEL, **columns: int) -> RawEvents:
    """One event as the kernel gives it; pid 1 in the pod's cgroup, on its first device."""
    row = np.zeros(1, RAW_EVENT)
    values = {
        "pid": 1,
        "tid": 1,
        "cgroup_id": 7,
        "start_ns": 30 * MS,
        "ordinal": 0,
        "duration_ns": 5,
        "count": 1,
    }
    for name, value in {**values, "time_ns": time_ns, "operation": int(operation), **columns}.items():
        row[name] = value
    return row


def event(time_ns: int, operation: Operation = Operation.LAUNCH_KERNEL, **columns: int) -> Events:
    """One resolved event; process 0 on device 0."""
    row = np.zeros(1, AGENT_EVENT)
    for name, value in {"time_ns": time_ns, "operation": int(operation), "count": 1, **columns}.items():
        row[name] = value
    return row


def joined(rows: Iterable[np.ndarray]) -> np.ndarray:
    """Several events as one array."""
    return np.concatenate(list(rows))


class Bench:
    """A cutter with its state, in an epoch that began at ``started_ns`` of agent time (offset 0)."""

    def __init__(
        self,
        started_ns: int = 0,
        length_ns: int = 10 * S,
        samples_expected: bool = False,
        processes: Sequence[int] = (1,),
        reader: StatedProcesses | None = None,
        **rules: int,
    ) -> None:
        self.reader = reader or StatedProcesses()
        layout = NodeLayout(devices=devices())
        self.table = ProcessTable(self.reader, layout.devices, "boot-id-of-a-test")
        for pid in processes:
            self.reader.facts[pid] = ProcessFacts(30 * MS, 7, f"process-{pid}")
            self.table.of_pid(pid)
        self.state = NodeState(layout, self.table, 0)
        self.time = AgentTime(Epoch("boot-id-of-a-test", started_ns), 0)
        self.rules = CutterRules(WindowGrid(length_ns), samples_expected=samples_expected, **rules)
        self.cutter = WindowCutter(NODE, self.time, self.state, self.rules)

    def advance(self, now_ns: int) -> list[Part]:
        """All parts that are due at ``now_ns``."""
        return list(self.cutter.advance(now_ns))

    def resolve(self, *rows: RawEvents) -> Events:
        """The kernel's events, resolved."""
        return self.table.resolve(np.concatenate(rows), 0)


def event_times(parts: Iterable[Part]) -> list[int]:
    """Times of all events of these parts."""
    return [int(t) for part in parts if isinstance(part, EventBatch) for t in part.time_ns]
