"""How far shares move when processes are tallied in the kernel instead of recorded call by call.

Two sets of probes are on the same emulated library: one makes a record of each call, the other tallies all.
So both see the very same calls of processes that share a device, and each set feeds windows of its own, which
the core charges: `python -m benchmarks.tallies`. The figure is the largest difference of a consumer's share
of a device's time in a window, in points. Needs root, a C compiler and libbpf or bcc.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.figures import write_figure
from gpuledger.agent.epoch import AgentTime, boot_id
from gpuledger.agent.parts import Part
from gpuledger.agent.probes import ProbeSource
from gpuledger.agent.proc_reader import ProcReader
from gpuledger.agent.processes import ProcessTable
from gpuledger.agent.rules import CutterRules
from gpuledger.agent.state import NodeState
from gpuledger.agent.windows import WindowCutter
from gpuledger.attribution import NodeWindow, charge_window
from gpuledger.contract.clock import NS_PER_S, SystemClock
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import Device, EventBatch, Holdings, NodeLayout, PriceBookVersion, PriceEntry
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.contract.windows import WindowGrid
from gpuledger.pricing import Prices, Teams
from tests.emulator import Emulator
from tests.emulator.control import LIBCUDA

WINDOWS = 2
WINDOW_NS = 10 * NS_PER_S
TICK_S = 0.1
PRICES = Prices([PriceBookVersion(1, 0, entries=[PriceEntry("gpu", "gpu", 12_290_000_000, "USD")])])

TRAINER = ["train", "--duration-us", "400", "--burst", "20", "--gap-us", "3000"]
STORM = ["train", "--duration-us", "10", "--burst", "1", "--gap-us", "0"]
MIXES: dict[str, list[list[str]]] = {
    "two trainers": [TRAINER, ["train", "--duration-us", "1500", "--burst", "5", "--gap-us", "20000"]],
    "hog and trainer": [["hog", "--duration-us", "300"], TRAINER],
    "launch and wait without pause, and trainer": [STORM, TRAINER],
    "two that launch and wait without pause": [
        STORM,
        ["train", "--duration-us", "60", "--burst", "2", "--gap-us", "40"],
    ],
    "inference, never waiting, and idle": [
        ["infer", "--duration-us", "500", "--burst", "10", "--rate", "40"],
        ["nosync", "--duration-us", "300", "--burst", "5", "--gap-us", "5000"],
        ["idle"],
    ],
}


@dataclass
class Node:
    """One set of probes with the agent's parts behind it, but for queue and samplers."""

    source: ProbeSource
    device: str
    time: AgentTime = field(init=False)
    parts: dict[int, list[Part]] = field(default_factory=lambda: defaultdict(list))

    def begin(self) -> None:
        """The epoch begins now."""
        self.time = AgentTime.begin(SystemClock(), boot_id())
        layout = NodeLayout(devices=[Device(uuid=self.device, index=0)])
        self.reader = ProcReader()
        table = ProcessTable(self.reader, layout.devices, self.time.epoch.boot_id)
        self.state = NodeState(layout, table, self.time.offset_ns)
        rules = CutterRules(WindowGrid(WINDOW_NS), samples_expected=False)
        self.cutter = WindowCutter(NodeKey("cluster", "node"), self.time, self.state, rules)
        self.source.drain()

    def tick(self) -> None:
        """One pass of the agent's loop."""
        boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.cutter.add_events(self.state.processes.resolve(self.source.drain(), self.time.offset_ns))
        self.state.note_ends(boot_ns)
        for part in self.cutter.advance(self.time.unix_ns(boot_ns)):
            self.parts[part.header.window_start_ns].append(part)

    def charges(self, start_ns: int) -> dict[str, tuple[float, int]]:
        """consumer -> (share of the device's time in points, launches) in a window."""
        parts = self.parts[start_ns]
        window = NodeWindow(
            "cluster",
            "node",
            start_ns,
            WINDOW_NS,
            Revision(0, len(parts), 0, CORE_VERSION),
            holdings=[part for part in parts if isinstance(part, Holdings)],
            events=[part for part in parts if isinstance(part, EventBatch)],
            samples=[],
        )
        found: dict[str, tuple[float, int]] = {}
        for row in charge_window(window, PRICES, Teams()).rows():
            points, launches = found.get(str(row.values["consumer"]), (0.0, 0))
            points += 100 * float(row.values["used_ns"]) / WINDOW_NS
            found[str(row.values["consumer"])] = points, launches + int(row.values["launches"])
        return found


def run(workloads: list[list[str]]) -> tuple[float, int, int]:
    """(largest difference in points, calls, rows of the tallied batches) of one mix."""
    with ExitStack() as stack:
        emulator = stack.enter_context(Emulator())
        nodes = []
        for rate in (None, 0):
            source = ProbeSource(tally_calls_per_s=rate)
            stack.callback(source.close)
            source.start()
            source.preattach(LIBCUDA)
            nodes.append(Node(source, emulator.uuids[0]))
        for node in nodes:
            node.begin()
        workers = [emulator.spawn([*one, "--seed", str(n)]) for n, one in enumerate(workloads, 1)]
        grid = WindowGrid(WINDOW_NS)
        first = grid.next(grid.start(nodes[0].time.now_ns(SystemClock())))
        end = first + WINDOWS * WINDOW_NS
        while nodes[0].time.now_ns(SystemClock()) < end + NS_PER_S:
            time.sleep(TICK_S)
            for node in nodes:
                node.tick()
        for worker in workers:
            worker.terminate()
        starts = [first + n * WINDOW_NS for n in range(WINDOWS)]
        raw, tallied = ([node.charges(start) for start in starts] for node in nodes)
        rows = sum(
            len(part.time_ns) + len(part.outstanding_start_ns)
            for start in starts
            for part in nodes[1].parts[start]
            if isinstance(part, EventBatch)
        )
        for node in nodes:
            if node.source.losses().events:
                raise SystemExit(f"tallies: lost events: {node.source.losses()}")
    largest = 0.0
    for one, other in zip(raw, tallied, strict=True):
        for consumer in one.keys() | other.keys():
            a, b = one.get(consumer, (0.0, 0)), other.get(consumer, (0.0, 0))
            largest = max(largest, abs(a[0] - b[0]))
    return largest, sum(launches for one in raw for _, launches in one.values()), rows


def main() -> None:
    moved, launches, rows = {}, {}, {}
    for name, workloads in MIXES.items():
        moved[name], launches[name], rows[name] = run(workloads)
        print(
            f"  {name:<46} {moved[name]:6.3f} points  {launches[name]:>9,} launches  {rows[name]:>7,} rows",
            flush=True,
        )
    write_figure(
        "tallies",
        max(moved.values()),
        "points",
        None,
        None,
        len(MIXES) * WINDOWS,
        target=1.0,
        moved_points=moved,
        launches=launches,
        tallied_rows=rows,
        baseline_name="a record of each call of the same processes in the same windows",
    )


if __name__ == "__main__":
    main()
