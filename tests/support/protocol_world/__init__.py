"""A small world of agents, one partition and its owners, in which everything that may fail does.

All randomness comes from one seed. Time goes in ticks of a second; a window has three.
"""

from tests.support.protocol_world.agent import Agent
from tests.support.protocol_world.checks import violations
from tests.support.protocol_world.mixture import Faults, Switches
from tests.support.protocol_world.world import World

__all__ = ["Agent", "Faults", "Switches", "World", "violations"]
