"""Breaches under random faults equal what a simple reference finds in the final ledger, each told once.

``GPULEDGER_BUDGET_RUNS`` sets the number of histories (default 25, the same each time); ``make
budget-histories`` runs a thousand random ones. Replaced owners go on for a while beside their followers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.budgets import PartitionCount, counting
from gpuledger.budgets.contribution import Contribution
from gpuledger.contract.windows import DAY_NS
from tests.support.budget_ledger import CHANGED
from tests.support.budget_verdict import check, lives, short_memory
from tests.support.budget_world import Owner, World

RUNS = int(os.environ.get("GPULEDGER_BUDGET_RUNS", "25"))
DAYS = (1, 4, 12)
OFTEN = DAYS if RUNS > 100 else DAYS[:2]  # many days with many restatements take seconds each


@pytest.fixture(autouse=True, scope="module")
def little_is_kept() -> Iterator[None]:
    with short_memory():
        yield


@settings(max_examples=RUNS, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    restates=st.sampled_from((0, 10, 40)),
    crashes=st.sampled_from((0, 5, 20)),
    days=st.sampled_from(OFTEN),
)
def test_breaches_are_those_of_the_final_ledger_whatever_crashes(
    seed: int, restates: int, crashes: int, days: int
) -> None:
    world = World(seed, restates, crashes, days)
    world.write()
    world.run()
    check(world)


@settings(max_examples=RUNS // 4, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32), days=st.sampled_from(DAYS))
def test_without_restatements_each_crossing_fires_once(seed: int, days: int) -> None:
    world = World(seed, restates=0, crashes=20, days=days)
    world.write()
    world.run()
    for (name, _, _), changes in lives(world).items():
        if changes[0].rule == "threshold" and name not in CHANGED | {"rolling"}:
            assert [breach.state for breach in changes][:1] == ["firing"]
            assert sum(breach.state == "firing" for breach in changes) == 1


def test_the_histories_restate_what_the_warehouse_must_be_asked_for() -> None:
    asked, resent, zombies = [], 0, 0
    for seed in range(6):
        world = World(seed, restates=40, crashes=20, days=DAYS[seed % 3])
        original = world._asked

        def noting(
            count: PartitionCount, number: int, window: object, counted: object, original: object = original
        ) -> object:
            found = original(count, number, window, counted)  # type: ignore[operator]
            asked.append((counted, found))
            return found

        world._asked = noting  # type: ignore[method-assign, assignment]
        world.write()
        for log in world.logs:
            keys = [(record.window, record.revision) for record in log.records]
            resent += len(keys) - len(set(keys))
        world.run()
        check(world)
        zombies += world.zombie_steps
    assert any(counted is None and found is not None for counted, found in asked)
    assert any(counted is not None for counted, _ in asked)
    assert resent > 10
    assert zombies > 10


def too_early(world: World, number: int, owner: Owner) -> None:
    """Acknowledge what no state has."""
    world.acknowledged[number] = owner.count.position


RULES_LEFT_OUT = {
    "the tail is not recalled by a new owner": (PartitionCount, "recall", lambda self, charges: None),
    "whatever comes is new": (
        PartitionCount,
        "_before",
        lambda self, charges, replaced: (-1, Contribution()),
    ),
    "what is told is told again": (
        "gpuledger.budgets.Lives.recall",
        None,
        lambda self, breach: None,
    ),
    "it is acknowledged before the state is written": (World, "_counted", too_early),
    "periods are closed once the next has ended": (counting.Meter, "closed_ns", lambda self, ns: ns - DAY_NS),
}


@pytest.mark.parametrize("broken", RULES_LEFT_OUT)
def test_a_rule_left_out_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, name, instead = RULES_LEFT_OUT[broken]
    if name is None:
        monkeypatch.setattr(target, instead)
    else:
        monkeypatch.setattr(target, name, instead)
    assert any(fails(seed) for seed in range(7, 60))  # from where each is found soon


def fails(seed: int) -> bool:
    world = World(seed, restates=40, crashes=20, days=DAYS[seed % 3])
    world.write()
    try:
        world.run()
        check(world)
    except AssertionError:
        return True
    return False
