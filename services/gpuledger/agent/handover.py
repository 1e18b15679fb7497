"""From the command line to the agent's own process, which carries nothing of the command line.

What reads and checks options (typer, rich, pydantic) takes 25 MB that an agent would keep for months. So
``gpuledger agent run`` checks everything and then becomes another program of the same process id: Python
anew, with the checked values in a file in memory. No secret is among them, only the files where secrets are.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from gpuledger.agent import byte_code
from gpuledger.agent.runtime import Sources
from gpuledger.agent.settings import AgentSettings
from gpuledger.bus.access import BusAccess

LEAN_MODULE: Final = "gpuledger.agent.lean"
ENVIRONMENT: Final = {
    "OPENBLAS_NUM_THREADS": "1",  # nothing here multiplies matrices; each thread would have its own buffers
    "MALLOC_ARENA_MAX": "2",  # else one for each thread, each with its own fragments
    # whole columns of a burst are mapped and unmapped alone, 6 MB less than in a heap with holes; glibc would
    # else move that limit up to 32 MB by itself, and keep as much
    "MALLOC_MMAP_THRESHOLD_": str(256 << 10),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 20),
    "PYTHONNODEBUGRANGES": "1",  # a traceback names the line without the columns in it
}


@dataclass(frozen=True)
class Orders:
    """All that an agent's process has to know. ``bus`` is plain (`BusAccess.plain`)."""

    settings: AgentSettings
    sources: Sources
    bus: BusAccess
    metrics_port: int | None = None
    metrics_address: str = ""
    ends_node: bool = False


def become_lean(orders: Orders, arguments: Sequence[str]) -> NoReturn:
    """Go on as the lean process. ``arguments``: what `ps` shows of the call; they have no other meaning."""
    fd = os.memfd_create("gpuledger-agent")
    os.write(fd, pickle.dumps(orders))
    os.lseek(fd, 0, os.SEEK_SET)
    os.set_inheritable(fd, True)
    sys.stdout.flush()
    sys.stderr.flush()
    environment = {**ENVIRONMENT, **os.environ}
    command = [sys.executable, *byte_code.options(), "-m", LEAN_MODULE, str(fd), *arguments]
    os.execve(sys.executable, command, environment)


def take_over(fd: int) -> Orders:
    """The orders that `become_lean` left in ``fd``, which is closed."""
    with os.fdopen(fd, "rb") as file:
        orders: Orders = pickle.load(file)  # written by this same process before it became another program
    return orders
