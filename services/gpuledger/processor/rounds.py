"""One round of work carried out on Kafka: gather, charge and publish, progress, acknowledge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from gpuledger.bus import Incoming, Outgoing, Producer, SchemaRegistry, register
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import record_name
from gpuledger.contract.topics import CHARGES, PROGRESS
from gpuledger.contract.wire import frame
from gpuledger.processor import metrics
from gpuledger.processor.charging import Charged, Configuration, Core, charge
from gpuledger.processor.gathering import Gathered, Gatherer
from gpuledger.processor.letters import Letters, because
from gpuledger.processor.ownership import Ownership
from gpuledger.processor.protocol import (
    Acknowledge,
    Batch,
    Decision,
    Gather,
    LogRecord,
    PartitionOwner,
    Progress,
    Publish,
    work,
)
from gpuledger.processor.settings import ProcessorSettings

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Round:
    """What a call of the engine came to: offsets to commit, by partition, and windows decided."""

    acknowledge: dict[int, int] = field(default_factory=dict)
    windows: int = 0


class Rounds:
    """Carries the protocol's effects out. Owned by the engine's thread."""

    def __init__(
        self,
        settings: ProcessorSettings,
        gatherer: Gatherer,
        letters: Letters,
        producer: Producer,
        registry: SchemaRegistry,
        clock: Clock,
        core: Core,
    ) -> None:
        self._settings = settings
        self._gatherer = gatherer
        self._letters = letters
        self._producer = producer
        self._registry = registry
        self._clock = clock
        self._core = core

    def one(
        self,
        owned: dict[int, Ownership],
        configuration_of: Callable[[Sequence[tuple[int, Decision]]], Configuration],
        total: Round,
    ) -> int:
        """All that is due on the partitions owned, within bounds; returns how many windows were decided.

        What may be acknowledged is added to ``total`` as soon as it may. Raises Fenced, Unavailable.
        """
        effects = work([ownership.owner for ownership in owned.values()])
        gathered = Gathered()
        answer: object = None
        while True:
            try:
                effect = effects.send(answer)
            except StopIteration as end:
                decided: int = end.value
                total.windows += decided
                return decided
            answer = None
            match effect:
                case Gather(tasks):
                    gathered = self._gatherer.gather(tasks, {p: o.held for p, o in owned.items()})
                    answer = gathered.unions
                case Publish(batches):
                    self._publish(batches, owned, gathered, configuration_of)
                case Progress(owner, batch):
                    self._finish(owned[owner.partition], owner, batch)
                case Acknowledge(partition, offset):
                    total.acknowledge[partition] = offset
                    metrics.ACKNOWLEDGED_OFFSET.labels(partition).set(offset)

    def _publish(
        self,
        batches: Sequence[tuple[int, Batch]],
        owned: dict[int, Ownership],
        gathered: Gathered,
        configuration_of: Callable[[Sequence[tuple[int, Decision]]], Configuration],
    ) -> None:
        letters: list[tuple[Incoming, BadRecord]] = []

        def refuse(partition: int, records: Sequence[LogRecord], error: BadRecord) -> None:
            held = owned[partition].held
            letters.extend((held[r.offset][0], error) for r in records if r.offset in held)

        decisions: list[tuple[int, Decision]] = []
        for partition, batch in batches:
            for record in batch.refused:
                error = gathered.errors.get((partition, record.offset), because("window_full"))
                refuse(partition, [record], error)
            refuse(partition, batch.expired, because("inputs_expired"))
            refuse(partition, batch.beyond, because("window_full"))
            decisions += [(partition, decision) for decision in batch.decisions]
        configuration = configuration_of(decisions)
        charged = charge(decisions, gathered.bodies, self._window_ns, configuration, self._core)
        for (partition, _), outcome in zip(decisions, charged, strict=True):
            if outcome.error is not None:
                refuse(partition, outcome.decision.inputs, outcome.error)
        self._letters.bury(letters)
        self._send(charged)

    def _send(self, charged: Sequence[Charged]) -> None:
        self._producer.produce_all(
            Outgoing(
                CHARGES,
                NodeKey(outcome.record.cluster, outcome.record.node).key,
                frame(register(self._registry, record_name(outcome.record)), outcome.body),
            )
            for outcome in charged
        )
        now_ns = self._clock.unix_ns()
        for outcome in charged:
            if outcome.decision.inputs:
                newest_ns = max(record.append_ns for record in outcome.decision.inputs)
                metrics.ROW_LATENCY_SECONDS.observe(max(0, now_ns - newest_ns) / NS_PER_S)

    def _finish(self, ownership: Ownership, owner: PartitionOwner, batch: Batch) -> None:
        for skipped in owner.take_skipped():
            metrics.WINDOWS_SKIPPED.inc(skipped.windows)
            _log.warning(
                "windows too old to be charged",
                cluster=skipped.node.cluster,
                node=skipped.node.node,
                windows=skipped.windows,
                from_ns=skipped.start_ns,
                to_ns=skipped.end_ns,
            )
        ownership.transactions.commit(
            Outgoing(PROGRESS, key, value, partition=owner.partition)
            for key, value in ownership.progress.records(owner, batch, self._registry)
        )
        for offset in batch.finished:
            ownership.held.pop(offset, None)

    def _window_ns(self, cluster: str) -> int:
        return self._settings.grid(cluster).length_ns
