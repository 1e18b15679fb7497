"""Waiting for what is away, as long as the partitions are still ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog

from gpuledger.bus import BusSettings, PartitionReader
from gpuledger.contract.clock import NS_PER_S, Clock, SystemClock
from gpuledger.contract.errors import Unavailable

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0  # between attempts while Kafka, the registry or the warehouse is away
T = TypeVar("T")
_log = structlog.get_logger(__name__)


class Superseded(Exception):
    """The partitions were assigned anew meanwhile: what is under way is abandoned, nothing is lost."""


def patiently(attempt: Callable[[], T], is_current: Callable[[], bool], clock: Clock, patience_s: float) -> T:
    """What ``attempt`` gives, tried again while it raises Unavailable. Raises that after ``patience_s``, and
    Superseded once the partitions are no longer ours."""
    give_up_ns = clock.boot_ns() + int(patience_s * NS_PER_S)
    pause_s = FIRST_PAUSE_S
    while True:
        if not is_current():
            raise Superseded
        try:
            return attempt()
        except Unavailable as error:
            if clock.boot_ns() > give_up_ns:
                raise
            _log.warning("waiting", error=str(error))
        clock.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def await_topic(bus: BusSettings, application: str, topic: str, patience_s: float) -> None:
    """Return once a topic is there: Faust ends where no broker answers at its start. Raises ConfigError where
    the topic is not there, Unavailable after ``patience_s``."""

    def look() -> None:
        with PartitionReader(bus, f"{application}-start") as reader:
            reader.partitions(topic)

    patiently(look, lambda: True, SystemClock(), patience_s)
