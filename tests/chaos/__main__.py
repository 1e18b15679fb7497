"""``python -m tests.chaos --seconds 120 --seed 7``: prints the seed, each fault, and the verdict.

With ``--runs 200`` seeds follow each other, several on one stack, each with nodes of its own; with
``--jobs 4`` four stacks run at the same time.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.many import Setting, run_many, summed_up
from tests.chaos.one import run

KEPT = Path(__file__).parents[2] / "build" / "chaos"  # the logs of what failed


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="how long faults come")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budgets", type=int, default=2, help="workers of the budgets application")
    parser.add_argument("--late", type=float, default=0, help="seconds until the workers start at all")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds")
    parser.add_argument("--jobs", type=int, default=1, help="how many stacks at the same time")
    parser.add_argument(
        "--only",
        default="",
        help="break only: worker,budgets,node,sink,kafka,registry,warehouse,link,inserts,disk,store,log",
    )
    parser.add_argument("--keep", type=Path, help="directory to leave everything in")
    given = parser.parse_args()
    only = given.only.split(",") if given.only else []
    if given.runs > 1:
        directory = given.keep or KEPT
        directory.mkdir(parents=True, exist_ok=True)
        setting = Setting(directory, given.seconds, given.nodes, given.workers, given.budgets, only)
        began = time.monotonic()
        outcomes = run_many(setting, range(given.seed, given.seed + given.runs), given.jobs)
        return summed_up(outcomes, time.monotonic() - began, given.seconds)
    with tempfile.TemporaryDirectory(prefix="chaos-") as scratch:
        directory = given.keep or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        shape = given.nodes, given.workers, given.budgets
        verdict = run(directory, given.seed, given.seconds, *shape, late_s=given.late, only=only)
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
