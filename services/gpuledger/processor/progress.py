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
    PackedRows,
    PartitionOwner,
    Statement,
    WindowRow,
    Written,
)

NOT_SAID = -1
TOLD_CLUSTER = "-"  # no cluster's name: a record that says up to where a topic's refusals are told


def progress_key(key: NodeKey, start_ns: int) -> bytes:
    """``cluster/node/start``: what gpu.progress is compacted by; of an hour, or of a part of one."""
    return b"%s/%d" % (key.key, start_ns)


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
        record.first_window_ns = node.first if node.is_whole else None
        record.highest_window_ns = node.newest
        record.last_append_ns = node.last_append_ns or 0
        record.opened_from_ns = node.opened_from
        yield record


def hours_of(progress: NodeProgress, length_ns: int) -> Iterator[HourRecord]:
    """The records that say what ``loaded`` makes ``progress`` of; ``length_ns`` is that of its windows."""
    hours = {hour_start(start) for start in progress.rows} or {hour_start(progress.through_ns)}
    for hour in sorted(hours):
        rows = {start: row for start, row in progress.rows.items() if hour_start(start) == hour}
        record = _hour(progress.node, hour, length_ns, progress.through_ns, rows)
        record.last_append_ns = progress.last_append_ns or 0
        record.opened_from_ns = progress.opened_from_ns
        yield record


def halves(record: HourRecord) -> tuple[HourRecord, HourRecord]:
    """An hour's record as two of fewer windows, each with the layouts that it needs."""
    middle = record.window_start_ns.size // 2
    return _part(record, slice(None, middle)), _part(record, slice(middle, None))


def _part(record: HourRecord, part: slice) -> HourRecord:
    columns: dict[str, Any] = {name: getattr(record, name)[part] for name in _COLUMNS}
    used, places = np.unique(columns["layout"], return_inverse=True)
    stated = used[used >= 0].tolist()
    columns["layout"] = places.reshape(-1) - (used.size - len(stated))
    return HourRecord(
        cluster=record.cluster,
        node=record.node,
        hour_start_ns=record.hour_start_ns if not part.start else int(columns["window_start_ns"][0]),
        closed_through_ns=record.closed_through_ns,
        window_length_ns=record.window_length_ns,
        first_window_ns=record.first_window_ns,
        highest_window_ns=record.highest_window_ns,
        last_append_ns=record.last_append_ns,
        opened_from_ns=record.opened_from_ns,
        layouts=[record.layouts[index] for index in stated],
        **columns,
    )


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
            row.input_bytes,
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
    "input_bytes",
)


def loaded(records: Iterable[HourRecord]) -> list[NodeProgress]:
    """What a new owner learns, from all records in the order of the topic: of a window the last counts."""
    rows: dict[NodeKey, dict[int, WindowRow]] = {}
    keys: dict[NodeKey, set[int]] = {}
    latest: dict[NodeKey, tuple[int, int, int]] = {}
    for record in records:
        if record.cluster == TOLD_CLUSTER:
            continue
        key = NodeKey(record.cluster, record.node)
        rows.setdefault(key, {}).update(_rows(record))
        keys.setdefault(key, set()).add(record.hour_start_ns)
        said = record.closed_through_ns, record.last_append_ns, record.opened_from_ns or 0
        through, append, opened = zip(said, latest.get(key, said), strict=True)
        latest[key] = max(through), max(append), max(opened)
    return [
        NodeProgress(key, rows[key], through, append or None, opened or None, frozenset(keys[key]))
        for key, (through, append, opened) in latest.items()
    ]


def written(record: HourRecord) -> Written:
    """What a record says; its windows as they are packed, never as objects."""
    return Written(
        NodeKey(record.cluster, record.node),
        record.hour_start_ns,
        _packed(record),
        record.closed_through_ns,
        record.last_append_ns or None,
        record.opened_from_ns or None,
    )


def _packed(record: HourRecord) -> PackedRows | None:
    starts = record.window_start_ns
    if not starts.size:
        return None
    columns = {name: getattr(record, name) for name in _COLUMNS}
    if not columns["input_bytes"].size:  # a writer that did not count bytes yet
        columns["input_bytes"] = np.zeros_like(starts)
    order = np.argsort(starts, kind="stable")
    if np.any(np.diff(order) != 1):
        columns = {name: values[order] for name, values in columns.items()}
    goodbye = columns["goodbye"] != 0
    keyframe = columns["keyframe_offset"]
    said = (keyframe >= 0) | goodbye
    return PackedRows(
        columns["window_start_ns"],
        (
            columns["generation"],
            columns["inputs"],
            columns["lowest_offset"],
            columns["highest_offset"],
            columns["alive_ns"],
            columns["input_bytes"],
            said.astype(np.int64),
            keyframe,
            np.where(said, columns["layout"], NOT_SAID),
            goodbye.astype(np.int64),
            np.where(goodbye, columns["goodbye_append_ns"], NOT_SAID),
        ),
        record.layouts,
    )


def _rows(record: HourRecord) -> Iterator[tuple[int, WindowRow]]:
    columns = [getattr(record, name).tolist() for name in _COLUMNS]
    if not columns[-1]:  # a writer that did not count bytes yet
        columns[-1] = [0] * len(columns[0])
    for start, generation, inputs, low, high, keyframe, layout, goodbye, said_ns, alive_ns, size in zip(
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
        yield start, WindowRow(generation, inputs, low, high, statement, alive_ns, size)
