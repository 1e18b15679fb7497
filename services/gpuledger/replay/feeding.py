"""The records of a range copied to the topic that workers read, each once in the order of the log."""

from __future__ import annotations

from collections.abc import Callable

from gpuledger.bus import Incoming, Outgoing, PartitionReader, Producer
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.reading import NS_PER_MS, placed_headers
from gpuledger.replay.beginning import offsets_to_read
from gpuledger.replay.replay_topics import End, ReplayTopics, copy_of, end_of, original
from gpuledger.replay.request import Request, Source

AT_A_TIME = 1_000  # records that are sent together, and awaited
AT_A_TIME_BYTES = 32 << 20


class Stopped(Exception):
    """The feeding was given up."""


def feed(request: Request, partition: int, topics: ReplayTopics, told: Callable[[int, int], None]) -> None:
    """Copy what of a partition is not copied yet, then the mark that it is all.

    ``told`` hears (offsets read, offsets to read) and may raise ``Stopped``. Killed and called again, it goes
    on behind the last copy; a copy that was sent all the same comes twice, and workers pass over it. Raises
    Unavailable, Refused.
    """
    with (
        Source(request) as source,
        PartitionReader(request.bus, "gpuledger-replay") as reader,
        Producer(request.bus, "gpuledger-replay-feed") as producer,
    ):
        first, end = offsets_to_read(request, partition, source.log, source.schemas)
        last = _last(reader, topics, partition)
        if isinstance(last, End):
            told(last.offset - first, last.offset - first)
            return
        start = first if last is None else last.offset + 1
        last_append_ns = 0 if last is None else last.timestamp_ms * NS_PER_MS
        chosen = _Chosen(request, source.log.partitions(TELEMETRY))
        batch: list[Outgoing] = []
        size_bytes = 0
        for message in source.log.read_range(TELEMETRY, partition, start, end - 1):
            last_append_ns = max(last_append_ns, message.timestamp_ms * NS_PER_MS)
            if chosen.has(message):
                batch.append(copy_of(message, topics))
                size_bytes += len(message.value or b"")
            if len(batch) >= AT_A_TIME or size_bytes >= AT_A_TIME_BYTES:
                producer.produce_all(batch)
                told(message.offset + 1 - first, end - first)
                batch, size_bytes = [], 0
        producer.produce_all([*batch, end_of(End(end, last_append_ns), partition, topics)])
        told(end - first, end - first)


def _last(reader: PartitionReader, topics: ReplayTopics, partition: int) -> Incoming | End | None:
    """What was copied last."""
    _, end = reader.bounds(topics.telemetry, partition)
    for copy in reader.read_range(topics.telemetry, partition, end - 1, end - 1):
        return original(copy)
    return None


class _Chosen:
    """Which records workers need: those of the range, and of each node the first behind it, which says that
    it lived on."""

    def __init__(self, request: Request, partitions: int) -> None:
        self._request = request
        self._partitions = partitions
        self._beyond: set[NodeKey] = set()

    def has(self, message: Incoming) -> bool:
        """Whether a record is to be copied."""
        try:
            headers = placed_headers(message, self._partitions, self._request.settings.grid)
        except BadRecord:
            return False
        if not self._request.wants(headers.id.cluster) or headers.window_start_ns < self._request.from_ns:
            return False
        if headers.window_start_ns < self._request.to_ns:
            return True
        key = headers.id.node_key
        if key in self._beyond or headers.mend or headers.amendment:
            return False
        self._beyond.add(key)
        return True
