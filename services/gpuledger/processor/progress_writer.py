"""What is written to gpu.progress after a round: the hours that it touched, and tombstones of old ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpuledger.bus import SchemaRegistry, register
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import NodeProgress as HourRecord
from gpuledger.contract.records import encode, record_name
from gpuledger.contract.windows import HOUR_NS
from gpuledger.contract.wire import frame
from gpuledger.processor.progress import halves, hours_to_write, progress_key
from gpuledger.processor.protocol import Batch, NodeHistory, NodeState, PartitionOwner

RECORD_BYTES = 4 << 20  # half of what a record may have; an hour that needs more is written in parts


class ProgressWriter:
    """Knows which records of gpu.progress there are of one partition. Owned by the engine's thread."""

    def __init__(self) -> None:
        self._starts: dict[NodeKey, set[int]] = defaultdict(set)
        self._trimmed_before = 0

    def know(self, histories: Iterable[NodeHistory]) -> None:
        """These are there, written by earlier owners."""
        for history in histories:
            self._starts[history.node].update(history.keys)

    def records(
        self, owner: PartitionOwner, batch: Batch, registry: SchemaRegistry
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """(key, value) of each record to write, in one transaction. Raises RegistryUnavailable."""
        for hour in hours_to_write(owner, batch):
            key = NodeKey(hour.cluster, hour.node)
            for part, body in within(RECORD_BYTES, hour):
                self._starts[key].add(part.hour_start_ns)
                yield (
                    progress_key(key, part.hour_start_ns),
                    frame(register(registry, record_name(part)), body),
                )
        if owner.is_whole and owner.open_from_ns > self._trimmed_before:
            self._trimmed_before = owner.open_from_ns
            yield from self._tombstones(owner)

    def _tombstones(self, owner: PartitionOwner) -> Iterator[tuple[bytes, None]]:
        for key, starts in list(self._starts.items()):
            for start in sorted(expired(starts, owner.nodes.get(key), owner.open_from_ns)):
                starts.discard(start)
                yield progress_key(key, start), None
            if not starts:
                del self._starts[key]


def within(limit_bytes: int, record: HourRecord) -> Iterator[tuple[HourRecord, bytes]]:
    """An hour's record in as few parts as fit, each with its body; one window is never parted."""
    body = encode(record)
    if len(body) <= limit_bytes or record.window_start_ns.size <= 1:
        yield record, body
        return
    for half in halves(record):
        yield from within(limit_bytes, half)


def expired(starts: set[int], node: NodeState | None, before: int) -> set[int]:
    """Which of a node's records of gpu.progress go: what they hold is neither restated nor spoken from.

    ``starts`` are those that there are, ``before`` is where windows begin to be kept. All go together once
    the node's life is over and nothing of it is due. While something is, what it is computed from stays: the
    inputs of a window that is restated, and the keyframe that it speaks from, or an owner that takes over
    meanwhile would know of neither.
    """
    if node is not None and node.opened_from is not None:
        before = min(before, node.opened_from)
    old = {start for start in starts if start + HOUR_NS <= before}
    if node is None or (old == starts and node.is_over):
        return old
    needed = [start for start in node.rows.starts() if start < before]
    return {start for start in old if not any(start <= window < start + HOUR_NS for window in needed)}
