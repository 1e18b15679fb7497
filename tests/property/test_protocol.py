"""The protocol's state machine under random faults: what must hold, and that the checks can fail.

``GPULEDGER_PROTOCOL_RUNS`` sets the number of random runs (default 300).
"""

from __future__ import annotations

import os

import pytest

from tests.support.protocol_world import Faults, Switches, World, violations
from tests.support.protocol_world.scale import NODES, SILENCE, WINDOW, WINDOWS

RUNS = int(os.environ.get("GPULEDGER_PROTOCOL_RUNS", "300"))
ALL = Faults().weights
TAKEOVERS = {**ALL, "worker_crash": 5, "zombie": 8, "zombie_dies": 0.5, "amendment": 2, "stray": 1}
UNTIMELY = {**ALL, "generation": 4, "goodbye": 1, "node_dies": 1, "end_stated": 4, "life_stated": 3}
BROKEN_AGENTS = {**ALL, "agent_crash": 5, "agent_start": 8, "clock_step": 4, "far_ahead": 2, "spool_lost": 2}


@pytest.mark.parametrize(
    ("name", "faults", "share"),
    [
        ("all faults", Faults(), 0.4),
        ("takeovers", Faults(weights=TAKEOVERS), 0.2),
        ("ends, launches and generations", Faults(weights=UNTIMELY), 0.2),
        ("broken agents and unreadable records", Faults(unreadable=0.15, weights=BROKEN_AGENTS), 0.2),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_ledger_is_exact_whatever_fails(name: str, faults: Faults, share: float) -> None:
    broken = {}
    for seed in range(round(RUNS * share)):
        found = violations(World(seed, faults=faults).run())
        if found:
            broken[seed] = found
    assert not broken, f"{name}: {len(broken)} runs, the first: {next(iter(broken.items()))}"


@pytest.mark.parametrize(
    ("switches", "faults", "runs"),
    [
        (Switches(ack_in_order=False), Faults(), 60),
        (Switches(charges_first=False), Faults(), 400),
        (Switches(fencing=False), Faults(weights=TAKEOVERS), 600),
        (Switches(progress_loaded=False), Faults(), 60),
        (Switches(ends_read_after_time=False), Faults(weights=UNTIMELY), 600),
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
