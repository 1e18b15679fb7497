"""An owner of a partition in whose log a node told of windows, and what it decides."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.contract.records import Device, NodeLayout
from gpuledger.contract.windows import HOUR_NS, WindowGrid
from gpuledger.processor.protocol import (
    Announcement,
    Decision,
    Gather,
    History,
    Lifetime,
    LogRecord,
    PackedRows,
    PartitionOwner,
    Publish,
    Rules,
    Statement,
    WindowRow,
    Written,
    work,
)

S = 1_000_000_000
W = 10 * S
HOUR = 1_699_999_200 * S  # the hour that runs
START = HOUR + 60 * W  # the window behind the last one that an earlier owner closed
NODE, OTHER = NodeKey("c", "n"), NodeKey("c", "other")
LAYOUT = NodeLayout(devices=[Device("GPU-0", index=0)])
OFFSETS = 10_000  # where the new owner begins


def record(offset: int, start: int, node: NodeKey = NODE, keyframe: bool = True) -> LogRecord:
    return LogRecord(
        offset, START + 5 * S, RecordId(*node, "boot", 5, offset), start, 0,
        last=True, keyframe=keyframe, layout=LAYOUT if keyframe else None,
    )  # fmt: skip


def row(offset: int, statement: Statement | None = None, **more: int) -> WindowRow:
    return WindowRow(0, 1, offset, offset, statement, **more)


def speaking(offset: int) -> WindowRow:
    return row(offset, Statement(LAYOUT, offset))


def hour_of(hour_ns: int, node: NodeKey = NODE, windows: int = 360) -> dict[int, WindowRow]:
    """All windows of an hour, each with a keyframe; no two have one offset."""
    return {
        start: speaking(5000 + (start - HOUR) // W)
        for start in range(hour_ns, hour_ns + windows * W, W)
        if start < START
    }


def taken(*hours: dict[int, WindowRow], node: NodeKey = NODE, opened_from_ns: int | None = None) -> History:
    """What was written of a node, hour by hour, the last one first."""
    history = History()
    for rows in sorted(hours, key=min, reverse=True):
        hour = min(rows) - min(rows) % HOUR_NS
        history.take(Written(node, hour, PackedRows.of(rows), START - W, START, opened_from_ns))
    return history


def owner(
    recent: History,
    rules: Rules | None = None,
    lifetimes: Sequence[tuple[NodeKey, Lifetime]] = (),
    announcements: Sequence[Announcement] = (),
) -> PartitionOwner:
    return PartitionOwner(
        0,
        OFFSETS,
        lambda cluster: WindowGrid(W),
        rules,
        progress=recent.recent(),
        lifetimes=lifetimes,
        announcements=announcements,
        whole=False,
    )


def work_off(node: PartitionOwner, log: Sequence[LogRecord]) -> list[int]:
    """Do all that is due; the windows that were decided."""
    decided: list[int] = []
    while tasks := node.plan():
        unions = {}
        for task in tasks:
            low, high = task.fetch or (0, -1)
            unions[task.node, task.window_start_ns] = [
                one
                for one in log
                if (one.offset in task.held or low <= one.offset <= high)
                and (one.identity.node_key, one.window_start_ns) == task[:2]
            ]
        batch = node.settle(tasks, unions)
        decided += [decision.window_start_ns for decision in batch.decisions]
        node.commit(batch)
    return decided


def decided_by(node: PartitionOwner, log: Sequence[LogRecord]) -> list[Decision]:
    """What one round over a node without rows that would have to be read again decides."""
    decided: list[Decision] = []
    effects, answer = work([node]), None
    while True:
        try:
            effect = effects.send(answer)
        except StopIteration:
            return decided
        answer = None
        if isinstance(effect, Gather):
            answer = {
                (task.node, task.window_start_ns): [one for one in log if one.offset in task.held]
                for _, task in effect.tasks
            }
        elif isinstance(effect, Publish):
            decided += [decision for _, batch in effect.batches for decision in batch.decisions]
