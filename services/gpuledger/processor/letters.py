"""What the processor can not use, told: dead letters, counted and logged."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from gpuledger.bus import DeadLetters, Incoming
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor import metrics

_log = structlog.get_logger(__name__)
WHY: dict[str, str] = {
    "ahead_of_time": "its window begins after it arrived",
    "too_old": "it arrived too long after its window",
    "wrong_grid": "its window is none of the cluster's",
    "window_full": "its window holds as many records or bytes as a window may; its cost is unobserved",
    "inputs_expired": "retention took other records of its window",
}


def because(reason: str) -> BadRecord:
    """Why a record that can be read is no input of its window."""
    return BadRecord(reason, WHY[reason])


class Letters:
    """Sends dead letters. Owned by the engine's thread."""

    def __init__(self, dead_letters: DeadLetters) -> None:
        self._dead_letters = dead_letters

    def bury(self, refused: Sequence[tuple[Incoming, BadRecord]]) -> None:
        """Write all of them and await it: only then may they be acknowledged."""
        if not refused:
            return
        self._dead_letters.publish(refused)
        for record, error in refused:
            metrics.RECORDS_REFUSED.labels(error.reason).inc()
            _log.warning(
                "record refused",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                error=str(error),
            )

    def lost(self, partition: int, first: int, end: int) -> None:
        """Retention took the offsets [first, end) before anyone read them: a letter names the first."""
        metrics.RECORDS_LOST.labels(partition).inc(end - first)
        _log.error("retention took records unread", partition=partition, first=first, end=end)
        error = BadRecord(
            "retention",
            f"offsets {first} to {end - 1} were deleted before they were read; windows that have no other "
            "record are charged as unobserved",
        )
        self._dead_letters.publish([(Incoming(TELEMETRY, partition, first, -1, None, None), error)])
