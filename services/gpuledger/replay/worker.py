"""A worker of a distributed replay: the processor's Faust shell around the computation of a replay."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from functools import partial

import structlog
from faust.types import TP

from gpuledger.bus import BusSettings, Incoming, PartitionReader, Producer, SchemaRegistry
from gpuledger.bus.repeats import quieten
from gpuledger.contract.clock import NS_PER_S, Clock, SystemClock
from gpuledger.contract.errors import ConfigError, Fenced, Refused
from gpuledger.processor.garbage import collect_seldom
from gpuledger.processor.patience import Superseded, patiently
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.processor.shell import faust_app
from gpuledger.processor.worker import Worker
from gpuledger.replay.replay_topics import ASKED, OVER, ReplayTopics, request_from_bytes
from gpuledger.replay.request import Request, Source
from gpuledger.replay.share import Share
from gpuledger.replay.topic_keeper import TopicKeeper
from gpuledger.serving.watch import Watch

LONGEST_WORK_S = 2.0  # then new records, and a new assignment, have their turn
LOOK_S = 2.0  # how often it is looked whether the replay is over
CLIENT = "gpuledger-replay"
_log = structlog.get_logger(__name__)


class ReplayWork:
    """See ``shell.Work``: the partitions that are assigned, each computed from what lies on its topic."""

    def __init__(self, bus: BusSettings, topics: ReplayTopics, request: Request, clock: Clock) -> None:
        self._topics = topics
        self._request = request
        self._clock = clock
        self._patience_s = request.settings.patience_s
        self._source = Source(request)
        self._reader = PartitionReader(bus, CLIENT)
        self._producer = Producer(bus, CLIENT)
        self._registry = SchemaRegistry(bus, clock)
        self._shares: dict[int, Share] = {}
        self._assignment = 0
        self._serving = 0
        self._lock = threading.Lock()
        self._look_ns = 0

    def supersede(self, assignment: int) -> None:
        """See Work."""
        with self._lock:
            self._assignment = assignment

    def assign(self, assignment: int, places: Sequence[TP]) -> None:
        """See Work. All are taken over anew: what was held comes again from the committed offset."""
        self._serving = assignment
        self._let_go()
        try:
            for number in sorted(place.partition for place in places):
                take_over = partial(self._take_over, number)
                self._shares[number] = patiently(take_over, self._is_current, self._clock, self._patience_s)
        except Superseded:
            _log.info("assigned anew while taking over")

    def feed(self, assignment: int, records: Sequence[Incoming]) -> Mapping[TP, int]:
        """See Work."""
        if assignment != self._serving or not self._is_current():
            return {}
        by_partition: dict[int, list[Incoming]] = {}
        for record in records:
            by_partition.setdefault(record.partition, []).append(record)
        for number, some in by_partition.items():
            if number in self._shares:
                self._shares[number].take(some)
        return self._work()

    def tick(self, assignment: int) -> Mapping[TP, int]:
        """See Work."""
        if assignment != self._serving or not self._is_current():
            return {}
        if self._clock.boot_ns() >= self._look_ns:
            self._look_ns = self._clock.boot_ns() + int(LOOK_S * NS_PER_S)
            if _asked(self._reader, self._topics) is None:
                _log.info("the replay is over", replay=self._topics.replay)
                os.kill(os.getpid(), signal.SIGTERM)
        return self._work()

    def close(self) -> None:
        """See Work."""
        self._let_go()
        self._producer.close()
        self._reader.close()
        self._registry.close()
        self._source.__exit__()

    def _work(self) -> Mapping[TP, int]:
        end_ns = self._clock.boot_ns() + int(LONGEST_WORK_S * NS_PER_S)
        try:
            for share in self._shares.values():
                while self._is_current() and self._clock.boot_ns() < end_ns and share.step():
                    pass
        except Fenced:
            if self._is_current():
                raise
            return {}  # the new owner took over while this was under way
        finished = {
            TP(self._topics.telemetry, number): offset
            for number, share in self._shares.items()
            if (offset := share.acknowledgeable()) is not None
        }
        return finished if self._is_current() else {}

    def _take_over(self, number: int) -> Share:
        keeper = TopicKeeper(self._request, number, self._topics, self._producer, self._registry)
        try:
            return Share(self._request, number, self._source, keeper, keeper.load(self._reader))
        except BaseException:
            keeper.close()
            raise

    def _let_go(self) -> None:
        for share in self._shares.values():
            share.close()
        self._shares.clear()

    def _is_current(self) -> bool:
        with self._lock:
            return self._assignment == self._serving


def work_on(replay: str, bus: BusSettings, settings: ProcessorSettings) -> None:
    """Work on a replay until it is over. Raises Refused where there is none; ends the process otherwise."""
    topics = ReplayTopics(replay)
    with PartitionReader(bus, CLIENT) as reader:
        asked = _asked(reader, topics)
    if asked is None:
        raise Refused(f"there is no replay {replay}: it is over, or was not started with --distributed")
    request = request_from_bytes(asked, bus.plain())
    own = settings.model_copy(
        update={"application": topics.group, "data_directory": settings.data_directory / topics.group}
    )
    own.data_directory.mkdir(parents=True, exist_ok=True)
    clock = SystemClock()
    with Watch() as watch:
        app = faust_app(bus, own, [topics.telemetry], lambda: ReplayWork(bus, topics, request, clock), watch)
        worker = Worker(app, watch=watch)
        quieten("aiokafka")
        collect_seldom()
        _log.info("replay worker starts", replay=replay, kafka=bus.kafka_bootstrap)
        worker.execute_from_commandline()


def _asked(reader: PartitionReader, topics: ReplayTopics) -> bytes | None:
    """What is asked; None once it is over, or where there is no such replay."""
    asked = None
    try:
        for message in reader.read_to_end(topics.request, 0):
            if message.key == OVER:
                return None
            if message.key == ASKED:
                asked = message.value
    except ConfigError:
        return None
    return asked
