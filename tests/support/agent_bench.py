"""An agent over a simulated node whose ticks are called, with a clock that is moved by hand and no Kafka."""

from pathlib import Path

import numpy as np

from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.probes.attach import LibraryReport
from gpuledger.agent.probes.events import Losses, RawEvents, Resident
from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.service import Agent
from gpuledger.agent.settings import AgentSettings
from gpuledger.agent.simulated import SimulatedHolders, SimulatedNode, SimulatedProcesses, SimulatedSource
from gpuledger.agent.spool import Journal, NodeQueue
from gpuledger.contract.clock import ManualClock
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.records import EventBatch, Holdings, NodeLayout, SampleBatch, decode
from gpuledger.contract.windows import WindowGrid
from tests.support.agent import NODE, S

TENTH = S // 10


class LossySource(SimulatedSource):
    """It can lose calls, it can fail, and it can probe a library."""

    probed: LibraryReport | None = None
    probes_changed = False

    lost = Losses()
    broken = False
    early = 0

    def losses(self) -> Losses:
        return self.lost

    def probes(self) -> list[LibraryReport]:
        self.probes_changed = False
        return [self.probed] if self.probed else []

    def resident(self) -> list[Resident]:
        return [entry for entry in super().resident() if entry.ordinal == 1]

    def drain(self) -> RawEvents:
        if self.broken:
            raise OSError("the ring is gone")
        rows = super().drain()
        if self.early:
            rows["time_ns"] -= np.uint64(self.early)
            self.early = 0
        return rows


class Bench:
    """An agent whose ticks are called, and the queue that it fills."""

    def __init__(
        self,
        directory: Path,
        reader: type[SimulatedProcesses] = SimulatedProcesses,
        unix_ns: int = 1_000_000 * S,
        spool_bytes: int = 64 << 20,
        early_ns: int = 0,
        queue: NodeQueue | None = None,
    ) -> None:
        self.clock = ManualClock(unix_ns, boot_ns=500 * S)
        self.queue = queue or NodeQueue(Journal(directory / "spool", spool_bytes))
        node = SimulatedNode()
        layout = NodeLayout(instance_id="i-1", instance_type="p5.48xlarge", devices=node.devices)
        self.settings = AgentSettings(NODE, directory, WindowGrid(10 * S), layout)
        self.source = LossySource(node, self.clock)
        self.source.early = early_ns
        self.agent = Agent(
            self.settings,
            self.clock,
            AgentTime.begin(self.clock, "boot"),
            self.queue,
            self.source,
            reader(node),
            None,
            SimulatedHolders(node),
        )

    def run(self, seconds: int, tick_ns: int = TENTH) -> None:
        for _ in range(seconds * S // tick_ns):
            self.agent.tick()
            self.clock.advance(tick_ns)

    def records(self) -> list[tuple[RecordHeaders, EventBatch | SampleBatch | Holdings]]:
        classes = {"EventBatch": EventBatch, "SampleBatch": SampleBatch, "Holdings": Holdings}
        found = []
        while (ticket := self.queue.take(0)) is not None:
            entry = ticket.entry
            if entry.record in classes:
                headers = RecordHeaders.from_kafka(entry.key, entry.headers)
                found.append((headers, decode(classes[entry.record], entry.body)))
        return found


class Newcomer(SimulatedProcesses):
    """Besides the node's, one process with a library of its own that has not called anything yet."""

    PID, FILE = 999_999, (1, 42)

    def look(self, pid: int) -> ProcessFacts | None:
        return ProcessFacts(400 * S, 77) if pid == self.PID else super().look(pid)

    def libraries(self, pid: int) -> frozenset[tuple[int, int]]:
        return frozenset({self.FILE}) if pid == self.PID else super().libraries(pid)
