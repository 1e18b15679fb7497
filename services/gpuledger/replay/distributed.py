"""A replay on topics of its own, which as many Faust workers share as anybody starts.

It copies the records of the range, waits until workers have computed all partitions, and takes what they
charged into the state files that a replay in one process would have written. Killed at any line and called
again, it goes on: copies and charges lie in Kafka until it has all of them.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import islice
from multiprocessing.process import BaseProcess
from pathlib import Path

import structlog

from gpuledger.bus import BusAccess, BusSettings, Incoming, Outgoing, PartitionReader, Producer
from gpuledger.bus.passing_topics import PassingTopics
from gpuledger.contract.errors import Refused
from gpuledger.contract.records import ChargeSet, decode
from gpuledger.contract.topics import TELEMETRY
from gpuledger.contract.wire import unframe
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay.feeding import Stopped, feed
from gpuledger.replay.partition import state_path
from gpuledger.replay.replay_topics import (
    ASKED,
    OVER,
    POSITION,
    SIDE,
    ReplayTopics,
    position_from_bytes,
    request_to_bytes,
)
from gpuledger.replay.request import Request, Source
from gpuledger.replay.running import Progress, end_with_parent
from gpuledger.replay.state import Position, State, Stored, position_of
from gpuledger.replay.worker import work_on

FEEDERS = 4  # partitions that are copied at once; workers begin with the first records
LOOK_S = 0.5
SETS_AT_A_TIME = 1_000
LEAVE_S = 30.0  # workers look every 2 s whether it is over
MOST_STARTS = 20  # of one local worker: whoever ends so often will not come to an end
ID_LETTERS = 12
_log = structlog.get_logger(__name__)


def replay_distributed(
    request: Request,
    directory: Path,
    bus: BusSettings,
    workers: int,
    told: Callable[[Progress], None] = lambda _: None,
    started: Callable[[str], None] = lambda _: None,
) -> Progress:
    """Have all partitions computed, by ``workers`` processes of this machine and all that others start.

    ``started`` hears the id by which others join, ``told`` how far it is. Goes on from what is there of the
    same request. Raises Unavailable, Refused.
    """
    with Source(request) as source:
        partitions = source.log.partitions(TELEMETRY)
    topics = ReplayTopics(id_of(request))
    passing = PassingTopics(bus)
    if not all(_is_done(directory, number) for number in range(partitions)):
        _begin(request, topics, passing, partitions)
        started(topics.replay)
        try:
            _compute(topics, request, bus, workers, partitions, told)
        except Refused:
            abandon(topics.replay, bus)
            raise
        for number in range(partitions):
            _collect(request, topics, number, directory)
    abandon(topics.replay, bus)
    return _sum([position_of(state_path(directory, number)) for number in range(partitions)])


def abandon(replay: str, bus: BusSettings) -> None:
    """Tell the workers of a replay that it is over, wait until they have left, and remove its topics."""
    topics, passing = ReplayTopics(replay), PassingTopics(bus)
    if topics.request in passing.names():
        _say(bus, topics, OVER, b"")
        deadline = time.monotonic() + LEAVE_S
        while passing.members(topics.group) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
    passing.delete(topics.all)
    if passing.members(topics.group):
        _log.warning("workers of the replay are still there", group=topics.group)
    else:
        passing.delete_group(topics.group)


def id_of(request: Request) -> str:
    """The same for the same request."""
    return request.fingerprint[:ID_LETTERS]


def _begin(request: Request, topics: ReplayTopics, passing: PassingTopics, partitions: int) -> None:
    there = passing.names()
    if topics.request in there:
        return
    for name in (topics.telemetry, topics.charges):
        passing.create(name, partitions)
    passing.create(topics.progress, partitions, compacted=True)
    passing.create(topics.request, 1)
    _say(request.bus, topics, ASKED, request_to_bytes(request))


def _say(bus: BusAccess, topics: ReplayTopics, key: bytes, value: bytes) -> None:
    with Producer(bus, "gpuledger-replay") as producer:
        producer.produce_all([Outgoing(topics.request, key, value, partition=0)])


def _compute(
    topics: ReplayTopics,
    request: Request,
    bus: BusSettings,
    workers: int,
    partitions: int,
    told: Callable[[Progress], None],
) -> None:
    watch = _Watch(bus, topics, partitions)
    with (
        closing(watch),
        _workers(topics.replay, bus, workers) as look,
        _feeders(request, topics, partitions) as fed,
    ):
        while not watch.done:
            look()
            fed()
            told(watch.look())
            time.sleep(LOOK_S)


class _Watch:
    """How far the workers are, as their progress says."""

    def __init__(self, bus: BusSettings, topics: ReplayTopics, partitions: int) -> None:
        self._reader = PartitionReader(bus, "gpuledger-replay")
        self._topic = topics.progress
        self._next = [0] * partitions
        self._positions: list[Position | None] = [None] * partitions
        self._first = [0] * partitions

    @property
    def done(self) -> bool:
        """Whether all is computed."""
        return all(position is not None and position.done for position in self._positions)

    def look(self) -> Progress:
        """Read what is new."""
        for number in range(len(self._next)):
            for message in self._reader.read_to_end(self._topic, number, self._next[number]):
                self._next[number] = message.offset + 1
                if message.key == POSITION:
                    self._hear(number, message)
        found = _sum(self._positions)
        first = sum(self._first)
        return Progress(found.read - first, found.total - first, found.events, found.windows)

    def close(self) -> None:
        """Let go of the connection."""
        self._reader.close()

    def _hear(self, number: int, message: Incoming) -> None:
        position, _ = position_from_bytes(message.value or b"")
        if self._positions[number] is None:
            self._first[number] = position.offset
        self._positions[number] = position


def _sum(positions: Sequence[Position | None]) -> Progress:
    known = [position for position in positions if position is not None]
    return Progress(
        sum(position.end if position.done else position.offset for position in known),
        sum(position.end for position in known),
        sum(position.events for position in known),
        sum(position.windows for position in known),
    )


def _is_done(directory: Path, number: int) -> bool:
    position = position_of(state_path(directory, number))
    return position is not None and position.done


def _collect(request: Request, topics: ReplayTopics, number: int, directory: Path) -> None:
    """What was charged and how far it came, into the state file of a partition."""
    state = State(state_path(directory, number), request.fingerprint)
    try:
        with PartitionReader(request.bus, "gpuledger-replay") as reader:
            found = _sets(reader, topics, number)
            while some := list(islice(found, SETS_AT_A_TIME)):
                state.record(some)
            for message in reader.read_to_end(topics.progress, number):
                if message.key == POSITION:
                    state.put(position=position_from_bytes(message.value or b"")[0])
    finally:
        state.close()


def _sets(reader: PartitionReader, topics: ReplayTopics, number: int) -> Iterator[Stored]:
    for message in reader.read_to_end(topics.charges, number):
        body = bytes(unframe(message.value or b"")[1])
        yield Stored((dict(message.headers)[SIDE] or b"").decode(), decode(ChargeSet, body), body)


@contextmanager
def _feeders(request: Request, topics: ReplayTopics, partitions: int) -> Iterator[Callable[[], None]]:
    """Copies in threads; what is given raises what one of them raised."""
    stopped = False

    def told(done: int, total: int) -> None:
        if stopped:
            raise Stopped

    with ThreadPoolExecutor(FEEDERS, thread_name_prefix="feed") as pool:
        running: list[Future[None]] = [
            pool.submit(feed, request, number, topics, told) for number in range(partitions)
        ]

        def look() -> None:
            for future in running:
                if future.done():
                    future.result()

        try:
            yield look
        finally:
            stopped = True
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _workers(replay: str, bus: BusSettings, count: int) -> Iterator[Callable[[], None]]:
    """Workers of this machine; what is given starts those again that were killed, and says who failed."""
    context = multiprocessing.get_context("spawn")  # clients of Kafka do not survive a fork
    running: list[BaseProcess] = []
    starts = 0

    def start() -> BaseProcess:
        nonlocal starts
        starts += 1
        if starts > count * MOST_STARTS:
            raise Refused("workers of the replay end again and again: see what they say")
        process = context.Process(target=_work, args=(replay, bus), daemon=True)
        process.start()
        return process

    def look() -> None:
        for at, process in enumerate(running):
            if not process.is_alive():
                _log.warning("a replay worker ended and is started again", exit_code=process.exitcode)
                running[at] = start()

    try:
        running.extend(start() for _ in range(count))
        yield look
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.join(LEAVE_S)


def _work(replay: str, bus: BusSettings) -> None:
    end_with_parent()
    work_on(replay, bus, ProcessorSettings())
