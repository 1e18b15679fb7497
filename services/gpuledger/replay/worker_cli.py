"""`gpuledger replay-worker`: one more worker of a distributed replay."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from gpuledger.bus import BusSettings
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay.distributed import abandon as abandon_replay
from gpuledger.replay.worker import work_on


def replay_worker(
    replay: Annotated[str, typer.Argument(help="The id that `gpuledger replay --distributed` says.")],
    abandon: Annotated[
        bool, typer.Option("--abandon", help="End the replay, which nobody is to finish: remove its topics.")
    ] = False,
) -> None:
    """Compute partitions of a distributed replay until it is over; killed at any moment, it loses nothing.

    It shares the partitions with every other worker of the replay. It reads prices, lives and the inputs of
    late windows where the replay does: an archive must be there under the same URL. What it computes with is
    the replay's; of GPULEDGER_PROCESSOR_* its own are SESSION_TIMEOUT_S, TAKE_* and DATA_DIRECTORY.
    """
    bus = BusSettings.load()
    if abandon:
        abandon_replay(replay, bus)
        return
    logging.basicConfig(level=logging.WARNING)
    work_on(replay, bus, ProcessorSettings())
