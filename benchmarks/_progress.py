"""gpu.progress of days, as it is once compacted: of each node and hour one record, hour by hour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuledger.bus import BusSettings, Outgoing, Producer, SchemaRegistry, framed, partition_for_node
from gpuledger.contract import topics
from gpuledger.contract.records import NodeProgress
from gpuledger.contract.windows import HOUR_NS, hour_start
from gpuledger.processor.progress import progress_key
from tests.support.fleet import WINDOW_NS, Node

RECORDS = 3  # of a window


def write_history(bus: BusSettings, nodes: Sequence[Node], days: int, end_ns: int, partitions: int) -> int:
    """What owners before would have written of all windows before ``end_ns``; returns its bytes."""
    size = 0
    with SchemaRegistry(bus) as registry, Producer(bus, "benchmark") as producer:
        for hour in range(hour_start(end_ns) - days * 24 * HOUR_NS, end_ns, HOUR_NS):
            value = framed(registry, written(nodes[0], hour, min(hour + HOUR_NS, end_ns)))
            name = nodes[0].key.node.encode()
            batch = [
                Outgoing(
                    topics.PROGRESS,
                    progress_key(node.key, hour),
                    value.replace(name, node.key.node.encode()),
                    partition=partition_for_node(node.key.key, partitions),
                )
                for node in nodes
            ]
            producer.produce_all(batch)
            size += len(value) * len(nodes)
    return size


def written(node: Node, hour: int, end_ns: int) -> NodeProgress:
    """An hour of a node that sent every window."""
    starts = np.arange(hour, end_ns, WINDOW_NS)
    first = starts // WINDOW_NS * RECORDS % 10**9
    zeros = np.zeros_like(starts)
    through_ns = int(starts[-1])
    return NodeProgress(
        *node.key, hour, through_ns, WINDOW_NS, hour, through_ns, through_ns + WINDOW_NS, None, [node.layout],
        starts, zeros, zeros + RECORDS, first, first + RECORDS - 1, first, zeros, zeros, zeros, zeros - 1,
        zeros + 9_000,
    )  # fmt: skip
