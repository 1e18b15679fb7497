"""What waits in the spool is made coarser, the oldest first, so that the newest need not be: calls as they
came, then tallies, then the frame of the window alone."""

from gpuledger.agent.coarser.spool import SpoolCoarsener
from gpuledger.agent.coarser.worker import CoarsenerThread

__all__ = ["CoarsenerThread", "SpoolCoarsener"]
