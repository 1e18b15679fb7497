"""What a chaos run does to the agents of a node: a second one under its name, and a spool that is lost.

Where the second one is refused, nothing of what two lives at once bring about is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent.lifetime import LAUNCHED_FILE
from gpuledger.localstack import free_port
from tests.chaos import doings, happened
from tests.chaos.service import epochs_in
from tests.chaos.world import World
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One with two agents at work and nobody who takes what they send."""
    world = World(tmp_path, nodes=2, workers=0)
    nowhere = f"http://127.0.0.1:{free_port()}"
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'services'}"}
    world.add_nodes({**paths, "GPULEDGER_REGISTRY_URL": nowhere})
    for link in world.links.values():
        link.start()
    for node in world.nodes:
        world.revive(node)
    try:
        until(lambda: all(world.epochs(node) for node in world.nodes))
        yield world
        world.end_twins()
    finally:
        for node in world.nodes:
            world.kill(node)
        for link in world.links.values():
            link.close()


def test_a_second_agent_of_a_node_works_beside_the_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = world.nodes[0]
    until((world.state_of(node) / LAUNCHED_FILE).exists)
    world.twin(node)
    twin = world.twins[node]
    with monkeypatch.context() as early:
        early.setattr(doings, "epochs_in", lambda log: 0)
        world.untwin(node)  # it has said nothing yet
    assert world.twins == {node: twin}
    until(lambda: epochs_in(twin.log_path) or not twin.running)
    assert twin.running, twin.said()
    assert world.targets[node].running
    world.untwin(node)
    until(lambda: not twin.running)
    assert not world.twins
    assert world.happened["twin node"] == 1


def test_the_spool_of_a_stranded_node_is_lost_and_its_agent_begins_anew(world: World) -> None:
    node, other = world.nodes
    spool = world.state_of(node) / "spool"
    until(lambda: any(path.stat().st_size > 1000 for path in spool.glob("*.segment")))
    world.strand(node)
    world.lose(node)
    assert {one.node for one in world.spooled} == {node}
    until(lambda: world.epochs(node) == 2)
    assert world.epochs(other) == 1


def test_the_clock_of_a_node_is_stepped_and_its_agent_sees_it(world: World) -> None:
    node, other = world.nodes
    world.step_behind(node)
    until(lambda: world.epochs(node) == 2)
    world.step_back(node)
    until(lambda: world.epochs(node) == 3)
    assert happened.said(world.logs)["clocks seen to step"] == 2
    assert world.epochs(other) == 1
