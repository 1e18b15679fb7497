"""Many seeds: some after each other on one stack, and several stacks at the same time."""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from tests.chaos.happened import in_seeds
from tests.chaos.one import one
from tests.chaos.world import World

SEEDS_ON_A_STACK = 10  # each judges all that lies there: more would wait for the judging


class Setting(NamedTuple):
    """How each seed runs."""

    directory: Path
    seconds: float
    nodes: int
    workers: int
    counters: int
    only: Sequence[str] = ()


class Outcome(NamedTuple):
    """What came of a seed; nothing is wrong where it held."""

    seed: int
    wrong: Sequence[str]
    took_s: float
    happened: Mapping[str, int] = {}
    cpu_s: float = 0
    """Processor time of its stack, all seeds of it alike: most of what runs outlives a seed."""


def run_many(setting: Setting, seeds: Sequence[int], jobs: int = 1) -> list[Outcome]:
    """Run all seeds, ``jobs`` stacks at a time. The logs of a stack on which one failed are kept."""
    left, outcomes = deque(seeds), list[Outcome]()
    running: dict[Future[list[Outcome]], list[int]] = {}
    spawn = multiprocessing.get_context("spawn")  # no fork of a process that has threads
    with ProcessPoolExecutor(jobs, mp_context=spawn, max_tasks_per_child=1) as pool:
        while left or running:
            while left and len(running) < jobs:
                chosen = [left.popleft() for _ in range(min(seeds_of_a_stack(len(seeds), jobs), len(left)))]
                running[pool.submit(on_one_stack, setting, chosen)] = chosen
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                chosen, found = running.pop(done), done.result()
                outcomes += found
                left.extendleft(reversed(chosen[len(found) :]))  # behind one that failed
    return sorted(outcomes, key=lambda outcome: outcome.seed)


def on_one_stack(setting: Setting, seeds: Sequence[int]) -> list[Outcome]:
    """Run seeds on a stack of their own until one fails: what is wrong then would be wrong for all behind."""
    place = Path(tempfile.mkdtemp(prefix=f"seed-{seeds[0]}-", dir=setting.directory))
    world = World(place, setting.nodes, setting.workers, counters=setting.counters)
    outcomes: list[Outcome] = []
    used_s = cpu_s()
    try:
        for at, seed in enumerate(seeds):
            began, say = time.monotonic(), speaker(seed)
            came: Mapping[str, int] = {}
            try:
                world.begin_anew() if at else world.start()
                verdict = one(world, seed, setting.seconds, setting.only, say)
                wrong, came = verdict.wrong, verdict.happened
            except Exception as error:  # of the stack or of the run itself: it is no seed that held
                wrong = [f"{type(error).__name__}: {error}"]
                say(traceback.format_exc())
            outcomes.append(Outcome(seed, wrong, time.monotonic() - began, came))
            if wrong:
                say(f"logs are kept in {place}")
                break
    finally:
        world.close()
    if not outcomes[-1].wrong:
        shutil.rmtree(place, ignore_errors=True)
    each_s = (cpu_s() - used_s) / len(outcomes)
    return [outcome._replace(cpu_s=each_s) for outcome in outcomes]


def cpu_s() -> float:
    """Processor time of this process and of all that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def speaker(seed: int) -> Callable[[str], None]:
    """Prints lines that say which seed they are of."""

    def say(text: str) -> None:
        print("\n".join(f"{seed} | {line}" for line in text.splitlines()), flush=True)

    return say


def summed_up(outcomes: Sequence[Outcome], took_s: float, seconds: float) -> int:
    """Say how many held, and how to run again what did not; the exit code."""
    failed = [outcome for outcome in outcomes if outcome.wrong]
    longest = max(outcome.took_s for outcome in outcomes)
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} seeds held", flush=True)
    print(f"{took_s:.0f} s, {3600 * len(outcomes) / took_s:.0f} seeds an hour, the longest {longest:.0f} s")
    print(f"{sum(outcome.cpu_s for outcome in outcomes) / len(outcomes):.0f} s of a core each")
    for name, number in in_seeds([Counter(outcome.happened) for outcome in outcomes]).items():
        print(f"{number or 'none'} of {len(outcomes)} had {name}")
    for outcome in failed:
        print(f"seed {outcome.seed}: {outcome.wrong[0]}")
        print(f"again: make chaos SEED={outcome.seed} CHAOS_SECONDS={seconds:g}", flush=True)
    return 1 if failed else 0


def seeds_of_a_stack(seeds: int, jobs: int) -> int:
    """How many seeds a stack gets: no stack runs on alone while others have nothing to do."""
    return min(SEEDS_ON_A_STACK, -(-seeds // jobs))
