"""Breaches under random faults equal what a simple reference finds in the final ledger, each told once.

``GPULEDGER_BUDGET_RUNS`` sets the number of random histories (default 60).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.budgets import counting, known
from gpuledger.budgets.contribution import Contribution
from gpuledger.contract.records import Breach
from gpuledger.contract.windows import DAY_NS
from tests.support.budget_world import (
    IDLE_BUDGETS,
    IDLE_WINDOWS,
    KNOWN_WINDOWS,
    START_NS,
    WINDOW_NS,
    WINDOWS,
    World,
    idle_windows,
    reference,
)

RUNS = int(os.environ.get("GPULEDGER_BUDGET_RUNS", "60"))


@pytest.fixture(autouse=True, scope="module")
def short_memory() -> Iterator[None]:
    """Little is kept, so that short histories go beyond it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "KNOWN_WINDOWS", KNOWN_WINDOWS)
        yield


def lives(world: World) -> dict[tuple[str, int, int], list[Breach]]:
    found = defaultdict(list)
    for breach in world.breaches:
        moves = breach.budget_id == "rolling" or breach.rule == "idle"
        key = (breach.budget_id, 0 if moves else breach.period_start_ns, breach.threshold_ppm)
        found[key].append(breach)
    return found


def check(world: World) -> None:
    newest_ns = max((window.start_ns for window, _ in world.content), default=0) + WINDOW_NS
    told = lives(world)
    for key, crossed in reference(world.ledger(), newest_ns).items():
        name, start_ns, _ = key
        state = told[key][-1].state if key in told else "retracted"
        over = name != "rolling" and start_ns + DAY_NS <= newest_ns - 1
        expected = ({"resolved"} if over else {"firing"}) if crossed else {"retracted"}
        if name == "rolling" and not crossed:
            expected = {"resolved", "retracted"}
        assert state in expected, (key, crossed, [b.state for b in told.get(key, [])])
    for one in IDLE_BUDGETS:
        lasted = idle_windows(world.ledger(), one.scope["team"], newest_ns)
        changes = told.get((one.id, 0, 0), [])
        state = changes[-1].state if changes else "retracted"
        expected = {"resolved", "retracted"}
        if 2 * lasted >= IDLE_WINDOWS:
            expected = {"firing"} if lasted >= IDLE_WINDOWS else {"pending"}
        assert state in expected, (one.id, lasted, [b.state for b in changes])
    for changes in told.values():
        assert [breach.change for breach in changes] == list(range(1, len(changes) + 1))
        states = [breach.state for breach in changes]
        assert all(a != b for a, b in pairwise(states)), states
        assert len({breach.id for breach in changes}) == 1


@settings(max_examples=RUNS, deadline=None)
@given(seed=st.integers(0, 2**32), restates=st.sampled_from((0, 10, 40)), crashes=st.sampled_from((0, 5, 20)))
def test_breaches_are_those_of_the_final_ledger_whatever_crashes(
    seed: int, restates: int, crashes: int
) -> None:
    world = World(seed, restates, crashes)
    world.write()
    world.run()
    check(world)


@settings(max_examples=RUNS // 4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_without_restatements_each_crossing_fires_once(seed: int) -> None:
    world = World(seed, restates=0, crashes=20)
    world.write()
    world.run()
    for (name, _, _), changes in lives(world).items():
        if name != "rolling" and not name.startswith("idle"):
            assert [breach.state for breach in changes][:1] == ["firing"]
            assert sum(breach.state == "firing" for breach in changes) == 1


def test_the_histories_restate_what_the_warehouse_must_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "RESTATED_KEPT", 3)
    asked = []
    for seed in range(20):
        world = World(seed, restates=40, crashes=20, withdraws=False)
        original = world._asked

        def noting(*arguments: object, original: object = original) -> object:
            found = original(*arguments)  # type: ignore[operator]
            asked.append(found)
            return found

        world._asked = noting  # type: ignore[method-assign, assignment]
        world.write()
        world.run()
        check(world)
    assert any(found is not None for found in asked)
    assert WINDOWS * WINDOW_NS > DAY_NS - START_NS % DAY_NS  # a day ends within


@pytest.mark.parametrize("broken", ["tail", "high_water", "position"])
def test_a_rule_left_out_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "tail":  # a new owner that does not know what came last
        monkeypatch.setattr(counting.PartitionCount, "recall", lambda self, charges: None)
    elif broken == "high_water":  # whatever comes is new
        nothing = (-1, Contribution())
        monkeypatch.setattr(counting.PartitionCount, "_before", lambda self, charges, replaced: nothing)
    else:  # what is told is told again
        monkeypatch.setattr("gpuledger.budgets.Lives.recall", lambda self, breach: None)
    failures = 0
    for seed in range(40):
        world = World(seed, restates=40, crashes=20)
        world.write()
        try:
            world.run()
            check(world)
        except AssertionError:
            failures += 1
    assert failures
