"""The protocol's state machine under random faults: what must hold, and that the checks can fail.

``GPULEDGER_PROTOCOL_RUNS`` sets the number of random runs (default 300); ``make protocol`` makes many.
"""

from __future__ import annotations

import os

import pytest

from tests.support.protocol_world import Faults, Switches, World, violations
from tests.support.protocol_world.scale import NODES, SILENCE, WINDOW, WINDOWS
from tests.support.protocol_world.suites import BROKEN_AGENTS, ENDS_BESIDE_ZOMBIES, SUITES, TAKEOVERS

RUNS = int(os.environ.get("GPULEDGER_PROTOCOL_RUNS", "300"))


@pytest.mark.parametrize("suite", SUITES)
def test_ledger_is_exact_whatever_fails(suite: str) -> None:
    share, faults = SUITES[suite]
    broken = {}
    for seed in range(round(RUNS * share)):
        found = violations(World(seed, faults=faults).run())
        if found:
            broken[seed] = found
    assert not broken, f"{suite}: {len(broken)} runs, the first: {next(iter(broken.items()))}"


@pytest.mark.parametrize(
    ("suite", "seed"),
    [("broken-agents", 20269444), ("launched-long-ago", 20270347), ("launched-long-ago", 20275844)],
)
def test_runs_that_were_broken_once_are_exact(suite: str, seed: int) -> None:
    assert violations(World(seed, faults=SUITES[suite][1]).run()) == []


@pytest.mark.parametrize(
    ("switches", "faults", "runs"),
    [
        (Switches(ack_in_order=False), Faults(), 60),
        (Switches(charges_first=False), Faults(), 400),
        (Switches(fencing=False), Faults(weights=TAKEOVERS), 600),
        (Switches(progress_loaded=False), Faults(), 60),
        (Switches(ends_read_after_time=False), Faults(weights=ENDS_BESIDE_ZOMBIES), 600),
    ],
    ids=[
        "acknowledged-around-held",
        "progress-before-charges",
        "no-fencing",
        "no-progress",
        "time-after-ends",
    ],
)
def test_a_rule_left_out_is_found(switches: Switches, faults: Faults, runs: int) -> None:
    assert any(violations(World(seed, switches, faults).run()) for seed in range(runs))


def test_one_node_never_delays_another() -> None:
    for seed in range(20):
        world = World(
            seed, faults=Faults(weights={**BROKEN_AGENTS, "worker_crash": 0, "zombie": 0, "life_stated": 0})
        )
        world.spawn()
        for _ in range(WINDOWS * WINDOW + 2 * SILENCE):
            world.advance()
            if world.random.random() < 0.5:
                world.fault(world.agents[:1])
            for agent in world.agents:
                for _ in range(4):
                    world.send(agent)
                while agent.sent:
                    agent.confirm()
            for _ in range(60):
                world.step(world.workers[-1])
        delays = {
            window: world.first_charged.get((NODES[1], window), 10**6) - (window + 1) * WINDOW
            for window in range(WINDOWS)
        }
        assert max(delays.values()) <= 2, (seed, delays)
