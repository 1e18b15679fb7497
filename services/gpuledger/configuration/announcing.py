"""Generations that published versions owe to the past: what they are, and announcing them.

A version is published first, then what it owes is announced; that follows from what is published alone
(``pricing.restating``). Whoever is interrupted between the two has published a version that still owes: the
next call finds that and announces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuledger.bus import BusSettings, Outgoing, PartitionReader, Producer, SchemaRegistry, framed, unframed
from gpuledger.configuration.publish import CLIENT_ID, PARTITION, Documents
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.records import Generation, PriceBookVersion, TeamMapVersion
from gpuledger.contract.topics import GENERATIONS
from gpuledger.pricing.restating import Published, owed
from gpuledger.pricing.yaml_documents import Version

KEY = b"generations"
ATTEMPTS = 10  # somebody else may take a number first, each time; nobody announces that often


class Announcer:
    """Announces what is owed. Opens connections as it needs them and closes them."""

    def __init__(self, settings: BusSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._documents = Documents(settings, clock)

    def announced(self) -> list[Generation]:
        """Every generation that can be read, in the order of the topic. Raises Unavailable."""
        with PartitionReader(self._settings, CLIENT_ID) as reader, SchemaRegistry(self._settings) as registry:
            self._documents.await_leader(reader, GENERATIONS)
            found = []
            for message in reader.read_to_end(GENERATIONS, PARTITION):
                try:
                    found.append(unframed(Generation, message.value, registry))
                except BadRecord:
                    continue  # the processor tells it
            return found

    def published(self) -> Published:
        """All that is published, as of now."""
        prices: Sequence[Version] = self._documents.versions(PriceBookVersion)
        teams: Sequence[Version] = self._documents.versions(TeamMapVersion)
        # Last: a generation pins what was published before it.
        return Published(
            [one for one in prices if isinstance(one, PriceBookVersion)],
            [one for one in teams if isinstance(one, TeamMapVersion)],
            self.announced(),
        )

    def announce(self, who: str, why: str = "") -> list[Generation]:
        """Announce all that is owed, and return what of it was announced here.

        Raises Refused where somebody else takes the numbers each time, Unavailable.
        """
        done: list[Generation] = []
        for _ in range(ATTEMPTS):
            wanted = [
                replace(one, announced_ns=self._clock.unix_ns(), who=who, why=why)
                for one in owed(self.published())
            ]
            if not wanted:
                return done
            with SchemaRegistry(self._settings) as registry, Producer(self._settings, CLIENT_ID) as producer:
                producer.produce_all(
                    Outgoing(GENERATIONS, KEY, framed(registry, one), partition=PARTITION) for one in wanted
                )
            held = {one.number: one for one in reversed(self.announced())}
            done += [one for one in wanted if held[one.number] == one]
        raise Refused("somebody else announces generations all the time; look at it, then apply again")
