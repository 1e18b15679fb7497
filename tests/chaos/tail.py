"""What has come to Kafka so far, read as it grows: what a run waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gpuledger.bus import BusSettings, Incoming, PartitionReader
from gpuledger.contract import topics
from gpuledger.contract.errors import GpuledgerError
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import ChargeSet, Generation, NodeLifetime, decode
from gpuledger.contract.wire import unframe
from tests.chaos.times import NS_PER_MS, is_ahead
from tests.chaos.truth import WINDOW_NS, Life, Told, rank, unnamed

TIMES = ("used_ns", "held_idle_ns", "unallocated_ns", "unobserved_ns")


class Tail:
    """Reads from where it last stopped."""

    def __init__(self, bus: BusSettings) -> None:
        self._bus = bus
        self._next: dict[tuple[str, int], int] = {}
        self._spoken: dict[NodeKey, int] = {}
        self._charged: dict[tuple[NodeKey, int], int] = {}
        self._heads: dict[tuple[NodeKey, int], tuple[int, int]] = {}
        """Of each window its greatest revision, and the ns of all devices that it speaks for."""
        self._lives: dict[NodeKey, Life] = {}
        self._told: dict[NodeKey, set[Told]] = defaultdict(set)
        self._generations: list[Generation] = []

    def follow(self) -> bool:
        """Read all that has come since; False where nobody answers."""
        try:
            self._read()
        except GpuledgerError:
            return False
        return True

    def _read(self) -> None:
        with PartitionReader(self._bus, "chaos-tail") as reader:
            for message in self._new(reader, topics.GENERATIONS):
                self._generations.append(decode(Generation, unframe(message.value or b"")[1]))
            for message in self._new(reader, topics.TELEMETRY):
                headers = RecordHeaders.from_kafka(message.key, message.headers)
                node, start = headers.id.node_key, headers.window_start_ns
                if not is_ahead(start, message.timestamp_ms * NS_PER_MS):
                    self._spoken[node] = max(start, self._spoken.get(node, 0))
                    self._told[node].add(Told(headers.id.epoch_ns, start, headers.keyframe))
            for message in self._new(reader, topics.CHARGES):
                charges = decode(ChargeSet, unframe(message.value or b"")[1])
                place = NodeKey(charges.cluster, charges.node), charges.window_start_ns
                self._charged[place] = max(charges.generation, self._charged.get(place, 0))
                head = rank(charges), sum(int(getattr(charges, name).sum()) for name in TIMES)
                self._heads[place] = max(head, self._heads.get(place, head))
            for message in self._new(reader, topics.NODES):
                said = decode(NodeLifetime, unframe(message.value or b"")[1])
                node = NodeKey(said.cluster, said.node)
                before = self._lives.get(node)
                ended_ns = before.ended_ns if said.ended_ns is None and before else said.ended_ns
                self._lives[node] = Life(said.launched_ns or 0, ended_ns)

    def has_spoken_of(self, node: NodeKey, at_ns: int) -> bool:
        """Whether a node has sent anything of a window that began at an instant or later: then all that it
        kept from before is sent."""
        return self._spoken.get(node, 0) >= at_ns

    def is_swept(self, node: NodeKey) -> bool:
        """Whether the last window that a node spoke of is charged."""
        last = max((start for key, start in self._charged if key == node), default=0)
        return self._spoken.get(node, 0) <= last

    def behind_generations(self) -> int:
        """Charged windows of which a greater generation is announced than they were charged with."""
        return sum(
            any(
                one.number > generation
                and one.from_ns <= start < one.to_ns
                and (not one.clusters or node.cluster in one.clusters)
                for one in self._generations
            )
            for (node, start), generation in self._charged.items()
        )

    def behind_lives(self, devices: int) -> int:
        """Windows that are not charged as gpu.nodes has it by now: not at all though the node lived, in full
        though it did not, or of another part of them. An owner that is new must first read what lies back."""
        wrong = 0
        for node, life in self._lives.items():
            charged = [start for key, start in self._heads if key == node]
            ended_ns = max(charged, default=0) + WINDOW_NS if life.ended_ns is None else life.ended_ns
            first = life.launched_ns // WINDOW_NS * WINDOW_NS
            for start in {*charged, *range(first, ended_ns, WINDOW_NS)}.difference(
                unnamed(self._told[node], ended_ns)
            ):
                lived_ns = max(0, min(ended_ns, start + WINDOW_NS) - max(life.launched_ns, start))
                head = self._heads.get((node, start))
                wrong += devices * lived_ns != (0 if head is None else head[1])
        return wrong

    def _new(self, reader: PartitionReader, topic: str) -> Iterator[Incoming]:
        for partition in range(reader.partitions(topic)):
            for message in reader.read_to_end(topic, partition, self._next.get((topic, partition))):
                self._next[topic, partition] = message.offset + 1
                yield message
