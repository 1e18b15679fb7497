"""What is said of many seeds of a chaos run."""

from __future__ import annotations

import pytest

from tests.chaos.happened import named
from tests.chaos.many import SEEDS_ON_A_STACK, Outcome, seeds_of_a_stack, speaker, summed_up


def test_a_seed_that_did_not_hold_is_named_with_how_to_run_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    held = Outcome(7, [], 30.0, cpu_s=20)
    failed = Outcome(8, ["a window is missing", "and another"], 42.0, {"kill worker": 2}, 40)
    assert summed_up([held], 60, 10) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 of 1 seeds held",
        "60 s, 60 seeds an hour, the longest 30 s",
        "20 s of a core each",
        *(f"none of 1 had {name}" for name in sorted(named())),
    ]
    assert summed_up([held, failed], 60, 10) == 1
    assert capsys.readouterr().out.splitlines() == [
        "1 of 2 seeds held",
        "60 s, 120 seeds an hour, the longest 42 s",
        "30 s of a core each",
        *(f"{'1' if name == 'kill worker' else 'none'} of 2 had {name}" for name in sorted(named())),
        "seed 8: a window is missing",
        "again: make chaos SEED=8 CHAOS_SECONDS=10",
    ]


def test_every_line_says_of_which_seed_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    speaker(12)("one\ntwo")
    assert capsys.readouterr().out == "12 | one\n12 | two\n"


@pytest.mark.parametrize(
    ("seeds", "jobs", "each"), [(200, 4, SEEDS_ON_A_STACK), (8, 4, 2), (9, 4, 3), (2, 4, 1)]
)
def test_seeds_are_shared_among_stacks_so_that_none_runs_on_alone(seeds: int, jobs: int, each: int) -> None:
    assert seeds_of_a_stack(seeds, jobs) == each
