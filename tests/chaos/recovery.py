"""``python -m tests.chaos.recovery``: seconds from kill -9 of a worker until all nodes are charged again."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from gpuledger.bus import PartitionReader
from gpuledger.contract import topics
from tests.chaos.settings import PARTITIONS
from tests.chaos.world import World

CALM_S = 10.0  # between two kills, so that each begins with everybody at work
LIMIT_S = 180.0


def ends(world: World) -> list[int]:
    """Where each partition of gpu.charges ends."""
    with PartitionReader(world.bus, "chaos-recovery") as reader:
        return [reader.bounds(topics.CHARGES, partition)[1] for partition in range(PARTITIONS)]


def measure(world: World, away: bool) -> float:
    """Kill the first worker; until every partition has a new charge. ``away``: it does not come back."""
    world.wait_until(lambda: False, CALM_S)
    world.kill(world.workers[0])
    killed, before = time.monotonic(), ends(world)
    if not away:
        world.revive(world.workers[0])
    if not world.wait_until(
        lambda: all(new > old for new, old in zip(ends(world), before, strict=True)), LIMIT_S
    ):
        raise TimeoutError(f"no new charges {LIMIT_S:g} s after the kill")
    took = time.monotonic() - killed
    if away:
        world.revive(world.workers[0])
    return took


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.recovery", description=__doc__)
    parser.add_argument("--session", type=int, default=45, help="session timeout of the workers in s")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--away", action="store_true", help="the killed worker does not come back")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as scratch:
        world = World(Path(scratch), nodes=4, workers=given.workers, session_s=given.session)
        try:
            world.start()
            world.wait_until(lambda: all(ends(world)), LIMIT_S)
            took = [measure(world, given.away) for _ in range(given.times)]
        finally:
            world.close()
    each = ", ".join(f"{seconds:.1f}" for seconds in took)
    print(f"session {given.session} s, {given.workers} workers, away {given.away}: {each} s", flush=True)
    print(f"median {statistics.median(took):.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
