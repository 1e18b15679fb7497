"""The ranges of generations, from gpu.generations, for whoever shows what they restate."""

from __future__ import annotations

from gpuledger.bus import BusAccess
from gpuledger.contract.clock import Clock
from gpuledger.contract.records import Generation
from gpuledger.sink.numbered import NumberedTopic


class AnnouncedGenerations:
    """Reads gpu.generations as it grows. Used by one thread, which connects at its first call."""

    def __init__(self, bus: BusAccess, clock: Clock) -> None:
        self._topic = NumberedTopic(bus, clock, Generation, lambda generation: generation.number)
        self._missing: set[int] = set()

    def of(self, number: int) -> Generation | None:
        """The generation of that number; None where none was announced. Raises Unavailable.

        Whoever charges with a generation has read its announcement before, so that it is there now.
        """
        if number not in self._topic.known and number not in self._missing:
            self._topic.read()
            if number not in self._topic.known:
                self._missing.add(number)
        return self._topic.known.get(number)

    def close(self) -> None:
        """Let go of the connections."""
        self._topic.close()
