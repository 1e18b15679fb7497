"""gpu.telemetry: what a node's agent saw."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from gpuledger.contract.columns import Doubles, Longs, no_doubles, no_longs
from gpuledger.contract.records.node import Header, Holder, Keeper, NodeLayout, Pod, Process


@dataclass(slots=True, eq=False)
class EventBatch:
    """CUDA and driver calls of a node's processes, as columns: one value a call in each column of the
    group `events`, ordered by time. Key cluster/node.

    Fields and units: schemas/event_batch.avsc.
    """

    header: Header
    processes: list[Process] = dataclasses.field(default_factory=list)
    devices: list[str] = dataclasses.field(default_factory=list)
    threads: Longs = dataclasses.field(default_factory=no_longs)
    functions: Longs = dataclasses.field(default_factory=no_longs)
    time_ns: Longs = dataclasses.field(default_factory=no_longs)
    process: Longs = dataclasses.field(default_factory=no_longs)
    thread: Longs = dataclasses.field(default_factory=no_longs)
    device: Longs = dataclasses.field(default_factory=no_longs)
    operation: Longs = dataclasses.field(default_factory=no_longs)
    duration_ns: Longs = dataclasses.field(default_factory=no_longs)
    bytes: Longs = dataclasses.field(default_factory=no_longs)
    launched_threads: Longs = dataclasses.field(default_factory=no_longs)
    function: Longs = dataclasses.field(default_factory=no_longs)
    result: Longs = dataclasses.field(default_factory=no_longs)
    count: Longs = dataclasses.field(default_factory=no_longs)
    span_ns: Longs = dataclasses.field(default_factory=no_longs)
    outstanding_process: Longs = dataclasses.field(default_factory=no_longs)
    outstanding_device: Longs = dataclasses.field(default_factory=no_longs)
    outstanding_start_ns: Longs = dataclasses.field(default_factory=no_longs)
    outstanding_duration_ns: Longs = dataclasses.field(default_factory=no_longs)
    outstanding_blocked_ns: Longs = dataclasses.field(default_factory=no_longs)
    outstanding_launches: Longs = dataclasses.field(default_factory=no_longs)
    outstanding_bursts: Longs = dataclasses.field(default_factory=no_longs)
    tallied_process: Longs = dataclasses.field(default_factory=no_longs)
    tallied_by: Longs = dataclasses.field(default_factory=no_longs)
    tallied_since_ns: Longs = dataclasses.field(default_factory=no_longs)
    missing: list[str] = dataclasses.field(default_factory=list)


@dataclass(slots=True)
class Gap:
    """Something that should have been measured and was not."""

    start_ns: int
    device: int = -1
    field: int = 0
    source: int = 0
    reason: str = ""
    duration_ns: int = 0


@dataclass(slots=True, eq=False)
class SampleBatch:
    """Measurements of the silicon, as columns: one value a measurement in each column of the group
    `samples`. Key cluster/node.

    Fields and units: schemas/sample_batch.avsc.
    """

    header: Header
    devices: list[str] = dataclasses.field(default_factory=list)
    processes: list[Process] = dataclasses.field(default_factory=list)
    device: Longs = dataclasses.field(default_factory=no_longs)
    process: Longs = dataclasses.field(default_factory=no_longs)
    field: Longs = dataclasses.field(default_factory=no_longs)
    source: Longs = dataclasses.field(default_factory=no_longs)
    start_ns: Longs = dataclasses.field(default_factory=no_longs)
    duration_ns: Longs = dataclasses.field(default_factory=no_longs)
    value: Doubles = dataclasses.field(default_factory=no_doubles)
    gaps: list[Gap] = dataclasses.field(default_factory=list)


@dataclass(slots=True, eq=False)
class Holdings:
    """The state of a node at an instant: devices, holders, processes. The keyframe at a window's start, or
    a change within it (the whole state again). Key cluster/node.

    Fields and units: schemas/holdings.avsc.
    """

    header: Header
    time_ns: int
    layout: NodeLayout
    keyframe: bool = False
    holders_known: bool = True
    pods: list[Pod] = dataclasses.field(default_factory=list)
    holders: list[Holder] = dataclasses.field(default_factory=list)
    processes: list[Process] = dataclasses.field(default_factory=list)
    resident_process: Longs = dataclasses.field(default_factory=no_longs)
    resident_device: Longs = dataclasses.field(default_factory=no_longs)
    resident_bytes: Longs = dataclasses.field(default_factory=no_longs)
    outstanding_process: Longs = dataclasses.field(default_factory=no_longs)
    outstanding_device: Longs = dataclasses.field(default_factory=no_longs)
    outstanding_since_ns: Longs = dataclasses.field(default_factory=no_longs)
    outstanding_launches: Longs = dataclasses.field(default_factory=no_longs)
    learned_process: Longs = dataclasses.field(default_factory=no_longs)
    learned_function: Longs = dataclasses.field(default_factory=no_longs)
    learned_threads: Longs = dataclasses.field(default_factory=no_longs)
    learned_duration_ns: Longs = dataclasses.field(default_factory=no_longs)
    learned_count: Longs = dataclasses.field(default_factory=no_longs)
    unwitnessed: Longs = dataclasses.field(default_factory=no_longs)
    keepers: list[Keeper] = dataclasses.field(default_factory=list)
    keepers_count: int = 0
