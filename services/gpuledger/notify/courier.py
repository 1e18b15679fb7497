"""One target and the stream of breaches: read, decide, deliver until it is in, commit.

A target that is away holds up its own group and nobody else's; the broker is its queue.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Event

from gpuledger.bus import Incoming, SchemaRegistry, unframed
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import BadRecord, TargetAway, TargetRefused
from gpuledger.contract.records import Breach
from gpuledger.logs import EventLog
from gpuledger.notify import metrics
from gpuledger.notify.book import Book
from gpuledger.notify.notice import Notice
from gpuledger.notify.source import Source
from gpuledger.notify.target import KEEP_EVERY_S, Target
from gpuledger.serving.watch import Pulse

POLL_S = 0.5  # how late a stop, or the end of a silence, may be noticed
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0  # a target that comes back after an hour hears of it within a minute

log = EventLog("gpuledger.notify")


class Courier:
    """Owned by one thread, and owns ``target`` and ``source``. ``wanted``: what this target is to hear.

    ``refuse`` keeps a record that can not be read, and awaits it. ``pulse``: its sign of life.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        source: Source,
        registry: SchemaRegistry,
        clock: Clock,
        wanted: Callable[[Notice], bool],
        concerns: Callable[[Breach], bool],
        refuse: Callable[[Incoming, BadRecord], None],
        pulse: Pulse,
    ) -> None:
        self._name = name
        self._target = target
        self._source = source
        self._registry = registry
        self._clock = clock
        self._wanted = wanted
        self._concerns = concerns
        self._refuse = refuse
        self._pulse = pulse
        self._book = Book()
        self._assignments = source.assignments
        self._kept_ns: int | None = None

    def run(self, stop: Event) -> None:
        """Until ``stop``. Raises KafkaUnavailable, RegistryUnavailable, ConfigError."""
        metrics.AWAY.labels(self._name).set(0)
        try:
            while not stop.is_set():
                self._step(stop)
        finally:
            self._close()

    def _close(self) -> None:
        self._pulse.beat()
        try:
            self._source.close()
            self._target.close()
        finally:
            self._pulse.rest()

    def _step(self, stop: Event) -> None:
        self._pulse.beat()
        record = self._source.poll(POLL_S)
        if self._source.assignments != self._assignments:
            self._assignments, self._book, self._kept_ns = self._source.assignments, Book(), None
        if record is not None:
            self._take(record, stop)
        if not self._source.caught_up:
            return
        if self._source.new():
            self._book.owe_all()
        if not all(self._deliver(notice, stop) for notice in self._book.due(self._clock.unix_ns())):
            return
        if self._source.new():
            self._source.commit(dict(self._source.new()))
        self._keep()
        metrics.LAG.labels(self._name).set(self._source.lag())

    def _take(self, record: Incoming, stop: Event) -> None:
        if self._source.learning(record):
            self._learn(record)
            return
        try:
            notice = self._book.take(self._read(record), _came_ns(record))
        except BadRecord as why:
            log.warning("record refused", target=self._name, offset=record.offset, why=str(why))
            self._refuse(record, why)
            notice = None
        if notice is None or self._deliver(notice, stop):
            self._source.commit({(record.topic, record.partition): record.offset + 1})

    def _learn(self, record: Incoming) -> None:
        try:
            self._book.take(self._read(record), _came_ns(record))
        except BadRecord:
            return  # it was refused when it had to be delivered

    def _read(self, record: Incoming) -> Breach:
        if record.value is None:
            raise BadRecord("tombstone", "a breach has a value", "value")
        return unframed(Breach, record.value, self._registry)

    def _deliver(self, notice: Notice, stop: Event) -> bool:
        """Whether it is settled; False when it has to be taken up again, by us or by another member."""
        if not (self._concerns(notice.breach) and self._wanted(notice)):
            return True
        pause_s = FIRST_PAUSE_S
        while True:
            self._pulse.beat()
            try:
                self._target.send(notice)
            except TargetRefused as why:
                log.error("notice refused", target=self._name, notice=notice.id, why=str(why))
                metrics.REFUSED.labels(self._name).inc()
                return True
            except TargetAway as why:
                log.warning("target away", target=self._name, notice=notice.id, why=str(why))
                metrics.ATTEMPTS_FAILED.labels(self._name).inc()
                metrics.AWAY.labels(self._name).set(1)
                if not self._pause(max(why.wait_s, pause_s * random.uniform(0.5, 1.0)), stop):
                    return False
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                log.info("notice delivered", target=self._name, notice=notice.id, kind=notice.kind.value)
                metrics.DELIVERED.labels(self._name, notice.kind.value).inc()
                metrics.AWAY.labels(self._name).set(0)
                return True

    def _pause(self, seconds: float, stop: Event) -> bool:
        until_ns = self._clock.boot_ns() + int(seconds * NS_PER_S)
        while (left_ns := until_ns - self._clock.boot_ns()) > 0:
            self._pulse.beat()
            if not self._source.wait(min(POLL_S, left_ns / NS_PER_S)) or stop.is_set():
                return False
        return True

    def _keep(self) -> None:
        now_ns = self._clock.boot_ns()
        if self._kept_ns is not None and now_ns - self._kept_ns < KEEP_EVERY_S * NS_PER_S:
            return
        self._kept_ns = now_ns
        firing = [breach for breach in self._book.firing() if self._concerns(breach)]
        try:
            self._target.keep(firing, self._clock.unix_ns())
        except (TargetAway, TargetRefused) as why:
            log.warning("not repeated", target=self._name, why=str(why))
            metrics.ATTEMPTS_FAILED.labels(self._name).inc()
            metrics.AWAY.labels(self._name).set(1)
        else:
            metrics.AWAY.labels(self._name).set(0)


def _came_ns(record: Incoming) -> int:
    return max(0, record.timestamp_ms) * 1_000_000
