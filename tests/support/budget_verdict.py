"""Whether the breaches of a random history are those of its final ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest.mock import patch

from gpuledger.budgets import known, states
from gpuledger.contract.records import Breach
from gpuledger.contract.windows import DAY_NS
from tests.support.budget_ledger import (
    CHANGED,
    IDLE_BUDGETS,
    IDLE_WINDOWS,
    MOVING,
    NEW_WATCH,
    PERIODS,
    THEN,
    WINDOW_NS,
    burns,
    idle_windows,
    of_history,
    reference,
)
from tests.support.budget_world import KNOWN_WINDOWS, World

LASTS_NS = {one.id: PERIODS[one.period] for one in THEN if one.period in PERIODS}
OVER = {"resolved", "retracted"}
PART_BYTES = 1_500  # so that a state takes several


@contextmanager
def short_memory() -> Iterator[None]:
    """Little is kept, and a record holds little, so that short histories go beyond it."""
    with (
        patch.object(known, "KNOWN_WINDOWS", KNOWN_WINDOWS),
        patch.object(states, "PART_BYTES", PART_BYTES),
    ):
        yield


def lives(world: World) -> dict[tuple[str, int, int], list[Breach]]:
    """The changes of each breach, by budget, start of its period (0 where it moves) and threshold."""
    found = defaultdict(list)
    for breach in world.breaches:
        moves = breach.budget_id in MOVING or breach.rule == "idle"
        key = (breach.budget_id, 0 if moves else breach.period_start_ns, breach.threshold_ppm)
        found[key].append(breach)
    return found


def check(world: World) -> None:
    """Raises AssertionError where they are not."""
    now_ns = max((window.start_ns for window, _ in world.content), default=0) + WINDOW_NS
    ledger, told = world.ledger(), lives(world)
    for key, crossed in reference(ledger, now_ns).items():
        name, start_ns, _ = key
        over = name not in MOVING and start_ns + LASTS_NS.get(name, DAY_NS) <= now_ns - 1
        expected = ({"resolved"} if over else {"firing"}) if crossed else {"retracted"}
        if not crossed and name in CHANGED | MOVING:
            expected = OVER
        assert _state(told, key) in expected, (key, crossed, [b.state for b in told.get(key, [])])
    for one in (*IDLE_BUDGETS, NEW_WATCH):
        lasted = idle_windows(ledger, one.scope["team"], now_ns)
        expected = OVER
        if 2 * lasted >= IDLE_WINDOWS:
            expected = {"firing"} if lasted >= IDLE_WINDOWS else {"pending"}
        assert _state(told, (one.id, 0, 0)) in expected, (one.id, lasted)
    _check_rules(world, now_ns)
    for changes in told.values():
        assert [breach.change for breach in changes] == list(range(1, len(changes) + 1))
        states = [breach.state for breach in changes]
        assert all(a != b for a, b in pairwise(states)), states
        assert len({breach.id for breach in changes}) == 1


def _check_rules(world: World, now_ns: int) -> None:
    """Rules of the period under way: what holds fires, and nothing else; nor does the budget that is gone."""
    ledger = world.ledger()
    holds = {"burn": burns(ledger, now_ns), **of_history(ledger)}
    last: dict[str, Breach] = {breach.id: breach for breach in world.breaches}
    firing = {
        breach.budget_id
        for breach in last.values()
        if breach.state in ("firing", "pending")
        and (breach.rule in ("burn_rate", "forecast", "anomaly") or breach.budget_id == "gone")
    }
    assert firing == {name for name, one in holds.items() if one}, (firing, holds)


def _state(told: dict[tuple[str, int, int], list[Breach]], key: tuple[str, int, int]) -> str:
    return told[key][-1].state if key in told else "retracted"
