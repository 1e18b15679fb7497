"""Where the inputs of a window that was closed before are read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from gpuledger.bus import Incoming
from gpuledger.bus.log import Log
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.protocol import WindowTask

NEAR_OFFSETS = 2000  # ranges closer than this are fetched in one go: seeking costs more than skipping


class WindowInputs(Protocol):
    """The records of windows by the offsets that gpu.progress holds. Owned by the engine's thread."""

    def read(self, partition: int, windows: Sequence[WindowTask]) -> Iterator[Incoming]:
        """Every record that is still there between the lowest and highest offset of each of ``windows``.

        Records of others may come between. Raises Unavailable.
        """


class KafkaInputs:
    """From gpu.telemetry, as long as its retention keeps them. The reader stays the caller's."""

    def __init__(self, reader: Log) -> None:
        self._reader = reader

    def read(self, partition: int, windows: Sequence[WindowTask]) -> Iterator[Incoming]:
        """See WindowInputs."""
        for low, high in coalesce([window.fetch for window in windows if window.fetch is not None]):
            yield from self._reader.read_range(TELEMETRY, partition, low, high)


def coalesce(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Inclusive offset ranges, joined where they overlap or lie near each other."""
    current: tuple[int, int] | None = None
    for low, high in sorted(spans):
        if current is None:
            current = (low, high)
        elif low <= current[1] + NEAR_OFFSETS:
            current = (current[0], max(current[1], high))
        else:
            yield current
            current = (low, high)
    if current is not None:
        yield current
