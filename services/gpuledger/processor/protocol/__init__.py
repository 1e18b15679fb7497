"""PROTOCOL.md's decisions as a pure state machine: no I/O and no clock.

``PartitionOwner`` takes records, lifetimes, generations, progress and marks, and plans, settles and
commits windows; ``work`` is the order in which a shell must carry that out.
"""

from gpuledger.processor.protocol.history import History, NodeHistory, Written
from gpuledger.processor.protocol.inputs import distinct, label_of, refused, statement_of, usable
from gpuledger.processor.protocol.node import NodeState
from gpuledger.processor.protocol.packed import PackedRows
from gpuledger.processor.protocol.partition import MAX_WINDOWS_PER_ROUND, OffsetGap, PartitionOwner
from gpuledger.processor.protocol.values import (
    Announcement,
    Batch,
    Decision,
    Label,
    Lifetime,
    LogRecord,
    NodeProgress,
    Reading,
    Rules,
    Skipped,
    Statement,
    WindowRow,
    WindowTask,
    offsets,
)
from gpuledger.processor.protocol.work import Acknowledge, Effect, Gather, Progress, Publish, work

__all__ = [
    "MAX_WINDOWS_PER_ROUND",
    "Acknowledge",
    "Announcement",
    "Batch",
    "Decision",
    "Effect",
    "Gather",
    "History",
    "Label",
    "Lifetime",
    "LogRecord",
    "NodeHistory",
    "NodeProgress",
    "NodeState",
    "OffsetGap",
    "PackedRows",
    "PartitionOwner",
    "Progress",
    "Publish",
    "Reading",
    "Rules",
    "Skipped",
    "Statement",
    "WindowRow",
    "WindowTask",
    "Written",
    "distinct",
    "label_of",
    "offsets",
    "refused",
    "statement_of",
    "usable",
    "work",
]
