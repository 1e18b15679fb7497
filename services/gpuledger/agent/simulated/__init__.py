"""A node that is not there, for machines where eBPF is impossible: the interfaces of the real sources, and a
truth that is known. One object gives events, samples, processes and holders of one make-believe node.
"""

from gpuledger.agent.simulated.node import SimulatedNode
from gpuledger.agent.simulated.sources import (
    SimulatedHolders,
    SimulatedProcesses,
    SimulatedSampler,
    SimulatedSource,
)

__all__ = [
    "SimulatedHolders",
    "SimulatedNode",
    "SimulatedProcesses",
    "SimulatedSampler",
    "SimulatedSource",
]
