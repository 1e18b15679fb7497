"""Which months are closed, from gpu.periods, for whoever writes to the ledger."""

from __future__ import annotations

from gpuledger.bus import BusAccess
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.periods import closed_through
from gpuledger.contract.records import PeriodsVersion
from gpuledger.sink.numbered import NumberedTopic

# A version is published 60 s before it holds: whoever has read the topic since then knows it. The rest of
# the 60 s is for publishing itself and for clocks that differ.
KNOWN_AHEAD_NS = 15 * NS_PER_S


class ClosedPeriods:
    """Reads gpu.periods as it grows. Used by one thread, which connects at its first call; closed by any."""

    def __init__(self, bus: BusAccess, clock: Clock) -> None:
        self._clock = clock
        self._topic = NumberedTopic(bus, clock, PeriodsVersion, lambda periods: periods.version)
        self._read_ns = 0  # when the topic was last read to its end

    def through(self, at_ns: int) -> str:
        """The last month that is closed for charges that reached Kafka at an instant; empty where none is.

        Raises Unavailable.
        """
        if not self._topic.connected or at_ns > self._read_ns + KNOWN_AHEAD_NS:
            now_ns = self._clock.unix_ns()
            self._topic.read()
            self._read_ns = now_ns
        return closed_through(self._topic.known.values(), at_ns)

    def close(self) -> None:
        """Let go of the connections."""
        self._topic.close()
