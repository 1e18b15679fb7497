"""What gpu.progress holds of a partition, taken from its end backwards: the newest of it comes first.

A window may be computed once all is known that its charges and its row depend on. Of a window that is newer
than some window of its node that states a keyframe, that is: the rows of all windows from that one on (what
it speaks from, its own inputs, the rows of the hour that is written with its own), and how far the node was
closed. What is written last of a node says the latter; so the end of the topic is enough for its live
windows, and the rest may come later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuledger.contract.identity import NodeKey
from gpuledger.contract.windows import HOUR_NS
from gpuledger.processor.protocol.packed import PackedRows
from gpuledger.processor.protocol.rows import latest
from gpuledger.processor.protocol.values import NodeProgress, WindowRow

RECENT_HOURS = 2  # of a node, at first: at an hour's end there is little of the present one


class Written(NamedTuple):
    """One record of gpu.progress. Of an hour that is written in parts, the first of them has its start."""

    node: NodeKey
    start_ns: int
    rows: PackedRows | None  # None: it has no window
    through_ns: int
    last_append_ns: int | None = None
    opened_from_ns: int | None = None


class NodeHistory(NamedTuple):
    """What is known of a node beside its recent windows."""

    node: NodeKey
    hours: Sequence[PackedRows]
    through_ns: int
    last_append_ns: int | None
    opened_from_ns: int | None
    keys: frozenset[int]  # starts of the records of gpu.progress that hold the rows


@dataclass(slots=True)
class _Node:
    through_ns: int
    last_append_ns: int | None = None
    opened_from_ns: int | None = None
    hours: dict[int, PackedRows] = field(default_factory=dict)  # by number
    whole: set[int] = field(default_factory=set)  # hours of which every window is there
    keys: set[int] = field(default_factory=set)


class History:
    """Takes what was written of the nodes of a partition, the latest first."""

    def __init__(self, hour_ns: int = HOUR_NS) -> None:
        self._hour_ns = hour_ns
        self._nodes: dict[NodeKey, _Node] = {}

    def take(self, written: Written) -> None:
        """One record more, written before all that were taken."""
        node = self._nodes.setdefault(written.node, _Node(written.through_ns))
        node.through_ns = max(node.through_ns, written.through_ns)
        node.last_append_ns = latest(node.last_append_ns, written.last_append_ns)
        node.opened_from_ns = latest(node.opened_from_ns, written.opened_from_ns)
        node.keys.add(written.start_ns)
        number = written.start_ns // self._hour_ns
        if number in node.whole:
            return
        if written.start_ns % self._hour_ns == 0:
            node.whole.add(number)  # an hour is written with all windows that it has by then
        if written.rows is not None:
            newer = node.hours.get(number)
            rows = written.rows
            node.hours[number] = rows if newer is None else PackedRows.of({**rows.unpack(), **newer.unpack()})

    def recent(self) -> Iterator[NodeProgress]:
        """The nodes whose live windows may be computed, with their last hours."""
        for key, node in self._nodes.items():
            rows: dict[int, WindowRow] = {}
            for number in self._recent_hours(node):
                rows.update(node.hours[number].unpack())
            keyframes = [s for s, row in rows.items() if row.statement and row.statement.has_keyframe]
            if keyframes and node.through_ns in rows:
                yield NodeProgress(
                    key,
                    rows,
                    node.through_ns,
                    node.last_append_ns,
                    node.opened_from_ns,
                    frozenset(node.keys),
                    since_ns=min(keyframes),
                )

    def nodes(self) -> Iterator[NodeHistory]:
        """All that was taken."""
        for key, node in self._nodes.items():
            yield NodeHistory(
                key,
                list(node.hours.values()),
                node.through_ns,
                node.last_append_ns,
                node.opened_from_ns,
                frozenset(node.keys),
            )

    def _recent_hours(self, node: _Node) -> Iterator[int]:
        newest = node.through_ns // self._hour_ns
        for number in range(newest, newest - RECENT_HOURS, -1):
            if number not in node.whole or number not in node.hours:
                return
            yield number
