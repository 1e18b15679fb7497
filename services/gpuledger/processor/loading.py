"""The history of a partition on its way in: gpu.progress, read from its end backwards, bit by bit."""

from __future__ import annotations

from gpuledger.bus import Incoming
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import NodeLayout
from gpuledger.contract.records import NodeProgress as HourRecord
from gpuledger.processor.progress import TOLD_CLUSTER, written
from gpuledger.processor.protocol import History
from gpuledger.processor.topics_read import TopicsReader


class Loading:
    """Owned by the engine's thread. A method that raises Unavailable may be called again."""

    def __init__(self, topics: TopicsReader, partition: int, step: int) -> None:
        """``step``: offsets that are read at a time; nothing is, yet. Raises Unavailable."""
        self.history = History()
        self.told: dict[str, int] = {}
        """Of each topic beside the log, the offset below which all that was refused is told."""
        self._topics = topics
        self._partition = partition
        self._step = step
        self._low, self._end = topics.progress_bounds(partition)  # of what was not read
        self._messages: list[Incoming] = []  # that were read and not taken
        self._known: set[bytes | None] = set()  # keys of which something newer was taken
        self._layouts: dict[NodeKey, NodeLayout] = {}

    @property
    def is_done(self) -> bool:
        """Whether all was taken."""
        return not self._messages and self._end <= self._low

    def step(self) -> None:
        """Take all of the next offsets."""
        self._fetch()
        while self._messages:
            self._take_last()

    def go_on(self) -> None:
        """Take one record."""
        if not self._messages:
            self._fetch()
        if self._messages:
            self._take_last()

    def _fetch(self) -> None:
        first = max(self._low, self._end - self._step)
        self._messages = self._topics.progress_between(self._partition, first, self._end)
        self._end = first

    def _take_last(self) -> None:
        message = self._messages[-1]
        if message.key not in self._known:
            record = self._topics.progress_in(message)
            if record is not None:
                self._take(record)
            if record is not None or message.value is None:
                self._known.add(message.key)
        self._messages.pop()

    def _take(self, record: HourRecord) -> None:
        if record.cluster == TOLD_CLUSTER:
            self.told.setdefault(record.node, record.closed_through_ns)
            return
        key = NodeKey(record.cluster, record.node)
        record.layouts = [self._shared(key, layout) for layout in record.layouts]
        self.history.take(written(record))

    def _shared(self, node: NodeKey, layout: NodeLayout) -> NodeLayout:
        """One object for what hundreds of hours of a node repeat."""
        known = self._layouts.get(node)
        if known is None or known != layout:
            known = self._layouts[node] = layout
        return known
