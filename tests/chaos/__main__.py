"""``python -m tests.chaos --seconds 120 --seed 7``: prints the seed, each fault, and the verdict.

With ``--runs 200`` seeds follow each other, several on one stack, each with nodes of its own.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from gpuledger.contract.topics import TELEMETRY
from tests.chaos.changes import steps
from tests.chaos.faults import Step, schedule
from tests.chaos.settings import APPLICATION
from tests.chaos.verdict import Verdict, behind, end_nodes, judge, rest
from tests.chaos.world import World

MOST_SHOWN = 30
WARM_S = 3.0  # before the first fault
NEARLY = 100  # records that are on their way at any time: a few windows of each node
CATCH_UP_S = 300.0
SEEDS_ON_A_STACK = 10  # each judges all that lies there: more would wait for the judging
at_once = partial(print, flush=True)


def run(
    directory: Path,
    seed: int,
    seconds: float,
    nodes: int = 4,
    workers: int = 2,
    counters: int = 1,
    late_s: float = 0,
    only: Sequence[str] = (),
    say: Callable[[str], None] = at_once,
) -> Verdict:
    """One run; the verdict's `wrong` is empty where all held. The workers start ``late_s`` late.

    ``only``: the families of targets that are broken, such as worker and kafka; all where it is empty.
    """
    world = World(directory, nodes, workers, counters=counters)
    try:
        world.start(late_workers=late_s > 0)
        if late_s:
            say(f"workers start {late_s:g} s late")
            world.wait_until(lambda: False, late_s)
            work_off(world, say)
        return one(world, seed, seconds, only, say)
    finally:
        world.close()


def run_many(
    directory: Path,
    seeds: Sequence[int],
    seconds: float,
    nodes: int,
    workers: int,
    counters: int,
    only: Sequence[str],
) -> list[int]:
    """Run all seeds, some of them on one stack; returns those that did not hold."""
    failed = []
    left = deque(seeds)
    while left:
        with tempfile.TemporaryDirectory(dir=directory) as place:
            world = World(Path(place), nodes, workers, counters=counters)
            try:
                world.start()
                for at in range(min(SEEDS_ON_A_STACK, len(left))):
                    if at:
                        world.begin_anew()
                    seed = left.popleft()
                    if one(world, seed, seconds, only, at_once).wrong:
                        failed.append(seed)
                        break  # what is wrong now would be wrong for every seed behind it
            finally:
                world.close()
    return failed


def one(world: World, seed: int, seconds: float, only: Sequence[str], say: Callable[[str], None]) -> Verdict:
    """The faults of one seed in a world that runs, and what came of it."""
    say(f"seed {seed}: {seconds:g} s of faults, {len(world.nodes)} nodes, {len(world.workers)} workers")
    verdict = Verdict()
    world.begin_changes(seed)
    world.close_a_month()
    world.wait_until(lambda: False, WARM_S)
    names = [*world.targets, *world.links, *world.disks, "inserts-warehouse", "log"]
    targets = sorted(name for name in names if not only or name.partition("-")[0] in only)
    faults, beside = schedule(seed, seconds, targets), steps(seed, seconds)
    _break(world, sorted([*faults, *beside], key=lambda step: step.at_s), seconds, say)
    say("no more faults; the nodes end")
    end_nodes(world, verdict)
    began = time.monotonic()
    rest(world, verdict)
    verdict.facts["came to rest in s"] = round(time.monotonic() - began, 1)
    judge(world, verdict)
    for ended in world.ended:
        say(f"  ended by itself: {ended.name} ({ended.status}): {ended.said}")
    for name, value in verdict.facts.items():
        say(f"  {name}: {value}")
    for wrong in verdict.wrong[:MOST_SHOWN]:
        say(f"  WRONG {wrong}")
    say(f"seed {seed}: {'held' if not verdict.wrong else f'{len(verdict.wrong)} things are WRONG'}")
    return verdict


def work_off(world: World, say: Callable[[str], None]) -> None:
    """Start the workers and see how long they take for what has piled up."""
    waiting, began = behind(world, APPLICATION, TELEMETRY), time.monotonic()
    for worker in world.workers:
        world.revive(worker)
    done = world.wait_until(lambda: nearly_done(world), CATCH_UP_S)
    took = time.monotonic() - began
    say(f"  {waiting} records waited, {'worked off' if done else 'NOT worked off'} in {took:.1f} s")


def nearly_done(world: World) -> bool:
    """Whether only what has just come is left."""
    left = behind(world, APPLICATION, TELEMETRY)
    return left is not None and left < NEARLY


def _break(world: World, steps: Sequence[Step], seconds: float, say: Callable[[str], None]) -> None:
    began = time.monotonic()
    for step in steps:
        world.wait_until(lambda at=step.at_s: time.monotonic() - began >= at, seconds + 60)  # type: ignore[misc]
        say(f"  {time.monotonic() - began:6.1f} s  {step.do} {step.target}")
        getattr(world, step.do)(step.target)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="how long faults come")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budgets", type=int, default=2, help="workers of the budgets application")
    parser.add_argument("--late", type=float, default=0, help="seconds until the workers start at all")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument(
        "--only",
        default="",
        help="break only these: worker,budgets,node,sink,kafka,registry,warehouse,link,inserts,disk,log",
    )
    parser.add_argument("--keep", type=Path, help="directory to leave everything in")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as scratch:
        directory = given.keep or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        only = given.only.split(",") if given.only else []
        if given.runs == 1:
            verdict = run(
                directory,
                given.seed,
                given.seconds,
                given.nodes,
                given.workers,
                given.budgets,
                given.late,
                only,
            )
            return 1 if verdict.wrong else 0
        seeds = range(given.seed, given.seed + given.runs)
        failed = run_many(directory, seeds, given.seconds, given.nodes, given.workers, given.budgets, only)
    return summed_up(len(seeds), failed, given.seconds)


def summed_up(runs: int, failed: Sequence[int], seconds: float) -> int:
    """Say how many held, and how to run again what did not; the exit code."""
    print(f"{runs - len(failed)} of {runs} seeds held", flush=True)
    for seed in failed:
        print(f"again: make chaos SEED={seed} CHAOS_SECONDS={seconds:g}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
