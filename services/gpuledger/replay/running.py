"""All partitions of a replay, in as many processes as there are cores to use."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from gpuledger.bus.log import Log
from gpuledger.contract.errors import GpuledgerError, Refused, Unavailable, UserError
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.garbage import collect_seldom
from gpuledger.replay.partition import replay_partition, state_path
from gpuledger.replay.request import Request, Source
from gpuledger.replay.state import Position, position_of

LOOK_S = 0.5  # how often it is looked how far the partitions are


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is: offsets read of those to be read, over all partitions; what was computed."""

    read: int = 0
    total: int = 0
    events: int = 0
    windows: int = 0


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error of another process, as it travels."""

    kind: str
    said: str


def partitions_of(request: Request) -> int:
    """How many partitions there are to replay. Raises Unavailable, ConfigError."""
    with Source(request) as source:
        return source.log.partitions(TELEMETRY)


def replay(
    request: Request,
    directory: Path,
    processes: int,
    told: Callable[[Progress], None] = lambda _: None,
    then: Callable[[Request, int, Path], None] | None = None,
) -> Progress:
    """Compute all partitions; ``told`` hears how far it is, ``then`` is done with each that is computed.

    Goes on from what ``directory`` holds of the same request. Raises what a partition raises.
    """
    with Source(request) as source:
        spans = _spans(source.log)
    if processes == 1:
        for partition in range(len(spans)):
            _raise(_one(request, partition, directory, then, lambda: told(_progress(directory, spans))))
            told(_progress(directory, spans))
        return _progress(directory, spans)
    context = multiprocessing.get_context("spawn")  # clients of Kafka do not survive a fork
    with ProcessPoolExecutor(processes, context, initializer=end_with_parent) as pool:
        running: set[Future[_Failure | None]] = {
            pool.submit(_one, request, partition, directory, then) for partition in range(len(spans))
        }
        while running:
            done, running = wait(running, LOOK_S, FIRST_COMPLETED)
            told(_progress(directory, spans))
            for future in done:
                failure = future.result()
                if failure is not None:
                    pool.shutdown(wait=False, cancel_futures=True)
                    _raise(failure)
    return _progress(directory, spans)


def _one(
    request: Request,
    partition: int,
    directory: Path,
    then: Callable[[Request, int, Path], None] | None,
    went_on: Callable[[], None] = lambda: None,
) -> _Failure | None:
    collect_seldom()
    try:
        replay_partition(request, partition, directory, went_on)
        if then is not None:
            then(request, partition, directory)
    except (UserError, Unavailable, GpuledgerError) as error:
        kind = next(cls for cls in (UserError, Unavailable, GpuledgerError) if isinstance(error, cls))
        return _Failure(kind.__name__, str(error))
    return None


def _raise(failure: _Failure | None) -> None:
    if failure is None:
        return
    kinds: dict[str, type[GpuledgerError]] = {"UserError": Refused, "Unavailable": Unavailable}
    raise kinds.get(failure.kind, GpuledgerError)(failure.said)


def _spans(log: Log) -> Sequence[int]:
    """Of each partition, how many offsets there are."""
    return [end - low for low, end in (log.bounds(TELEMETRY, p) for p in range(log.partitions(TELEMETRY)))]


def _progress(directory: Path, spans: Sequence[int]) -> Progress:
    read = total = events = windows = 0
    for partition, span in enumerate(spans):
        position = position_of(state_path(directory, partition)) or Position(0, span)
        left = position.end - position.offset
        total += span
        read += max(0, span - left)
        events += position.events
        windows += position.windows
    return Progress(read, total, events, windows)


def end_with_parent() -> None:
    """A replay that is killed leaves nobody behind who works on its files."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
