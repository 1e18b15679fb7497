"""The topics of configuration documents: reading every version, publishing the next one."""

from __future__ import annotations

from typing import TypeAlias

from gpuledger.bus import BusSettings, Outgoing, PartitionReader, Producer, SchemaRegistry, framed, unframed
from gpuledger.configuration.plan import Applied, plan_version
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import KafkaUnavailable, Refused
from gpuledger.contract.records import (
    BudgetsVersion,
    PriceBookVersion,
    TeamMapVersion,
    record_name,
)
from gpuledger.contract.topics import CHARGES, topic_of
from gpuledger.contract.windows import NS_PER_S
from gpuledger.pricing.yaml_documents import Version

PARTITION = 0  # documents of a kind have one order
KIND_OF_RECORD: dict[str, str] = {
    "PriceBookVersion": "prices",
    "TeamMapVersion": "teams",
    "BudgetsVersion": "budgets",
}
Kind: TypeAlias = type[PriceBookVersion] | type[TeamMapVersion] | type[BudgetsVersion]
LEADER_WAIT_NS = 20 * NS_PER_S  # an election takes a few seconds; a broker that is away is not waited for
LEADER_PAUSE_S = 0.25
CLIENT_ID = "gpuledger-config"


class Documents:
    """The published documents of a ledger. Opens connections as it needs them and closes them."""

    def __init__(self, settings: BusSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def versions(self, kind: Kind) -> list[Version]:
        """Every version of a kind of document; of two with one number the first holds.

        Raises Unavailable, and BadRecord where the topic holds something else.
        """
        with PartitionReader(self._settings, CLIENT_ID) as reader, SchemaRegistry(self._settings) as registry:
            return self._read(reader, registry, kind)

    def _read(
        self,
        reader: PartitionReader,
        registry: SchemaRegistry,
        kind: Kind,
    ) -> list[Version]:
        topic = topic_of(kind.__name__)
        self.await_leader(reader, topic)
        found: dict[int, Version] = {}
        for record in reader.read_to_end(topic, PARTITION):
            version: Version = unframed(kind, record.value, registry)
            found.setdefault(version.version, version)
        return [found[number] for number in sorted(found)]

    def await_leader(self, reader: PartitionReader, topic: str) -> None:
        """A topic that was created a moment ago has no leader yet."""
        give_up_ns = self._clock.boot_ns() + LEADER_WAIT_NS
        while True:
            try:
                reader.bounds(topic, PARTITION)
                return
            except KafkaUnavailable:
                if self._clock.boot_ns() >= give_up_ns:
                    raise
                self._clock.sleep(LEADER_PAUSE_S)

    def charged(self, reader: PartitionReader) -> bool:
        """Whether anything was ever charged."""
        return any(reader.bounds(CHARGES, number)[1] > 0 for number in range(reader.partitions(CHARGES)))

    def apply(
        self,
        document: Version,
        active_from_ns: int | None = None,
        author: str = "",
        comment: str = "",
        dry_run: bool = False,
        seen: Applied | None = None,
        restates_past: bool = False,
    ) -> Applied:
        """Publish a checked document as the next version; see ``plan_version``.

        With ``restates_past`` it owes generations, which are announced apart.

        ``seen`` is what a dry run showed to whoever said yes to it: where another version was published
        since, this one is refused. Raises Refused also where somebody published at the same moment: the
        first of two equal numbers holds, and this one was the second.
        """
        name = record_name(document)
        kind = type(document)
        with PartitionReader(self._settings, CLIENT_ID) as reader, SchemaRegistry(self._settings) as registry:
            known = self._read(reader, registry, kind)
            if seen is not None and len(seen.known) != len(known):
                raise Refused(
                    f"version {known[-1].version} of the {KIND_OF_RECORD[name]} was published by "
                    f"{known[-1].author or 'somebody'} meanwhile; look at it, then apply again"
                )
            planned = plan_version(
                document,
                known,
                self._clock.unix_ns(),
                active_from_ns,
                self.charged(reader),
                author,
                comment,
                restates_past,
            )
            if planned is None:
                return Applied(KIND_OF_RECORD[name], known[-1], unchanged=True, known=tuple(known))
            if not dry_run:
                with Producer(self._settings, CLIENT_ID) as producer:
                    key = KIND_OF_RECORD[name].encode()
                    value = framed(registry, planned)
                    producer.produce_all([Outgoing(topic_of(name), key, value, partition=PARTITION)])
                held = {version.version: version for version in self._read(reader, registry, kind)}
                if held[planned.version].document_sha256 != planned.document_sha256:
                    raise Refused(
                        f"version {planned.version} of the {KIND_OF_RECORD[name]} was published by "
                        f"{held[planned.version].author or 'somebody'} at the same moment; look at it, then "
                        "apply again"
                    )
            return Applied(KIND_OF_RECORD[name], planned, unchanged=False, known=tuple(known))
