"""The ranges of generations, from gpu.generations, for whoever shows what they restate."""

from __future__ import annotations

from gpuledger.bus import BusAccess, PartitionReader, SchemaRegistry
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import BadRecord, NoTopic
from gpuledger.contract.records import Generation, decode_as
from gpuledger.contract.topics import GENERATIONS
from gpuledger.contract.wire import unframe

PARTITION = 0  # announcements have one order
CLIENT_ID = "gpuledger-announced"


class AnnouncedGenerations:
    """Reads gpu.generations as it grows. Used by one thread, which connects at its first call."""

    def __init__(self, bus: BusAccess, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._reader: PartitionReader | None = None
        self._registry: SchemaRegistry | None = None
        self._known: dict[int, Generation] = {}
        self._missing: set[int] = set()
        self._next = 0  # offset

    def of(self, number: int) -> Generation | None:
        """The generation of that number; None where none was announced. Raises Unavailable.

        Whoever charges with a generation has read its announcement before, so that it is there now.
        """
        if number not in self._known and number not in self._missing:
            self._read()
            if number not in self._known:
                self._missing.add(number)
        return self._known.get(number)

    def close(self) -> None:
        """Let go of the connections."""
        if self._reader is not None:
            self._reader.close()
        if self._registry is not None:
            self._registry.close()
        self._reader = self._registry = None

    def _read(self) -> None:
        if self._reader is None or self._registry is None:
            self._reader = PartitionReader(self._bus, CLIENT_ID)
            self._registry = SchemaRegistry(self._bus, self._clock)
        try:
            for message in self._reader.read_to_end(GENERATIONS, PARTITION, self._next):
                self._next = message.offset + 1
                try:
                    schema_id, body = unframe(message.value or b"")
                    found = decode_as(Generation, body, self._registry.schema(schema_id))
                except BadRecord:
                    continue  # the processor tells it
                self._known.setdefault(found.number, found)  # of two with one number the first holds
        except NoTopic:
            pass  # nothing was ever announced
