"""The closed windows of a node, as gpu.progress holds them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby

import numpy as np

from gpuledger.contract.windows import HOUR_NS
from gpuledger.processor.protocol.packed import PackedRows
from gpuledger.processor.protocol.values import WindowRow

OPEN_HOURS = 3  # of a node, as objects: the one that runs, the one before, and one that is restated


def latest(*starts: int | None) -> int | None:
    """The highest of those that are known."""
    return max((start for start in starts if start is not None), default=None)


class Rows:
    """A row for each closed window that may still be restated, by its start.

    The hours that were asked for last are held as objects, all others packed.
    """

    def __init__(self) -> None:
        self.newest_inputs: int | None = None  # the highest closed window that has records
        self._open: dict[int, dict[int, WindowRow]] = {}  # by hour, the one asked for last at the end
        self._packed: dict[int, PackedRows] = {}
        self._speaking = array("q")  # sorted: the windows that state something

    def put(self, start: int, row: WindowRow) -> None:
        """A window was computed."""
        hour = self._hour(start)
        before = hour.get(start)
        hour[start] = row
        if row.inputs:
            self.newest_inputs = latest(self.newest_inputs, start)
        spoke = before is not None and before.statement is not None
        if spoke != (row.statement is not None):
            at = bisect_left(self._speaking, start)
            if spoke:
                del self._speaking[at]
            else:
                self._speaking.insert(at, start)

    def fill(self, rows: Mapping[int, WindowRow]) -> None:
        """Put all rows of a node that has none yet: days of them, hour by hour."""
        starts = sorted(rows)
        for number, members in groupby(starts, lambda start: start // HOUR_NS):
            self._open[number] = {start: rows[start] for start in members}
            self._pack_oldest()
        self._speaking = array("q", [start for start in starts if rows[start].statement is not None])
        self.newest_inputs = max((start for start in starts if rows[start].inputs), default=None)

    def add_older(self, hours: Iterable[PackedRows]) -> None:
        """Hours as they were written earlier than all that is here: of a window they have what is not known.

        None of them reaches from one hour into the next.
        """
        speaking = [np.array(self._speaking, np.int64)]
        for packed in hours:
            if all(start in self for start in packed.starts):
                continue
            number = packed.starts[0] // HOUR_NS
            if self._hour_size(number):
                newer = self._taken(number)
                packed = PackedRows.of({**packed.unpack(), **newer})
            self._packed[number] = packed
            speaking.append(np.array(packed.speaking, np.int64))
            self.newest_inputs = latest(self.newest_inputs, packed.newest_inputs)
        self._speaking = array("q", np.unique(np.concatenate(speaking)).tobytes())

    def trim(self, before: int) -> None:
        """Forget the windows before that one, but for the last that states something."""
        spoken = bisect_left(self._speaking, before)
        kept = self._speaking[spoken - 1] if spoken else None
        for number in [n for n in (*self._open, *self._packed) if n * HOUR_NS < before]:
            rows = self._taken(number)
            left = {start: row for start, row in rows.items() if start >= before or start == kept}
            if left:
                self._packed[number] = PackedRows.of(left)
        del self._speaking[: max(0, spoken - 1)]

    def get(self, start: int) -> WindowRow | None:
        """The row of a window; None where it is not closed."""
        return self._hour(start).get(start) if start in self else None

    def items(
        self, wanted: Callable[[PackedRows], bool] = lambda packed: True
    ) -> Iterator[tuple[int, WindowRow]]:
        """Every window and its row, in no order; of packed hours those that are ``wanted``."""
        for rows in list(self._open.values()):
            yield from list(rows.items())
        for packed in list(self._packed.values()):
            if wanted(packed):
                yield from packed.unpack().items()

    def starts(self) -> Iterator[int]:
        """Every window, in no order."""
        for rows in self._open.values():
            yield from rows
        for packed in self._packed.values():
            yield from packed.starts

    def is_whole(self, hour_ns: int, windows: int) -> bool:
        """Whether all of the ``windows`` of the hour that begins there have a row."""
        return self._hour_size(hour_ns // HOUR_NS) == windows

    def speaking_before(self, start: int) -> Iterator[int]:
        """Earlier windows that state something, the nearest first."""
        for at in range(bisect_left(self._speaking, start) - 1, -1, -1):
            yield self._speaking[at]

    def speaking_behind(self, start: int) -> Iterator[int]:
        """Later windows that state something, the nearest first."""
        for at in range(bisect_right(self._speaking, start), len(self._speaking)):
            yield self._speaking[at]

    def __contains__(self, start: int) -> bool:
        number = start // HOUR_NS
        rows = self._open.get(number)
        if rows is not None:
            return start in rows
        packed = self._packed.get(number)
        if packed is None:
            return False
        at = bisect_left(packed.starts, start)
        return at < len(packed.starts) and packed.starts[at] == start

    def __getitem__(self, start: int) -> WindowRow:
        return self._hour(start)[start]

    def __len__(self) -> int:
        return sum(map(len, self._open.values())) + sum(len(one.starts) for one in self._packed.values())

    def _hour(self, start: int) -> dict[int, WindowRow]:
        """The rows of the hour of a window, open."""
        number = start // HOUR_NS
        self._open[number] = rows = self._taken(number)
        self._pack_oldest()
        return rows

    def _hour_size(self, number: int) -> int:
        rows = self._open.get(number)
        if rows is not None:
            return len(rows)
        packed = self._packed.get(number)
        return 0 if packed is None else len(packed.starts)

    def _pack_oldest(self) -> None:
        if len(self._open) > OPEN_HOURS:
            oldest = next(iter(self._open))
            left = self._open.pop(oldest)
            if left:
                self._packed[oldest] = PackedRows.of(left)

    def _taken(self, number: int) -> dict[int, WindowRow]:
        """The rows of an hour, neither open nor packed any more."""
        rows = self._open.pop(number, None)
        if rows is not None:
            return rows
        packed = self._packed.pop(number, None)
        return {} if packed is None else packed.unpack()
