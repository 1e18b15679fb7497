"""Sending mended copies: each once, with a note before and a note behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from gpuledger.bus import (
    BusAccess,
    Outgoing,
    PartitionReader,
    Placed,
    Producer,
    SchemaRegistry,
    framed,
    partition_for_node,
)
from gpuledger.contract.clock import NS_PER_S, Clock, SystemClock
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.headers import RECORD_OF_KIND, RecordHeaders
from gpuledger.contract.records import DeadLetter
from gpuledger.contract.topics import DEAD_LETTERS, TELEMETRY
from gpuledger.deadletters.beside import copy_beside
from gpuledger.deadletters.bodies import mended_value
from gpuledger.deadletters.book import RETRIED, RETRYING, Refusal, Retry, name_of
from gpuledger.deadletters.mending import HOPELESS, OF_NO_WINDOW, mended_copy
from gpuledger.deadletters.notes import note
from gpuledger.deadletters.reading import read_whole
from gpuledger.processor.settings import ProcessorSettings

CLIENT = "gpuledger-dead-letters"
CLOCKS_NS = 60 * NS_PER_S  # by how much the broker's clock and that of who began a retry may differ


@dataclass(frozen=True, slots=True)
class Ready:
    """A copy that may be sent. ``headers`` tell it from others; None beside gpu.telemetry, where a copy that
    is sent twice says the same twice."""

    refusal: Refusal
    letter: DeadLetter
    outgoing: Outgoing
    headers: RecordHeaders | None


class Retries:
    """Checks and sends mended copies. Owned by one thread; use it in a ``with``."""

    def __init__(self, bus: BusAccess, settings: ProcessorSettings, clock: Clock | None = None) -> None:
        self.reader = PartitionReader(bus, CLIENT)
        self.registry = SchemaRegistry(bus)
        self._bus = bus
        self._settings = settings
        self._clock = clock or SystemClock()
        self._producer: Producer | None = None

    def ready(self, refusal: Refusal, edited: bytes | None = None) -> Ready:
        """The copy of a refused record, with a mended body where one is given; sends nothing.

        Raises Refused where it can not be retried, or was, and says why; Unavailable.
        """
        if refusal.state == RETRIED and refusal.retry is not None and refusal.retry.place is not None:
            raise Refused(f"it was retried: its copy is {name_of(refusal.retry.place)}")
        if refusal.letter.reason in HOPELESS:
            raise Refused(HOPELESS[refusal.letter.reason])
        if edited is None:
            letter = read_whole(self.reader, self.registry, refusal)
            value = letter.value
        else:
            letter = refusal.letter
            value = mended_value(letter.source_topic, edited, _record_of(letter), self.registry)
        if letter.source_topic != TELEMETRY:
            partitions = self.reader.partitions(letter.source_topic)
            return Ready(refusal, letter, copy_beside(letter, value, self.registry, partitions), None)
        self._check_kept(letter)
        now_ns = self._clock.unix_ns()
        copy = mended_copy(letter, value, edited is not None, self.registry, self._settings, now_ns)
        return Ready(refusal, letter, copy.outgoing, copy.headers)

    def send(self, ready: Ready) -> Placed:
        """Send the copy and tell of it; where an earlier try has sent it, only tell. Raises Unavailable."""
        place = self._sent_before(ready) if ready.refusal.state == RETRYING else None
        if place is None:
            self._tell(ready.letter, None)
            (place,) = self._sender().produce_all([ready.outgoing])
        ready.refusal.retry = self._tell(ready.letter, place)
        return place

    def _tell(self, letter: DeadLetter, place: Placed | None) -> Retry:
        retry = Retry(self._clock.unix_ns(), place)
        value = framed(self.registry, note(letter, retry))
        self._sender().produce_all([Outgoing(DEAD_LETTERS, letter.key or None, value)])
        return retry

    def _sent_before(self, ready: Ready) -> Placed | None:
        """Where the copy lies that an earlier try has sent without coming to tell of it."""
        headers, begun = ready.headers, ready.refusal.retry
        if headers is None or begun is None:
            return None
        partition = partition_for_node(headers.id.node_key.key, self.reader.partitions(TELEMETRY))
        first = self.reader.offset_at(TELEMETRY, partition, begun.at_ns - CLOCKS_NS)
        for message in self.reader.read_to_end(TELEMETRY, partition, first):
            try:
                found = RecordHeaders.from_kafka(message.key, message.headers)
            except BadRecord:
                continue
            if (found.id, found.mend) == (headers.id, headers.mend):
                return message.place
        return None

    def _check_kept(self, letter: DeadLetter) -> None:
        """A window is computed again from all of its records, of which this one is among the oldest."""
        if letter.reason in OF_NO_WINDOW:
            return
        low, _ = self.reader.bounds(TELEMETRY, letter.source_partition)
        if letter.source_offset < low:
            raise Refused(HOPELESS["inputs_expired"])

    def _sender(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(self._bus, CLIENT)
        return self._producer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()
        self.registry.close()
        if self._producer is not None:
            self._producer.close()


def _record_of(letter: DeadLetter) -> str | None:
    """Short name of the record that a letter of gpu.telemetry speaks of, where its headers say it."""
    try:
        return RECORD_OF_KIND[
            RecordHeaders.from_kafka(letter.key, [(item.name, item.value) for item in letter.headers]).kind
        ]
    except BadRecord:
        return None
