"""Rows of an hour that nobody asks for, in some bytes each: a node has seventy thousand in eight days."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Mapping

import numpy as np

from gpuledger.processor.protocol.values import Layout, Statement, WindowRow

FAST = 1  # neighbouring rows hardly differ: more effort saves little
NOT_SAID = -1


class PackedRows:
    """Rows that can not be changed; ``unpack`` makes them anew."""

    __slots__ = ("_layouts", "_packed", "starts")

    def __init__(self, rows: Mapping[int, WindowRow]) -> None:
        self._layouts: list[Layout] = []
        self.starts = array("q", sorted(rows))
        columns = np.array([self._values(rows[start]) for start in self.starts], np.int64).T
        self._packed = zlib.compress(np.diff(columns, axis=1, prepend=0).tobytes(), FAST)

    def unpack(self) -> dict[int, WindowRow]:
        """The rows by their start."""
        differences = np.frombuffer(zlib.decompress(self._packed), np.int64)
        columns = np.cumsum(differences.reshape(-1, len(self.starts)), axis=1).tolist()
        rows = zip(*columns, strict=True)
        return {start: self._row(*values) for start, values in zip(self.starts, rows, strict=True)}

    def _values(self, row: WindowRow) -> tuple[int, ...]:
        said = row.statement
        statement = (0, NOT_SAID, NOT_SAID, 0, NOT_SAID)
        if said is not None:
            append_ns = NOT_SAID if said.goodbye_append_ns is None else said.goodbye_append_ns
            layout = NOT_SAID if said.layout is None else self._index(said.layout)
            statement = (1, said.keyframe_offset, layout, int(said.goodbye), append_ns)
        return (
            row.generation, row.inputs, row.lowest, row.highest, row.alive_ns, row.input_bytes, *statement,
        )  # fmt: skip

    def _index(self, layout: Layout) -> int:
        for index, known in enumerate(self._layouts):
            if known is layout or known == layout:
                return index
        self._layouts.append(layout)
        return len(self._layouts) - 1

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
