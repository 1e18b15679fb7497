"""Many random runs of the protocol, on all cores: ``make protocol N=100000``.

    python -m tests.support.protocol_world --runs 100000 [--seed S] [--processes P]
    python -m tests.support.protocol_world --replay SUITE:SEED

A run follows from its suite and its number alone. Each that breaks a promise is printed with the call that
replays it, step by step.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from multiprocessing import Pool

from tests.support.protocol_world import World, violations
from tests.support.protocol_world.suites import SUITES

CHUNK = 50  # runs that a process takes at a time
REPORT_S = 30.0
MOST_SHOWN = 20


def runs(count: int, seed: int) -> Iterator[tuple[str, int]]:
    """Suite and number of each run."""
    for suite, (share, _) in SUITES.items():
        for number in range(round(count * share)):
            yield suite, seed + number


def one(run: tuple[str, int]) -> tuple[str, int, list[str]]:
    """A run, and what it broke."""
    suite, number = run
    return suite, number, violations(World(number, faults=SUITES[suite][1]).run())


def replay(suite: str, number: int) -> int:
    """Tell a run step by step."""
    world = World(number, faults=SUITES[suite][1]).run()
    print(*world.trace, sep="\n")
    found = violations(world)
    print(*(found or ["all four properties hold"]), sep="\n")
    return int(bool(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000 * 1000)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--replay", metavar="SUITE:SEED")
    options = parser.parse_args()
    if options.replay:
        suite, _, number = options.replay.partition(":")
        return replay(suite, int(number))
    print(f"{options.runs} runs from seed {options.seed} in {options.processes} processes", flush=True)
    done = broken = 0
    told = time.monotonic()
    with Pool(options.processes) as pool:
        for suite, number, found in pool.imap_unordered(one, runs(options.runs, options.seed), CHUNK):
            done += 1
            if found:
                broken += 1
                if broken <= MOST_SHOWN:
                    print(f"BROKEN {suite}:{number} (--replay {suite}:{number}): {found[0]}", flush=True)
            if time.monotonic() - told > REPORT_S:
                told = time.monotonic()
                print(f"{done} of {options.runs} done, {broken} broken", flush=True)
    print(f"{done - broken} of {done} runs are exact, seed {options.seed}")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
