"""What may happen to the world, by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.protocol_world.agent import Agent
from tests.support.protocol_world.scale import WINDOW, WINDOWS
from tests.support.protocol_world.world import World


def _crash_worker(world: World) -> None:
    if world.workers and not world.workers[-1].expelled:
        world.log(f"{world.workers.pop().name} crashes")


def _zombie(world: World) -> None:
    if world.workers and not world.workers[-1].expelled:
        world.log(f"{world.workers[-1].name} becomes a zombie")
        world.spawn()


def _zombie_dies(world: World) -> None:
    for worker in world.workers[:-1]:
        world.workers.remove(worker)
        return


def _stray(world: World) -> None:
    if world.records:
        world.append(world.random.choice(world.records))


def _agent_may_start(world: World, agent: Agent) -> bool:
    return not agent.dead and not agent.over and world.now < WINDOWS * WINDOW


def _restart(world: World, agent: Agent, offset: int, why: str) -> None:
    agent.start(offset)
    world.log(f"{agent.node.node}: {why}, clock {offset}")
    agent.tick(world.now)


def _agent_start(world: World, agent: Agent) -> None:
    if not agent.alive and _agent_may_start(world, agent):
        _restart(world, agent, world.random.choice((0, 0, -2, 1, 2)), "agent starts")


def _agent_crash(world: World, agent: Agent) -> None:
    if agent.alive and not agent.dead:
        agent.crash()
        world.log(f"{agent.node.node}: agent crashes")


def _clock_step(world: World, agent: Agent) -> None:
    if agent.alive and not agent.waiting and _agent_may_start(world, agent):
        _restart(world, agent, world.random.choice((0, -2, 2, -4)), "clock step")


def _far_ahead(world: World, agent: Agent) -> None:
    if agent.alive and _agent_may_start(world, agent):
        _restart(world, agent, 8, "clock far ahead")
        _restart(world, agent, 0, "clock right again")


def _spool_lost(world: World, agent: Agent) -> None:
    if _agent_may_start(world, agent):
        agent.lose_spool()
        _restart(world, agent, world.random.choice((0, -2, -4)), "spool lost")


def _network(world: World, agent: Agent) -> None:
    agent.online = not agent.online


def _node_dies(world: World, agent: Agent) -> None:
    if not agent.dead:
        agent.dead = True
        agent.end(world.now)
        world.log(f"{agent.node.node}: dies")


ON_WORLD: dict[str, Callable[[World], None]] = {
    "worker_crash": _crash_worker,
    "zombie": _zombie,
    "zombie_dies": _zombie_dies,
    "end_stated": World.tell_end,
    "generation": World.announce,
    "mend": World.mend,
    "life_stated": World.state_life,
    "stray": _stray,
}
ON_AGENT: dict[str, Callable[[World, Agent], None]] = {
    "agent_crash": _agent_crash,
    "agent_start": _agent_start,
    "clock_step": _clock_step,
    "far_ahead": _far_ahead,
    "spool_lost": _spool_lost,
    "network": _network,
    "node_dies": _node_dies,
    "goodbye": lambda world, agent: agent.say_goodbye(world.now),
    "flood": lambda world, agent: agent.flood(world.now),
    "amendment": lambda world, agent: agent.amend(world.now),
}
