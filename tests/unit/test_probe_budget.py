"""A node that calls very often in all has its processes tallied sooner."""

import pytest

from gpuledger.agent.probes.budget import BUSY_CALLS_PER_S, NODE_CALLS_PER_S, RateBudget

S = 10**9


def rates(budget: RateBudget, *calls_per_s: int) -> list[int | None]:
    """The rate after each second with so many calls."""
    made, found = 0, []
    budget.note(0, 0)
    for second, calls in enumerate(calls_per_s, 1):
        made += calls
        budget.note(made, second * S)
        found.append(budget.calls_per_s)
    return found


def test_a_node_with_few_calls_leaves_the_rate_as_it_was_set() -> None:
    assert rates(RateBudget(50_000), 0, 10_000, NODE_CALLS_PER_S) == [50_000] * 3


def test_above_what_is_taken_one_by_one_processes_are_tallied_sooner_until_the_node_is_calm_again() -> None:
    much, little_less, calm = NODE_CALLS_PER_S + 1, NODE_CALLS_PER_S - 1, NODE_CALLS_PER_S // 2
    found = rates(RateBudget(50_000), much, little_less, much, calm, little_less)
    assert found == [BUSY_CALLS_PER_S] * 3 + [50_000] * 2


@pytest.mark.parametrize("set_", [None, 0, 1000])
def test_never_and_sooner_still_stay_as_they_are(set_: int | None) -> None:
    assert rates(RateBudget(set_), 10 * NODE_CALLS_PER_S, 10 * NODE_CALLS_PER_S) == [set_] * 2


def test_a_moment_says_nothing_of_a_rate() -> None:
    budget = RateBudget(50_000)
    budget.note(0, 0)
    assert not budget.note(10_000, S // 100)
    assert budget.calls_per_s == 50_000


def test_it_says_when_the_rate_is_another() -> None:
    budget = RateBudget(50_000)
    made = [budget.note(calls, second * S) for second, calls in enumerate((0, 10**6, 2 * 10**6, 2 * 10**6))]
    assert made == [False, True, False, True]
