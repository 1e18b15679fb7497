"""The replay of one partition in one process: the log is read through, its state is a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuledger.bus import Incoming
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.progress import loaded
from gpuledger.replay.computing import Computation
from gpuledger.replay.owner import gone_on
from gpuledger.replay.request import Request, Source
from gpuledger.replay.state import Position, State

TAKE_RECORDS = 1_200  # some 400 windows of quiet nodes: what the core computes in one pass
TAKE_BYTES = 32 << 20  # of records, before what is due is computed; decoded they are some times as much


class PartitionReplay:
    """Owned by one thread, as are the state and the source, which stay the caller's. Raises Unavailable.

    ``went_on`` is called whenever more of it is computed and kept.
    """

    def __init__(
        self, request: Request, partition: int, source: Source, state: State, went_on: Callable[[], None]
    ) -> None:
        self._partition = partition
        self._state = state
        self._went_on = went_on
        self._log = source.log
        self._computation = Computation(request, partition, source, state)

    def run(self) -> Position:
        """Compute all that is left, from where the state stands to the end of the log."""
        position: Position = self._state.get("position") or self._begin(whole=False)
        while not position.done:
            self._take_over(position)
            position = self._through() or self._begin(whole=True)
        return position

    def _through(self) -> Position | None:
        """The end; None where what was known at the beginning turned out to be wrong."""
        computation = self._computation
        self._read(computation.position)
        if computation.is_mistaken:
            return None
        for passes in (computation.pass_range, computation.pass_log):
            passes()
            self._work()
        end = computation.position.end
        position = replace(computation.position, offset=end, done=True)
        self._state.put(position=position)
        return position

    def _read(self, position: Position) -> None:
        taken: list[Incoming] = []
        size_bytes = 0
        for message in self._log.read_range(TELEMETRY, self._partition, position.offset, position.end - 1):
            taken.append(message)
            size_bytes += len(message.value or b"")
            if len(taken) >= TAKE_RECORDS or size_bytes >= TAKE_BYTES:
                self._computation.take(taken)
                self._work()
                taken, size_bytes = [], 0
        self._computation.take(taken)
        self._work()

    def _begin(self, whole: bool) -> Position:
        start = self._computation.beginning(whole)
        position = Position(start.first, self._log.bounds(TELEMETRY, self._partition)[1])
        self._state.begin(start, position)
        return position

    def _take_over(self, position: Position) -> None:
        begun = self._state.get("beginning")
        progress = gone_on(begun.progress, loaded(self._state.progress()))
        self._computation.take_over(position, progress, self._state.get("beyond") or (), begun)

    def _work(self) -> None:
        while self._computation.round():
            self._went_on()


def replay_partition(
    request: Request, partition: int, directory: Path, went_on: Callable[[], None] = lambda: None
) -> Position:
    """Replay one partition, on from what its file in ``directory`` holds; see PartitionReplay."""
    state = State(state_path(directory, partition), request.fingerprint)
    try:
        with Source(request) as source:
            return PartitionReplay(request, partition, source, state, went_on).run()
    finally:
        state.close()


def state_path(directory: Path, partition: int) -> Path:
    """The state file of a partition."""
    return directory / f"partition-{partition:05d}.sqlite"
