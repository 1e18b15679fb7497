"""A window computed again from the records that its head names, by the processor's own steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuledger.attribution import Charges, NodeWindow, charge_windows
from gpuledger.attribution.trace import Steps
from gpuledger.bus import Incoming
from gpuledger.bus.log import Log, Schemas
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.revision import CORE_VERSION
from gpuledger.contract.topics import TELEMETRY
from gpuledger.explain.stored import Head, WindowKey
from gpuledger.pricing import Prices, Teams
from gpuledger.processor.charging import Configuration, charge
from gpuledger.processor.gathering import Gathered, Gatherer
from gpuledger.processor.protocol import (
    Decision,
    Label,
    Lifetime,
    LogRecord,
    WindowTask,
    distinct,
    label_of,
    statement_of,
)
from gpuledger.processor.protocol.inputs import within_bounds
from gpuledger.processor.protocol.lifetimes import Lifetimes
from gpuledger.processor.protocol.ranks import cuts, distance_of, rank_of_inputs
from gpuledger.processor.protocol.values import Layout
from gpuledger.processor.reading import Decoder
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.processor.topics_read import TopicsReader
from gpuledger.processor.window_inputs import WindowInputs


@dataclass(frozen=True, slots=True)
class Computed:
    """The outcome: the set, how it came about, and what it was computed from."""

    charges: ChargeSet
    steps: Steps
    decision: Decision
    gathered: Gathered
    configuration: Configuration


class Recomputation:
    """Computes windows again. Owned by one thread; the log, the schemas and the inputs stay the caller's.

    ``head_of`` gives the head of an earlier window, for one that has no keyframe of its own.
    """

    def __init__(
        self,
        log: Log,
        schemas: Schemas,
        inputs: WindowInputs,
        settings: ProcessorSettings,
        head_of: Callable[[WindowKey], Head | None],
    ) -> None:
        self._topics = TopicsReader(log, schemas, Unheard())
        self._gatherer = Gatherer(inputs, Decoder(schemas))
        self._settings = settings
        self._head_of = head_of
        self._lives: dict[int, list[tuple[NodeKey, Lifetime]]] = {}

    def of(self, head: Head) -> Computed:
        """The window of a head, computed again.

        Raises Refused where records are gone or a version of the configuration is not known, Unavailable.
        """
        node, start, end = head.key.node, head.key.start_ns, head.key.start_ns + head.length_ns
        gathered, inputs = self._inputs(head)
        alive = self._lifetimes(head).alive(start, end)
        layout, distance = self._layout(head, inputs)
        if inputs:
            cut = cuts(start, end, alive)
            revision = rank_of_inputs(head.revision.generation, node, inputs, alive, cut, distance)
            label = label_of(inputs)
        else:
            revision = head.revision._replace(core=CORE_VERSION)
            label = Label.ENDED if head.state == "ended" else Label.UNOBSERVED
        if label is Label.ENDED:
            alive, layout = (), None
        decision = Decision(node, start, label, revision, alive, inputs, layout)
        configuration = self._topics.configuration()
        steps = Steps()

        def core(windows: Sequence[NodeWindow], prices: Prices, teams: Teams) -> list[Charges]:
            steps.forget()  # the core is asked again where it fails on a window's records
            return charge_windows(windows, prices, teams, steps)

        window_ns = head.length_ns
        (charged,) = charge(
            [(head.partition, decision)], gathered.bodies, lambda _: window_ns, configuration, core
        )
        return Computed(charged.record, steps, decision, gathered, configuration)

    def _inputs(self, head: Head) -> tuple[Gathered, tuple[LogRecord, ...]]:
        """The records that a head names, decoded; and the window's inputs among them."""
        if not head.offset_ranges:
            return Gathered(), ()
        offsets = {at for first, count in head.offset_ranges for at in range(first, first + count)}
        task = WindowTask(head.key.node, head.key.start_ns, (), (min(offsets), max(offsets)))
        gathered = self._gatherer.gather([(head.partition, task)], {})
        union = [
            record for record in gathered.unions[head.key.node, head.key.start_ns] if record.offset in offsets
        ]
        if len(union) < len(offsets):
            raise Refused(
                f"{len(offsets) - len(union)} of the {len(offsets)} records that the row came from are not"
                f" there any more in {TELEMETRY}/{head.partition}: give an archive with --archive"
            )
        inputs, _ = within_bounds(distinct(union), self._settings.rules())
        return gathered, inputs

    def _layout(self, head: Head, inputs: tuple[LogRecord, ...]) -> tuple[Layout | None, int | None]:
        """What the node is charged for, and how many windows before lies the one that states it."""
        own = statement_of(inputs)
        if own is not None and own.has_keyframe:
            return own.layout, 0
        distance = distance_of(head.revision)
        if distance is None:
            return None, None
        earlier = self._head_of(WindowKey(head.key.node, head.key.start_ns - distance * head.length_ns))
        if earlier is None:
            raise Refused("the window whose devices it is charged for is not in the ledger any more")
        stated = statement_of(self._inputs(earlier)[1])
        return (None if stated is None else stated.layout), distance

    def _lifetimes(self, head: Head) -> Lifetimes:
        """What gpu.nodes states of the node."""
        if head.partition < 0:
            return Lifetimes()
        if head.partition not in self._lives:
            self._lives[head.partition] = list(self._topics.lifetimes(head.partition))
        found = Lifetimes()
        for key, life in self._lives[head.partition]:
            if key == head.key.node:
                found = found.with_life(life)
        return found


class Unheard:
    """Where refused records of the topics beside the log go: the processor has told them already."""

    def add(self, message: Incoming, error: BadRecord) -> None:
        """See processor.topics_read.Refuses."""

    def forget(self, topic: str, partition: int) -> None:
        """See processor.topics_read.Refuses."""
