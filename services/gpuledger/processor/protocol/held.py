"""The records of a node that are read and not finished, by window, within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuledger.contract.identity import RecordId
from gpuledger.processor.protocol.inputs import is_full
from gpuledger.processor.protocol.values import LogRecord, Reading, Rules

NOTHING: Mapping[int, LogRecord] = {}


@dataclass(slots=True)
class _Window:
    records: dict[int, LogRecord] = field(default_factory=dict)
    inputs: set[tuple[RecordId, int]] = field(default_factory=set)
    size_bytes: int = 0


class HeldRecords:
    """What waits for its window to be computed. Windows are named by their start."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._windows: dict[int, _Window] = {}

    def take(self, record: LogRecord) -> Reading:
        """Hold a record, unless a copy of it is held already or its window is full."""
        window = self._windows.setdefault(record.window_start_ns, _Window())
        key = record.identity, record.mend
        if key in window.inputs:
            return Reading.REPEATED
        if is_full(len(window.inputs), window.size_bytes, self._rules):
            return Reading.WINDOW_FULL
        window.records[record.offset] = record
        window.inputs.add(key)
        window.size_bytes += record.size_bytes
        return Reading.HELD

    def of(self, start: int) -> Mapping[int, LogRecord]:
        """The records held of a window, by offset."""
        window = self._windows.get(start)
        return NOTHING if window is None else window.records

    def size_bytes(self, start: int) -> int:
        """How much is held of a window."""
        window = self._windows.get(start)
        return 0 if window is None else window.size_bytes

    def drop(self, start: int, offsets: Iterable[int]) -> None:
        """Stop holding these records."""
        window = self._windows.get(start)
        if window is None:
            return
        for offset in offsets:
            record = window.records.pop(offset, None)
            if record is not None:
                window.inputs.discard((record.identity, record.mend))
                window.size_bytes -= record.size_bytes
        if not window.records:
            del self._windows[start]

    def take_all(self, start: int) -> list[LogRecord]:
        """Stop holding the records of a window; they are returned."""
        window = self._windows.pop(start, None)
        return [] if window is None else list(window.records.values())

    def starts(self) -> Iterable[int]:
        """The windows that records are held of."""
        return self._windows.keys()

    def __contains__(self, start: int) -> bool:
        return start in self._windows
