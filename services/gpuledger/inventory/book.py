"""gpu.nodes as the inventory's memory: what was stated is read from it at the start, and written to it."""

from __future__ import annotations

from collections.abc import Iterable

from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    framed,
    partition_for_node,
    unframed,
)
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import NodeLifetime
from gpuledger.contract.topics import NODES
from gpuledger.inventory.lives import LifeKey

CLIENT_ID = "gpuledger-inventory"


class Book:
    """The statements of one cluster. Opens connections as it needs them and closes them: it says little."""

    def __init__(self, settings: BusSettings, cluster: str) -> None:
        self._settings = settings
        self._cluster = cluster

    def read(self) -> dict[LifeKey, NodeLifetime]:
        """The latest statement of each instance. Raises Unavailable. A record that can not be read is no
        statement; an end is never taken back."""
        found: dict[LifeKey, NodeLifetime] = {}
        with PartitionReader(self._settings, CLIENT_ID) as reader, SchemaRegistry(self._settings) as registry:
            for partition in range(reader.partitions(NODES)):
                for message in reader.read_to_end(NODES, partition):
                    try:
                        life = unframed(NodeLifetime, message.value, registry)
                    except BadRecord:
                        continue
                    if life.cluster == self._cluster:
                        key = LifeKey(life.node, life.layout.instance_id)
                        before = found.get(key)
                        if before is None or before.ended_ns is None or life.ended_ns is not None:
                            found[key] = life
        return found

    def write(self, lives: Iterable[NodeLifetime]) -> None:
        """Have Kafka hold them all. Raises Unavailable; some may have been written then, which harms
        nothing: the same statement twice is one."""
        with (
            PartitionReader(self._settings, CLIENT_ID) as reader,
            SchemaRegistry(self._settings) as registry,
            Producer(self._settings, CLIENT_ID) as producer,
        ):
            partitions = reader.partitions(NODES)
            producer.produce_all(
                [
                    Outgoing(
                        NODES,
                        node.key + b"/" + life.layout.instance_id.encode(),
                        framed(registry, life),
                        partition=partition_for_node(node.key, partitions),
                    )
                    for life in lives
                    for node in (NodeKey(life.cluster, life.node),)
                ]
            )
