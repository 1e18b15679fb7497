"""gpu.nodes, gpu.progress and gpu.generations: what the processor goes by."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuledger.contract.columns import Longs, no_longs
from gpuledger.contract.records.node import NodeLayout


@dataclass(slots=True)
class NodeLifetime:
    """When a node began and ended, and what it is. The latest statement for an instance holds. Key
    cluster/node/instance, partition of cluster/node.

    Fields and units: schemas/node_lifetime.avsc.
    """

    cluster: str
    node: str
    layout: NodeLayout
    launched_ns: int | None = None
    ended_ns: int | None = None
    window_length_ns: int = 10000000000
    stated_by: str = ""
    stated_ns: int = 0


@dataclass(slots=True, eq=False)
class NodeProgress:
    """What of a node's hour was closed, and from which records. Key cluster/node/hour, partition of
    cluster/node; compacted.

    Fields and units: schemas/node_progress.avsc.
    """

    cluster: str
    node: str
    hour_start_ns: int
    closed_through_ns: int
    window_length_ns: int = 10000000000
    first_window_ns: int | None = None
    highest_window_ns: int | None = None
    last_append_ns: int = 0
    opened_from_ns: int | None = None
    layouts: list[NodeLayout] = field(default_factory=list)
    window_start_ns: Longs = field(default_factory=no_longs)
    generation: Longs = field(default_factory=no_longs)
    inputs: Longs = field(default_factory=no_longs)
    lowest_offset: Longs = field(default_factory=no_longs)
    highest_offset: Longs = field(default_factory=no_longs)
    keyframe_offset: Longs = field(default_factory=no_longs)
    layout: Longs = field(default_factory=no_longs)
    goodbye: Longs = field(default_factory=no_longs)
    goodbye_append_ns: Longs = field(default_factory=no_longs)
    alive_ns: Longs = field(default_factory=no_longs)
    input_bytes: Longs = field(default_factory=no_longs)


@dataclass(slots=True)
class Generation:
    """Pins what a time range is computed with. Numbers are consecutive from 1.

    Fields and units: schemas/generation.avsc.
    """

    number: int
    announced_ns: int
    from_ns: int
    to_ns: int
    price_version: int
    team_version: int
    clusters: list[str] = field(default_factory=list)
    policy: dict[str, str] = field(default_factory=dict)
    cause: str = ""
    why: str = ""
    who: str = ""
