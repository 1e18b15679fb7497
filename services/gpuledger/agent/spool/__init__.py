"""One queue a node: records wait in memory and on disk until Kafka has them, in the order of their making."""

from gpuledger.agent.spool.entry import Entry
from gpuledger.agent.spool.journal import Journal, JournalFull
from gpuledger.agent.spool.lock import NodeLock, node_lock
from gpuledger.agent.spool.marks import Position
from gpuledger.agent.spool.queue import NodeQueue, Pressure, Ticket

__all__ = [
    "Entry",
    "Journal",
    "JournalFull",
    "NodeLock",
    "NodeQueue",
    "Position",
    "Pressure",
    "Ticket",
    "node_lock",
]
