"""The source of calls that Tetragon's JSON export is."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Final

import numpy as np

from gpuledger.agent import metrics
from gpuledger.agent.probes.events import (
    RAW_EVENT,
    UNKNOWN_ORDINAL,
    Losses,
    RawEvents,
    Resident,
)
from gpuledger.agent.probes.symbol import Effect, Symbol
from gpuledger.agent.probes.unprobed import Unprobed
from gpuledger.agent.tetragon.arguments import arguments_of, traced_symbols
from gpuledger.agent.tetragon.follow import FollowedFile
from gpuledger.agent.tetragon.lines import Call, Dropped, UnreadableLine, read_line
from gpuledger.agent.tetragon.processes import REMEMBERED, TetragonReader
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import ConfigError, Unsupported

MISSING: Final = ("duration_ns", "launched_threads", "result")
"""Columns that Tetragon's events can not fill: they see the entry of a call alone."""
DELAY_NS: Final = 2 * NS_PER_S
"""Tetragon holds an event back until it knows its pod, for a second or so, and then writes it out."""
DRAIN_BYTES: Final = 8 << 20
"""Of one drain: some 4,000 lines, a twentieth of a second's work. What is beyond waits in the file."""
_MAKES_CONTEXT: Final = frozenset({Effect.CREATE_CONTEXT, Effect.CREATE_GREEN, Effect.RETAIN_PRIMARY})
_LARGEST: Final = (1 << 63) - 1  # what a column of the contract holds

_Row = tuple[int, int, int, int, int, int, int, int, int, int]
_COLUMNS: Final = (
    "time_ns",
    "cgroup_id",
    "bytes",
    "function",
    "stream",
    "start_ns",
    "pid",
    "tid",
    "operation",
    "ordinal",
)


class TetragonSource(Unprobed):
    """An `EventSource` over the file to which Tetragon exports (export-filename), of policies as
    `tracing_policies` makes them.

    It begins at the end of the file. What was written before, while no agent ran, lies between two epochs,
    which is unobserved whoever watched; so a restart counts nothing twice. A line that can not be read is
    skipped and counts as one lost call, as do the events of which Tetragon says that it did not export them.
    """

    def __init__(self, path: Path, reader: TetragonReader, clock: Clock) -> None:
        self._path = path
        self._file = FollowedFile(path)
        self._reader = reader
        self._clock = clock
        self._symbols = {
            symbol.name: (symbol, tuple(each.name for each in arguments_of(symbol)))
            for symbol in traced_symbols()
        }
        self._devices: OrderedDict[str, frozenset[int]] = OrderedDict()  # exec id -> devices of its contexts
        self._since_ns: int | None = None
        self._unreadable = 0
        self._dropped = 0

    @property
    def skipped_lines(self) -> int:
        """Lines that could not be read, since the start."""
        return self._unreadable + self._file.left_out

    @property
    def missing(self) -> tuple[str, ...]:
        """See EventSource.missing."""
        return MISSING

    @property
    def delay_ns(self) -> int:
        """See EventSource.delay_ns."""
        return DELAY_NS

    def start(self) -> None:
        """See EventSource.start. A file that is not there yet is waited for. Raises ConfigError."""
        if self._since_ns is not None:
            return
        if not self._path.parent.is_dir():
            raise ConfigError("no such directory: is Tetragon's export mounted here?", str(self._path.parent))
        try:
            self._file.open()
        except OSError as error:
            raise ConfigError(error.strerror or "can not be read", str(self._path)) from error
        self._since_ns = self._clock.boot_ns()

    def drain(self) -> RawEvents:
        """See EventSource.drain. In the order of the file, which is nearly that of time."""
        if self._since_ns is None:
            raise Unsupported("the event source is not started")
        now_ns = self._clock.boot_ns()
        offset_ns = self._clock.unix_ns() - now_ns
        rows = []
        for line in self._file.read(DRAIN_BYTES):
            call = self._read(line)
            if call is not None and call.time_ns - offset_ns >= self._since_ns:
                row = self._row(call, offset_ns, now_ns)
                if row is not None:
                    rows.append(row)
        metrics.EXPORT_SKIPPED_LINES.set(self.skipped_lines)
        events = np.zeros(len(rows), RAW_EVENT)
        events["count"] = 1
        for name, values in zip(_COLUMNS, zip(*rows, strict=True), strict=False):
            events[name] = values
        return events

    def _read(self, line: bytes) -> Call | None:
        try:
            said = read_line(line)
        except UnreadableLine:
            self._unreadable += 1
            return None
        if isinstance(said, Dropped):
            self._dropped += said.events
            return None
        return said

    def _row(self, call: Call, offset_ns: int, now_ns: int) -> _Row | None:
        found = self._symbols.get(call.symbol)
        if found is None:
            return None  # of an older or a newer policy
        symbol, names = found
        given = dict(zip(names, call.arguments, strict=False))
        process = self._reader.identify(call, min(call.started_ns - offset_ns, now_ns))
        return (
            min(call.time_ns - offset_ns, now_ns),
            process.cgroup_id,
            _bytes(symbol, given),
            given.get("function", 0),
            given.get("stream", 0),
            process.start_ns,
            call.pid,
            call.tid,
            int(symbol.operation),
            self._ordinal(symbol, call.exec_id, given),
        )

    def _ordinal(self, symbol: Symbol, exec_id: str, given: dict[str, int]) -> int:
        """Which contexts are current is not told: a process with contexts on one device means that one."""
        device = given.get("device")
        if device is not None and not 0 <= device < 1 << 15:
            return UNKNOWN_ORDINAL
        if device is not None and symbol.effect in _MAKES_CONTEXT:
            self._devices[exec_id] = self._devices.get(exec_id, frozenset()) | {device}
            if len(self._devices) > REMEMBERED:
                self._devices.popitem(last=False)
        if device is not None:
            return device
        devices = self._devices.get(exec_id, frozenset())
        return next(iter(devices)) if len(devices) == 1 else UNKNOWN_ORDINAL

    def losses(self) -> Losses:
        """See EventSource.losses."""
        return Losses(ring_full=self._dropped + self.skipped_lines)

    def resident(self) -> list[Resident]:
        """See EventSource.resident; addresses are not told, so memory is NVML's to say."""
        return []

    def close(self) -> None:
        """See EventSource.close. The reader is whose it was."""
        self._file.close()


def _bytes(symbol: Symbol, given: dict[str, int]) -> int:
    """What a copy or a fill was asked to move."""
    return min((given.get("bytes", 0) << symbol.scale) * given.get("rows", 1), _LARGEST)
