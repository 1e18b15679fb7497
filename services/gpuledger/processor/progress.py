"""gpu.progress: the protocol's rows as records of one node and hour, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import NodeLayout
from gpuledger.contract.records import NodeProgress as HourRecord
from gpuledger.contract.windows import HOUR_NS, hour_start
from gpuledger.processor.protocol import (
    Batch,
    NodeProgress,
    PartitionOwner,
    Statement,
    WindowRow,
)


def progress_key(key: NodeKey, hour_start_ns: int) -> bytes:
    """``cluster/node/hour``: what gpu.progress is compacted by."""
    return b"%s/%d" % (key.key, hour_start_ns)


def hours_to_write(owner: PartitionOwner, batch: Batch) -> Iterator[HourRecord]:
    """The records that make ``batch`` known: every hour that it touches, whole."""
    touched = sorted({(key, hour_start(start)) for key, start in batch.rows})
    latest: dict[NodeKey, int] = {}
    for key, start in batch.rows:
        latest[key] = max(start, latest.get(key, start))
    for key, hour in touched:
        node = owner.nodes[key]
        rows = {}
        for start in range(hour, hour + HOUR_NS, node.length_ns):
            row = batch.rows.get((key, start)) or node.rows.get(start)
            if row is not None:
                rows[start] = row
        through = latest[key] if node.through is None else max(latest[key], node.through)
        record = _hour(key, hour, node.length_ns, through, rows)
        record.first_window_ns, record.highest_window_ns = node.first, node.newest
        record.last_append_ns = node.last_append_ns or 0
        yield record


def _hour(
    key: NodeKey, hour: int, length_ns: int, through_ns: int, rows: Mapping[int, WindowRow]
) -> HourRecord:
    layouts: list[NodeLayout] = []
    known: dict[int, int] = {}
    columns: dict[str, list[int]] = {name: [] for name in _COLUMNS}
    for start, row in rows.items():
        said = row.statement
        index = -1
        if said is not None and said.layout is not None:
            index = known.get(id(said.layout), -1)
            if index < 0:
                if said.layout not in layouts:
                    layouts.append(said.layout)
                index = known[id(said.layout)] = layouts.index(said.layout)
        values = (
            start,
            row.generation,
            row.inputs,
            row.lowest,
            row.highest,
            said.keyframe_offset if said is not None else -1,
            index,
            int(said is not None and said.goodbye),
            (said.goodbye_append_ns or 0) if said is not None else 0,
            row.alive_ns,
        )
        for name, value in zip(_COLUMNS, values, strict=True):
            columns[name].append(value)
    arrays: dict[str, Any] = {name: np.array(values, np.int64) for name, values in columns.items()}
    return HourRecord(
        cluster=key.cluster,
        node=key.node,
        hour_start_ns=hour,
        closed_through_ns=through_ns,
        window_length_ns=length_ns,
        layouts=layouts,
        **arrays,
    )


_COLUMNS = (
    "window_start_ns",
    "generation",
    "inputs",
    "lowest_offset",
    "highest_offset",
    "keyframe_offset",
    "layout",
    "goodbye",
    "goodbye_append_ns",
    "alive_ns",
)


def loaded(records: Iterable[HourRecord]) -> list[NodeProgress]:
    """What a new owner learns, from all records in the order of the topic: the last of an hour counts."""
    hours: dict[tuple[NodeKey, int], HourRecord] = {}
    through: dict[NodeKey, int] = {}
    append: dict[NodeKey, int] = {}
    for record in records:
        key = NodeKey(record.cluster, record.node)
        hours[key, record.hour_start_ns] = record
        through[key] = max(record.closed_through_ns, through.get(key, record.closed_through_ns))
        append[key] = max(record.last_append_ns, append.get(key, 0))
    rows: dict[NodeKey, dict[int, WindowRow]] = {key: {} for key in through}
    for (key, _), record in hours.items():
        rows[key].update(_rows(record))
    return [NodeProgress(key, rows[key], through[key], append[key] or None) for key in through]


def _rows(record: HourRecord) -> Iterator[tuple[int, WindowRow]]:
    columns = [getattr(record, name).tolist() for name in _COLUMNS]
    for start, generation, inputs, lowest, highest, keyframe, layout, goodbye, said_ns, alive_ns in zip(
        *columns, strict=True
    ):
        statement = None
        if keyframe >= 0 or goodbye:
            statement = Statement(
                layout=record.layouts[layout] if layout >= 0 else None,
                keyframe_offset=keyframe,
                goodbye=bool(goodbye),
                goodbye_append_ns=said_ns if goodbye else None,
            )
        yield start, WindowRow(generation, inputs, lowest, highest, statement, alive_ns)
