"""`gpuledger` whose replay workers stand still once they have kept their first charges, to be killed there:

python -m tests.support.replay_held replay-worker ID
python -m tests.support.replay_held replay ... --distributed --workers 2
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from gpuledger.bus import BusSettings
from gpuledger.cli import main
from gpuledger.contract.records import NodeProgress
from gpuledger.processor.protocol import LogRecord
from gpuledger.replay import distributed
from gpuledger.replay.state import Position, Stored
from gpuledger.replay.topic_keeper import TopicKeeper

A_DAY_S = 86_400.0

_save, _work = TopicKeeper.save, distributed._work


def save(
    self: TopicKeeper,
    sets: Iterable[Stored],
    hours: Iterable[NodeProgress],
    position: Position,
    beyond: Sequence[LogRecord],
) -> None:
    """As it is; then nothing more."""
    _save(self, sets, hours, position, beyond)
    if position.windows and not position.done:
        time.sleep(A_DAY_S)


def work(replay: str, bus: BusSettings) -> None:
    """What a worker that the command starts runs, in a process of its own."""
    hold()
    _work(replay, bus)


def hold() -> None:
    """From now on."""
    TopicKeeper.save = save  # type: ignore[method-assign]


if __name__ == "__main__":
    hold()
    distributed._work = work
    main()
