"""Which months are closed, from gpu.periods, for whoever writes to the ledger."""

from __future__ import annotations

from gpuledger.bus import BusAccess, PartitionReader, SchemaRegistry
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import BadRecord, NoTopic
from gpuledger.contract.periods import closed_through
from gpuledger.contract.records import PeriodsVersion, decode_as
from gpuledger.contract.topics import PERIODS
from gpuledger.contract.wire import unframe

PARTITION = 0  # versions have one order
# A version is published 60 s before it holds: whoever has read the topic since then knows it. The rest of
# the 60 s is for publishing itself and for clocks that differ.
KNOWN_AHEAD_NS = 15 * NS_PER_S
CLIENT_ID = "gpuledger-periods"


class ClosedPeriods:
    """Reads gpu.periods as it grows. Used by one thread, which connects at its first call; closed by any."""

    def __init__(self, bus: BusAccess, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._reader: PartitionReader | None = None
        self._registry: SchemaRegistry | None = None
        self._versions: dict[int, PeriodsVersion] = {}
        self._next = 0  # offset
        self._read_ns = 0  # when the topic was last read to its end

    def through(self, at_ns: int) -> str:
        """The last month that is closed for charges that reached Kafka at an instant; empty where none is.

        Raises Unavailable.
        """
        if self._reader is None or at_ns > self._read_ns + KNOWN_AHEAD_NS:
            self._read()
        return closed_through(self._versions.values(), at_ns)

    def close(self) -> None:
        """Let go of the connections."""
        if self._reader is not None:
            self._reader.close()
        if self._registry is not None:
            self._registry.close()
        self._reader = self._registry = None

    def _read(self) -> None:
        now_ns = self._clock.unix_ns()
        if self._reader is None or self._registry is None:
            self._reader = PartitionReader(self._bus, CLIENT_ID)
            self._registry = SchemaRegistry(self._bus, self._clock)
        try:
            for message in self._reader.read_to_end(PERIODS, PARTITION, self._next):
                self._next = message.offset + 1
                try:
                    schema_id, body = unframe(message.value or b"")
                    found = decode_as(PeriodsVersion, body, self._registry.schema(schema_id))
                except BadRecord:
                    continue  # `gpuledger period` refuses to go on from it
                self._versions.setdefault(found.version, found)  # of two with one number the first holds
        except NoTopic:
            pass  # nothing was ever closed
        self._read_ns = now_ns
