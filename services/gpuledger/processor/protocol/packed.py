"""Rows of an hour that nobody asks for, in some bytes each: a node has seventy thousand in eight days."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Mapping, Sequence
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuledger.processor.protocol.values import Layout, Statement, WindowRow

FAST = 1  # neighbouring rows hardly differ: more effort saves little
NOT_SAID = -1
Longs: TypeAlias = npt.NDArray[np.int64]


class PackedRows:
    """Rows that can not be changed, at least one; ``unpack`` makes them anew.

    What is asked of all rows of a node can be told without that: where they start, which of them state
    something, what they may be outdated by.
    """

    __slots__ = (
        "_layouts",
        "_packed",
        "alive",
        "least_generation",
        "newest_inputs",
        "newest_keyframe",
        "speaking",
        "starts",
    )

    def __init__(self, starts: Longs, columns: Sequence[Longs], layouts: Sequence[Layout]) -> None:
        """``columns``, by ascending start: generation, inputs, lowest, highest, alive_ns, input_bytes, then
        of the statement 1 where there is one, keyframe_offset, index in ``layouts``, 1 for a goodbye,
        goodbye_append_ns; each NOT_SAID (0 for a goodbye) where it is None."""
        generation, inputs, _, _, alive_ns, _, said, keyframe, *_ = columns
        has_inputs = inputs > 0
        self._layouts = layouts
        self._packed = zlib.compress(np.diff(np.stack(columns), axis=1, prepend=0).tobytes(), FAST)
        self.starts = _sequence(starts)
        self.speaking = _sequence(starts[said > 0])
        self.least_generation = int(generation.min())
        self.newest_inputs = _last(starts[has_inputs])
        self.newest_keyframe = _last(starts[has_inputs & (keyframe >= 0)])
        self.alive: frozenset[tuple[bool, int]] = frozenset(
            (with_inputs, charged_ns)
            for with_inputs, chosen in ((True, alive_ns[has_inputs]), (False, alive_ns[~has_inputs]))
            for charged_ns in _distinct(chosen)
        )
        """What was charged: whether a row has inputs, and its alive_ns, each pair once."""

    @classmethod
    def of(cls, rows: Mapping[int, WindowRow]) -> Self:
        """Pack rows by their start."""
        layouts: list[Layout] = []
        starts = sorted(rows)
        columns = np.array([_values(rows[start], layouts) for start in starts], np.int64).T
        return cls(np.array(starts, np.int64), list(columns), layouts)

    def unpack(self) -> dict[int, WindowRow]:
        """The rows by their start."""
        differences = np.frombuffer(zlib.decompress(self._packed), np.int64)
        columns = np.cumsum(differences.reshape(-1, len(self.starts)), axis=1).tolist()
        rows = zip(*columns, strict=True)
        return {start: self._row(*values) for start, values in zip(self.starts, rows, strict=True)}

    def _row(
        self, generation: int, inputs: int, lowest: int, highest: int, alive_ns: int, input_bytes: int,
        said: int, keyframe: int, layout: int, goodbye: int, append_ns: int,
    ) -> WindowRow:  # fmt: skip
        statement = None
        if said:
            statement = Statement(
                layout=None if layout == NOT_SAID else self._layouts[layout],
                keyframe_offset=keyframe,
                goodbye=bool(goodbye),
                goodbye_append_ns=None if append_ns == NOT_SAID else append_ns,
            )
        return WindowRow(generation, inputs, lowest, highest, statement, alive_ns, input_bytes)


def _values(row: WindowRow, layouts: list[Layout]) -> tuple[int, ...]:
    said = row.statement
    statement = (0, NOT_SAID, NOT_SAID, 0, NOT_SAID)
    if said is not None:
        append_ns = NOT_SAID if said.goodbye_append_ns is None else said.goodbye_append_ns
        layout = NOT_SAID if said.layout is None else _index(layouts, said.layout)
        statement = (1, said.keyframe_offset, layout, int(said.goodbye), append_ns)
    return (
        row.generation, row.inputs, row.lowest, row.highest, row.alive_ns, row.input_bytes, *statement,
    )  # fmt: skip


def _index(layouts: list[Layout], layout: Layout) -> int:
    for index, known in enumerate(layouts):
        if known is layout or known == layout:
            return index
    layouts.append(layout)
    return len(layouts) - 1


def _sequence(starts: Longs) -> Sequence[int]:
    """Ascending numbers; those of an hour without a gap are a range."""
    if not starts.size:
        return ()
    first, last = int(starts[0]), int(starts[-1])
    step = int(starts[1]) - first if starts.size > 1 else 1
    if last - first == step * (starts.size - 1) and not np.any(np.diff(starts) != step):
        return range(first, last + 1, step)
    return array("q", starts.tobytes())


def _last(starts: Longs) -> int | None:
    return int(starts[-1]) if starts.size else None


def _distinct(values: Longs) -> list[int]:
    if values.size and values[0] == values[-1] and not np.any(values != values[0]):
        return [int(values[0])]
    found: list[int] = np.unique(values).tolist()
    return found
