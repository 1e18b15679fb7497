"""The inventory: look, compare with what was stated, say what is new; once a second."""

from __future__ import annotations

import threading
from typing import Protocol

from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import Unavailable
from gpuledger.contract.records import NodeLifetime
from gpuledger.inventory import metrics
from gpuledger.inventory.lives import LifeKey
from gpuledger.inventory.sources import LifeSource
from gpuledger.logs import EventLog

PERIOD_S = 1.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0

_log = EventLog(__name__)


class Statements(Protocol):
    """Where statements are kept: gpu.nodes."""

    def read(self) -> dict[LifeKey, NodeLifetime]:
        """The latest statement of each instance. Raises Unavailable."""

    def write(self, lives: list[NodeLifetime]) -> None:
        """Have them all kept. Raises Unavailable."""


class Inventory:
    """One cluster's inventory. Owns the source; ``stop`` may be called from any thread or signal handler.

    Two at a time do no harm: both say the same. Nothing is held between looks but what gpu.nodes says, so a
    restart goes on where it was; a node that went meanwhile ended when it was missed.
    """

    def __init__(self, source: LifeSource, book: Statements, clock: Clock) -> None:
        self._source = source
        self._book = book
        self._clock = clock
        self._stated: dict[LifeKey, NodeLifetime] | None = None
        self._problem = ""
        self._stop = threading.Event()

    def stop(self) -> None:
        """Have `run` return soon."""
        self._stop.set()

    def run(self) -> None:
        """Work until stopped."""
        self._source.start()
        pause_s = FIRST_PAUSE_S
        try:
            while not self._stop.is_set():
                try:
                    self.look()
                    metrics.KAFKA_OK.set(1)
                    pause_s = FIRST_PAUSE_S
                    self._stop.wait(PERIOD_S)
                except Unavailable as error:
                    metrics.KAFKA_OK.set(0)
                    _log.warning("kafka_away", error=str(error))
                    self._stop.wait(pause_s)
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        finally:
            self._source.stop()

    def look(self) -> list[NodeLifetime]:
        """One look; what was said. Raises Unavailable where Kafka does not take it: the next look says it."""
        if self._stated is None:
            self._stated = self._book.read()
        news = self._source.statements(self._stated, self._clock.unix_ns())
        self._say_problem()
        if news:
            self._book.write(news)
            for life in news:
                self._stated[LifeKey(life.node, life.layout.instance_id)] = life
                _log.info("stated", node=life.node, launched_ns=life.launched_ns, ended_ns=life.ended_ns)
            metrics.STATEMENTS.inc(len(news))
        metrics.NODES.set(sum(life.ended_ns is None for life in self._stated.values()))
        return news or []

    def _say_problem(self) -> None:
        problem = self._source.problem
        metrics.SOURCE_OK.set(not problem)
        if problem != self._problem:
            self._problem = problem
            if problem:
                _log.warning("source_not_read", problem=problem)
