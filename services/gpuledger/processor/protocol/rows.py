"""The closed windows of a node, as gpu.progress holds them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import ItemsView, Iterator, KeysView

from gpuledger.processor.protocol.values import WindowRow


class Rows:
    """A row for each closed window that may still be restated, by its start."""

    def __init__(self) -> None:
        self.newest_inputs: int | None = None  # the highest closed window that has records
        self._rows: dict[int, WindowRow] = {}
        self._speaking: list[int] = []  # sorted: the windows that state something

    def put(self, start: int, row: WindowRow) -> None:
        """A window was computed."""
        before = self._rows.get(start)
        self._rows[start] = row
        if row.inputs and (self.newest_inputs is None or start > self.newest_inputs):
            self.newest_inputs = start
        speaks = row.statement is not None
        spoke = before is not None and before.statement is not None
        if speaks and not spoke:
            insort(self._speaking, start)

    def trim(self, before: int) -> None:
        """Forget the windows before that one, but for the last that states something."""
        spoken = bisect_left(self._speaking, before)
        kept = self._speaking[spoken - 1] if spoken else None
        for start in [start for start in self._rows if start < before and start != kept]:
            del self._rows[start]
        self._speaking = self._speaking[max(0, spoken - 1) :]

    def get(self, start: int) -> WindowRow | None:
        """The row of a window; None where it is not closed."""
        return self._rows.get(start)

    def items(self) -> ItemsView[int, WindowRow]:
        """Every window and its row."""
        return self._rows.items()

    def starts(self) -> KeysView[int]:
        """Every window."""
        return self._rows.keys()

    def speaking_before(self, start: int) -> Iterator[int]:
        """Earlier windows that state something, the nearest first."""
        for at in range(bisect_left(self._speaking, start) - 1, -1, -1):
            yield self._speaking[at]

    def speaking_behind(self, start: int) -> Iterator[int]:
        """Later windows that state something, the nearest first."""
        for at in range(bisect_right(self._speaking, start), len(self._speaking)):
            yield self._speaking[at]

    def __contains__(self, start: int) -> bool:
        return start in self._rows

    def __getitem__(self, start: int) -> WindowRow:
        return self._rows[start]

    def __len__(self) -> int:
        return len(self._rows)
