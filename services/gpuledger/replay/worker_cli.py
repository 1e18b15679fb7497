"""`gpuledger replay-worker`: one more worker of a distributed replay."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from gpuledger.bus import BusSettings
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.replay.worker import work_on


def replay_worker(
    replay: Annotated[str, typer.Argument(help="The id that `gpuledger replay --distributed` says.")],
) -> None:
    """Compute partitions of a distributed replay until it is over; killed at any moment, it loses nothing.

    It shares the partitions with every other worker of the replay. It reads prices, lives and the inputs of
    late windows where the replay does: an archive must be there under the same URL. What it computes with is
    the replay's; of GPULEDGER_PROCESSOR_* its own are SESSION_TIMEOUT_S, TAKE_* and DATA_DIRECTORY.
    """
    logging.basicConfig(level=logging.WARNING)
    work_on(replay, BusSettings.load(), ProcessorSettings())
