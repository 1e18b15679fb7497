"""What is known of every node: its stated lives, its last record, and how far it is charged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gpuledger.bus import BusSettings, PartitionReader, SchemaRegistry, unframed
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import NodeLayout, NodeLifetime, NodeProgress
from gpuledger.contract.topics import NODES, PROGRESS
from gpuledger.contract.windows import DAY_NS

R = TypeVar("R")
CLIENT_ID = "gpuledger-nodes"
NO_CLUSTER = "-"  # records of gpu.progress that speak of no node
STATED_BY = "gpuledger nodes retire"
WITHDRAWN_NS = 8 * DAY_NS  # how far back the processor still writes windows anew


@dataclass(slots=True)
class KnownNode:
    """A node by name; times in ns since the Unix epoch, None where nothing says them."""

    key: NodeKey
    lives: dict[str, NodeLifetime] = field(default_factory=dict)
    """The latest statement of each instance."""
    last_record_ns: int | None = None
    charged_through_ns: int | None = None
    layout: NodeLayout | None = None
    """Of its latest keyframe."""

    @property
    def open_lives(self) -> list[NodeLifetime]:
        """Those whose end nobody has stated."""
        return [life for life in self.lives.values() if life.ended_ns is None]


def known_nodes(settings: BusSettings) -> list[KnownNode]:
    """Every node that gpu.nodes or gpu.progress speaks of, by cluster and name. Raises Unavailable."""
    found: dict[NodeKey, KnownNode] = {}
    with PartitionReader(settings, CLIENT_ID) as reader, SchemaRegistry(settings) as registry:
        for partition in range(reader.partitions(NODES)):
            for message in reader.read_to_end(NODES, partition):
                life = _decoded(NodeLifetime, message.value, registry)
                if life is not None:
                    _state(_entry(found, life), life)
            for message in reader.read_to_end(PROGRESS, partition):
                progress = _decoded(NodeProgress, message.value, registry)
                if progress is not None and progress.cluster != NO_CLUSTER:
                    _progress(_entry(found, progress), progress)
    return [found[key] for key in sorted(found)]


def ends(
    nodes: Sequence[KnownNode], key: NodeKey, instance: str | None, at_ns: int | None
) -> list[NodeLifetime]:
    """The statements that end a node, of one instance or of all that have no end. Raises Refused."""
    name = f"{key.cluster}/{key.node}"
    node = next((one for one in nodes if one.key == key), None)
    if node is None:
        raise Refused(f"nothing is known of {name}; gpuledger nodes list shows what is")
    end_ns = node.last_record_ns if at_ns is None else at_ns
    if end_ns is None:
        raise Refused(f"{name} never sent a record: say with --at when it ended")
    if node.last_record_ns is not None and node.last_record_ns > end_ns:
        raise Refused(f"{name} sent records after that; an end is never taken back")
    lives: Iterable[NodeLifetime] = node.open_lives
    if instance is not None:
        lives = [life for life in node.open_lives if life.layout.instance_id == instance]
    elif not node.lives:
        lives = [NodeLifetime(*key, node.layout or NodeLayout())]
    found = [replace(life, ended_ns=end_ns, stated_by=STATED_BY) for life in lives]
    if not found:
        raise Refused(f"{name} has no life without an end; gpuledger nodes list shows what is stated")
    for life in found:
        if life.launched_ns is not None and life.launched_ns > end_ns:
            raise Refused(f"{name} was launched after that")
    return found


def _entry(found: dict[NodeKey, KnownNode], record: NodeLifetime | NodeProgress) -> KnownNode:
    key = NodeKey(record.cluster, record.node)
    return found.setdefault(key, KnownNode(key))


def _state(node: KnownNode, life: NodeLifetime) -> None:
    before = node.lives.get(life.layout.instance_id)
    if before is None or before.ended_ns is None or life.ended_ns is not None:
        node.lives[life.layout.instance_id] = life


def _progress(node: KnownNode, progress: NodeProgress) -> None:
    node.last_record_ns = max(progress.last_append_ns, node.last_record_ns or 0) or None
    node.charged_through_ns = max(progress.closed_through_ns, node.charged_through_ns or 0)
    if progress.layouts:
        node.layout = progress.layouts[-1]


def _decoded(cls: type[R], value: bytes | None, registry: SchemaRegistry) -> R | None:
    try:
        return unframed(cls, value, registry)
    except BadRecord:
        return None  # a tombstone, or the processor keeps it in dead letters
