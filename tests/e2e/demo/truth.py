"""Attributed against true: what the ledger says each process used, beside what the emulator's clock says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gpuledger.agent.simulated import SimulatedNode
from gpuledger.attribution import NodeWindow, charge_windows
from gpuledger.bus import BusSettings, PartitionReader
from gpuledger.contract import topics
from gpuledger.contract.headers import RECORD_OF_KIND, Kind, RecordHeaders
from gpuledger.contract.records import EventBatch, Holdings, SampleBatch, decode
from gpuledger.contract.revision import Revision
from gpuledger.contract.wire import unframe
from gpuledger.pricing import Prices, Teams
from tests.e2e.demo.scene import SHARED, Work
from tests.emulator.truth import Truth

PERCENT = 100


@dataclass(frozen=True)
class Consumer:
    """One consumer in one window, as a charge row names it."""

    window_start_ns: int
    device: str
    consumer: str


def telemetry_windows(bootstrap: str, with_samples: bool) -> list[NodeWindow]:
    """Every window that lies in gpu.telemetry, as the core takes it; without samples it is eBPF alone."""
    found: dict[int, NodeWindow] = {}
    lists: dict[int, tuple[list[Holdings], list[EventBatch], list[SampleBatch]]] = defaultdict(
        lambda: ([], [], [])
    )
    complete: set[int] = set()
    with PartitionReader(BusSettings.load(kafka_bootstrap=bootstrap), "demo-truth") as reader:
        for partition in range(reader.partitions(topics.TELEMETRY)):
            for record in reader.read_to_end(topics.TELEMETRY, partition):
                place = RecordHeaders.from_kafka(record.key, record.headers)
                start = place.window_start_ns
                _, body = unframe(record.value or b"")
                holdings, events, samples = lists[start]
                if place.kind is Kind.HOLDINGS:
                    holdings.append(decode(Holdings, body))
                elif place.kind is Kind.EVENTS:
                    events.append(decode(EventBatch, body))
                elif with_samples:
                    assert RECORD_OF_KIND[place.kind] == "SampleBatch"
                    samples.append(decode(SampleBatch, body))
                if place.keyframe:
                    complete.add(start)
                found[start] = NodeWindow(
                    cluster=place.id.cluster,
                    node=place.id.node,
                    window_start_ns=start,
                    window_length_ns=place.window_length_ns,
                    revision=Revision(0, 1, 0, 1),
                    holdings=holdings,
                    events=events,
                    samples=samples,
                )
    return [found[start] for start in sorted(complete)]


def used_from_core(windows: list[NodeWindow]) -> dict[Consumer, int]:
    """GPU time used, in ns, of every consumer as the core attributes it."""
    used: dict[Consumer, int] = defaultdict(int)
    for charges in charge_windows(windows, Prices([]), Teams([])):
        for row in charges.rows():
            if row["consumer_kind"] != "pool":
                key = Consumer(charges.record.window_start_ns, row["device"], row["consumer"])
                used[key] += row["used_ns"]
    return used


@dataclass(frozen=True)
class Subject:
    """A process whose true share is known. ``consumer`` None: the only consumer on its device."""

    name: str
    device: str
    consumer: str | None
    shares_device: bool
    busy_ns: Callable[[int, int], float]
    """True busy ns in [start, end) of the boot clock."""


def emulated(scene: list[Work], uuids: list[str], truth: Truth) -> list[Subject]:
    """The processes on the emulated devices."""
    return [
        Subject(
            work.pod or "host process",
            uuids[work.device],
            work.uid if work.team else None,
            work.device == SHARED,
            partial(truth.busy_ns, work.pid, uuids[work.device]),
        )
        for work in scene
    ]


def simulated(node: SimulatedNode) -> list[Subject]:
    """The processes of the agent's simulated node."""
    return [
        Subject(
            actor.pod.name if actor.pod else "host process",
            node.devices[actor.device].uuid,
            actor.pod.uid if actor.pod else None,
            actor.device == SHARED,
            actor.busy_ns,
        )
        for actor in node.actors
    ]


def errors_in_points(
    used: dict[Consumer, int],
    subjects: list[Subject],
    starts_ns: list[int],
    length_ns: int,
    unix_minus_boot_ns: int,
) -> dict[str, tuple[float, float, float]]:
    """Of each process: true and attributed share (% of device time), largest error of a window (points)."""
    result = {}
    for subject in subjects:
        true_ns, told_ns, worst = 0.0, 0, 0.0
        for start in starts_ns:
            boot = start - unix_minus_boot_ns
            true = subject.busy_ns(boot, boot + length_ns)
            told = sum(
                ns
                for key, ns in used.items()
                if (key.window_start_ns, key.device) == (start, subject.device)
                and subject.consumer in (None, key.consumer)
            )
            true_ns, told_ns = true_ns + true, told_ns + told
            worst = max(worst, abs(true - told) / length_ns * PERCENT)
        whole = length_ns * max(1, len(starts_ns))
        result[subject.name] = (true_ns / whole * PERCENT, told_ns / whole * PERCENT, worst)
    return result
