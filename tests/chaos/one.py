"""One seed: its faults in a world that runs, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from gpuledger.contract.identity import NodeKey
from gpuledger.contract.topics import TELEMETRY
from tests.chaos import happened
from tests.chaos.changes import steps
from tests.chaos.faults import Step, schedule
from tests.chaos.settings import APPLICATION, CLUSTER
from tests.chaos.verdict import Verdict, behind, end_nodes, judge, rest
from tests.chaos.world import World

MOST_SHOWN = 30
WARM_S = 240.0  # at most, before the first fault
NEARLY = 100  # records that are on their way at any time: a few windows of each node
CATCH_UP_S = 300.0
REPEATED = "repeat log"
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
    """One run on a stack of its own; the verdict's `wrong` is empty where all held. The workers start
    ``late_s`` late.

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


def one(world: World, seed: int, seconds: float, only: Sequence[str], say: Callable[[str], None]) -> Verdict:
    """The faults of one seed in a world that runs."""
    say(f"seed {seed}: {seconds:g} s of faults, {len(world.nodes)} nodes, {len(world.workers)} workers")
    verdict = Verdict()
    world.begin_changes(seed)
    world.close_a_month()
    keys = [NodeKey(CLUSTER, node) for node in world.nodes]
    world.wait_until(
        lambda: world.tail.follow() and all(world.tail.has_spoken_of(key, 1) for key in keys), WARM_S
    )
    names = [*world.targets, *world.links, *world.disks, "inserts-warehouse", "log"]
    targets = sorted(name for name in names if not only or name.partition("-")[0] in only)
    faults, beside = schedule(seed, seconds, targets), steps(seed, seconds)
    world.happened.clear()
    world.spooled.clear()
    before = happened.said(world.logs)
    _break(world, sorted([*faults, *beside], key=lambda step: step.at_s), seconds, say)
    world.end_twins()
    verdict.happened += world.happened  # before the nodes are ended likewise
    say("no more faults; the nodes end")
    for name, phase in (("ending", end_nodes), ("resting", rest), ("judging", judge)):
        began = time.monotonic()
        phase(world, verdict)
        verdict.facts[f"{name} took s"] = round(time.monotonic() - began, 1)
    verdict.happened[REPEATED] = world.happened[REPEATED]  # which may have come late
    verdict.happened += happened.said(world.logs) - before
    for ended in world.ended:
        say(f"  ended by itself: {ended.name} ({ended.status}): {ended.said}")
    for fact, value in verdict.facts.items():
        say(f"  {fact}: {value}")
    say(f"  happened: {dict(sorted(verdict.happened.items()))}")
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
