"""Many random histories of budgets, outside the suite: ``make budget-histories``.

Prints progress and, of each history that fails, what repeats it; the last line is the verdict. Each seed also
says how often is restated and crashed, and over how many days. Ends with 1 where a history fails.
"""

from __future__ import annotations

import random
import sys
import time

from tests.support.budget_verdict import check, short_memory
from tests.support.budget_world import World

TOLD_EVERY = 50


def world_of(seed: int) -> World:
    """The history of a seed."""
    chosen = random.Random(seed)
    restates, crashes = chosen.choice((0, 10, 40)), chosen.choice((0, 5, 20))
    return World(seed, restates, crashes, chosen.choice((1, 4, 12)))


def main(histories: int, first: int) -> int:
    """Run so many histories from a seed on; returns how many fail."""
    failed, breaches, started = 0, 0, time.monotonic()
    with short_memory():
        for number in range(histories):
            seed = first + number
            world = world_of(seed)
            world.write()
            try:
                world.run()
                check(world)
            except AssertionError as error:
                failed += 1
                print(f"seed {seed} fails: {error}", flush=True)
            breaches += len(world.breaches)
            if (number + 1) % TOLD_EVERY == 0:
                spent_s = time.monotonic() - started
                print(f"{number + 1} of {histories} histories, {failed} fail, {spent_s:.0f} s", flush=True)
    verdict = f"{failed} FAIL" if failed else "all as the reference says"
    print(f"{histories} histories, seeds {first} to {first + histories - 1}, {breaches} changes: {verdict}")
    return failed


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    begin = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    sys.exit(min(1, main(count, begin)))
