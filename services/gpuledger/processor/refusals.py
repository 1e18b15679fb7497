"""What could not be read in the topics beside the log: told to dead letters once, by the one owner.

Every worker reads the configuration, and a new owner reads its partition's topics from their beginnings.
So a letter is written in one transaction with a record in gpu.progress that says up to which offset of a
topic all is told. The transactional id makes sure that it is one owner who does it: of a topic that has
one partition, the owner of partition 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import structlog

from gpuledger.bus import DeadLetters, Incoming, Outgoing, SchemaRegistry, framed
from gpuledger.contract import topics
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import NodeProgress as HourRecord
from gpuledger.processor import metrics
from gpuledger.processor.ownership import Ownership
from gpuledger.processor.progress import TOLD_CLUSTER, progress_key

SINGLE = (topics.PRICES, topics.TEAMS, topics.GENERATIONS)
BY_NODE = (topics.NODES, topics.PROGRESS)
MOST_KEPT = 200  # of one topic and partition; what a flood has beyond that, the next owner tells
_log = structlog.get_logger(__name__)
Place = tuple[str, int]


class Refusals:
    """Keeps what was refused until its owner tells it. Owned by the engine's thread."""

    def __init__(self) -> None:
        self._refused: dict[Place, dict[int, tuple[Incoming, BadRecord]]] = defaultdict(dict)
        self._full: set[Place] = set()

    def add(self, message: Incoming, error: BadRecord) -> None:
        """A record was refused, perhaps once more."""
        place = message.topic, message.partition
        if len(self._refused[place]) >= MOST_KEPT:
            self._full.add(place)
        if place not in self._full:
            self._refused[place][message.offset] = message, error

    def forget(self, topic: str, partition: int) -> None:
        """It is read from its beginning next time."""
        self._refused.pop((topic, partition), None)
        self._full.discard((topic, partition))

    def tell(self, owned: Iterable[Ownership], letters: DeadLetters, registry: SchemaRegistry) -> None:
        """Write what the owners have not told yet. Raises Fenced, Unavailable."""
        for ownership in owned:
            for topic, partition in _places(ownership.owner.partition):
                after = ownership.told.get(topic, 0)
                kept = self._refused.get((topic, partition), {})
                news = [kept[offset] for offset in sorted(kept) if offset >= after]
                if news:
                    end = news[-1][0].offset + 1
                    told = _told(topic, end, ownership.owner.partition, registry)
                    ownership.transactions.commit([*letters.letters(news), told])
                    ownership.told[topic] = end
                    _show(news)
        self._refused.clear()  # what others own, they tell


def _places(partition: int) -> Iterator[Place]:
    for topic in BY_NODE:
        yield topic, partition
    if partition == 0:
        for topic in SINGLE:
            yield topic, 0


def _told(topic: str, end: int, partition: int, registry: SchemaRegistry) -> Outgoing:
    record = HourRecord(cluster=TOLD_CLUSTER, node=topic, hour_start_ns=0, closed_through_ns=end)
    key = progress_key(NodeKey(record.cluster, record.node), 0)
    return Outgoing(topics.PROGRESS, key, framed(registry, record), partition=partition)


def _show(news: Sequence[tuple[Incoming, BadRecord]]) -> None:
    for message, error in news:
        metrics.RECORDS_REFUSED.labels(error.reason).inc()
        _log.warning(
            "record refused",
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            error=str(error),
        )
