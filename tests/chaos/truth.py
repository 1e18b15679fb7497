"""The ledger that follows from what lies in Kafka, computed without the processor's code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gpuledger.attribution import NodeWindow, charge_windows
from gpuledger.attribution.window import WindowState
from gpuledger.bus import BusSettings, Incoming, PartitionReader, Placed
from gpuledger.contract import topics
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.identity import NodeKey, RecordId
from gpuledger.contract.records import (
    ChargeSet,
    DeadLetter,
    EventBatch,
    Generation,
    Holdings,
    NodeLayout,
    NodeLifetime,
    PriceBookVersion,
    SampleBatch,
    TeamMapVersion,
    decode,
)
from gpuledger.contract.revision import Revision
from gpuledger.contract.windows import NS_PER_S
from gpuledger.contract.wire import unframe
from gpuledger.pricing import Prices, Teams
from tests.chaos.settings import WINDOW_S
from tests.chaos.times import NS_PER_MS, is_ahead

WINDOW_NS = WINDOW_S * NS_PER_S
AT_ONCE = 200  # windows in one call of the core
Place = tuple[NodeKey, int]
Input = tuple[RecordId, int]  # with its mend number
R = TypeVar("R")
_CLASS: Mapping[Kind, type[EventBatch] | type[SampleBatch] | type[Holdings]] = {
    Kind.EVENTS: EventBatch,
    Kind.SAMPLES: SampleBatch,
    Kind.HOLDINGS: Holdings,
}


class Life(NamedTuple):
    """[launched, ended) of a node; no end where nobody told one."""

    launched_ns: int
    ended_ns: int | None


class Told(NamedTuple):
    """That an agent, named by its epoch, told of a window, and whether in a keyframe."""

    epoch_ns: int
    window_start_ns: int
    keyframe: bool


def unnamed(told: Collection[Told], end_ns: int) -> list[int]:
    """The windows before ``end_ns`` in which nobody can know a node's devices: behind the one that its first
    agent told of, without a keyframe, since it was killed in it, and before any keyframe of another, but for
    those that have a state of their own."""
    first = min((one.epoch_ns for one in told), default=0)
    its = {one.window_start_ns for one in told if one.epoch_ns == first}
    named = min((one.window_start_ns for one in told if one.keyframe), default=end_ns)
    if len(its) != 1:
        return []
    stated = {one.window_start_ns for one in told}
    return [start for start in range(min(its), min(named, end_ns), WINDOW_NS) if start not in stated]


def owed(life: Life, ended_ns: int, told: Collection[Told]) -> list[tuple[int, int]]:
    """The parts of a node's life that it is to be charged for."""
    parts, begin = [], life.launched_ns
    for start in (*unnamed(told, ended_ns), ended_ns):
        if begin < start:
            parts.append((begin, start))
        begin = max(begin, start + WINDOW_NS)
    return parts


class Seen(NamedTuple):
    """A record of gpu.telemetry; no body where it can not be read."""

    partition: int
    offset: int
    headers: RecordHeaders
    body: EventBatch | SampleBatch | Holdings | None

    @property
    def place(self) -> Placed:
        """Where it lies."""
        return Placed(topics.TELEMETRY, self.partition, self.offset)


class Arrived(NamedTuple):
    """A record of gpu.telemetry, and when it reached Kafka (Unix ns)."""

    headers: RecordHeaders
    at_ns: int


class Ledger(NamedTuple):
    """gpu.charges: each window's set of the greatest revision, and the contents of each revision."""

    sets: Mapping[Place, ChargeSet]
    contents: Mapping[tuple[NodeKey, int, int], set[bytes]]
    told: Sequence[tuple[int, ChargeSet]]
    """When each reached Kafka (Unix ns), and what it says; those of a node in their order."""


class Log:
    """Every topic that matters, as it was when this was made."""

    def __init__(self, bus: BusSettings) -> None:
        self._bus = bus
        self.arrived: list[Arrived] = []
        """Every record of telemetry, by partition and offset."""
        self.lives = self._lives()
        self.letters = [letter for _, letter in self._all(topics.DEAD_LETTERS, DeadLetter)]
        self.prices = Prices([version for _, version in self._all(topics.PRICES, PriceBookVersion)])
        self.teams = Teams([version for _, version in self._all(topics.TEAMS, TeamMapVersion)])
        self.generations = [one for _, one in self._all(topics.GENERATIONS, Generation)]
        self.ledger = self._ledger()
        self.unreadable: list[Seen] = []
        """Every one of them, repeats too."""
        self.ahead: list[Seen] = []
        """Those that are inputs of no window, and are told of instead."""
        self._seen = self._telemetry()

    def expected(self) -> dict[Place, ChargeSet]:
        """Each node's windows from its launch to its end, or to the last one that gpu.charges speaks of."""
        windows: list[NodeWindow] = []
        for node, life in self.lives.items():
            charged = [start for key, start in self.ledger.sets if key == node]
            read = [start for key, start in self._seen if key == node]
            end = max(charged + read, default=0) + 1 if life.ended_ns is None else life.ended_ns
            layout: NodeLayout | None = None
            first = life.launched_ns // WINDOW_NS * WINDOW_NS
            before = sorted(start for start in read if start < first)  # of a clock that was behind
            for start in (*before, *range(first, end, WINDOW_NS)):
                inputs = sorted(self._seen.get((node, start), {}).values(), key=lambda seen: seen.offset)
                bodies = [seen.body for seen in usable(inputs)]
                frames = [body for body in bodies if isinstance(body, Holdings) and body.keyframe]
                layout = frames[0].layout if frames else layout
                if start >= first:
                    generation = self.generation_of(node, start)
                    windows.append(_window(node, start, inputs, layout, life, generation))
        sets = []
        for at in range(0, len(windows), AT_ONCE):
            charges = charge_windows(windows[at : at + AT_ONCE], self.prices, self.teams)
            sets += [outcome.to_record() for outcome in charges]
        return {(NodeKey(s.cluster, s.node), s.window_start_ns): s for s in sets}

    def owed(self, node: NodeKey, ended_ns: int) -> list[tuple[int, int]]:
        """The parts of a node's life that it is to be charged for."""
        told = [
            Told(seen.headers.id.epoch_ns, start, isinstance(seen.body, Holdings) and seen.body.keyframe)
            for (key, start), window in self._seen.items()
            if key == node
            for seen in window.values()
        ]
        return owed(self.lives[node], ended_ns, told)

    @property
    def spoken_of(self) -> AbstractSet[Place]:
        """The windows that have a record, of the node's life or not."""
        return self._seen.keys()

    def mended(self) -> set[RecordId]:
        """Records that could not be read and of which a copy can."""
        refused = {seen.headers.id for seen in self.unreadable}
        inputs = [seen for window in self._seen.values() for seen in window.values()]
        return {seen.headers.id for seen in usable(inputs)} & refused

    def generation_of(self, node: NodeKey, start_ns: int) -> Generation | None:
        """The greatest that was announced for a window."""
        over = [
            one
            for one in self.generations
            if one.from_ns <= start_ns < one.to_ns and (not one.clusters or node.cluster in one.clusters)
        ]
        return max(over, key=lambda one: one.number, default=None)

    def _telemetry(self) -> Mapping[Place, Mapping[Input, Seen]]:
        found: dict[Place, dict[Input, Seen]] = defaultdict(dict)
        for message in self._messages(topics.TELEMETRY):
            headers = RecordHeaders.from_kafka(message.key, message.headers)
            try:
                body = decode(_CLASS[headers.kind], unframe(message.value or b"")[1])
            except BadRecord:
                body = None
            seen = Seen(message.partition, message.offset, headers, body)
            self.unreadable += [seen] if body is None else []
            self.arrived.append(Arrived(headers, message.timestamp_ms * NS_PER_MS))
            if is_ahead(headers.window_start_ns, message.timestamp_ms * NS_PER_MS):
                self.ahead.append(seen)
                continue
            known = found[headers.id.node_key, headers.window_start_ns]
            known.setdefault((headers.id, headers.mend), seen)
        return found

    def _lives(self) -> dict[NodeKey, Life]:
        lives: dict[NodeKey, Life] = {}
        for _, said in self._all(topics.NODES, NodeLifetime):
            key = NodeKey(said.cluster, said.node)
            assert said.launched_ns is not None
            ended = said.ended_ns if said.ended_ns is not None or key not in lives else lives[key].ended_ns
            assert key not in lives or lives[key].launched_ns == said.launched_ns, (
                "a restart moved the launch"
            )
            lives[key] = Life(said.launched_ns, ended)
        return lives

    def _ledger(self) -> Ledger:
        sets: dict[Place, ChargeSet] = {}
        contents: dict[tuple[NodeKey, int, int], set[bytes]] = defaultdict(set)
        told: list[tuple[int, ChargeSet]] = []
        for message, charges in self._all(topics.CHARGES, ChargeSet):
            told.append((message.timestamp_ms * NS_PER_MS, charges))
            place = NodeKey(charges.cluster, charges.node), charges.window_start_ns
            contents[(*place, rank(charges))].add(bytes(unframe(message.value or b"")[1]))
            if place not in sets or rank(charges) >= rank(sets[place]):
                sets[place] = charges
        return Ledger(sets, contents, told)

    def _all(self, topic: str, cls: type[R]) -> Iterator[tuple[Incoming, R]]:
        for message in self._messages(topic):
            yield message, decode(cls, unframe(message.value or b"")[1])

    def _messages(self, topic: str) -> Iterator[Incoming]:
        with PartitionReader(self._bus, "chaos-truth") as reader:
            for partition in range(reader.partitions(topic)):
                yield from reader.read_to_end(topic, partition)


def usable(inputs: Sequence[Seen]) -> list[Seen]:
    """What a window is charged from: of each identity the first that can be read."""
    found: dict[RecordId, Seen] = {}
    for seen in inputs:
        if seen.body is not None:
            found.setdefault(seen.headers.id, seen)
    return list(found.values())


def _window(
    node: NodeKey,
    start: int,
    inputs: Sequence[Seen],
    layout: NodeLayout | None,
    life: Life,
    generation: Generation | None,
) -> NodeWindow:
    read = usable(inputs)
    refused = {seen.headers.id for seen in inputs} - {seen.headers.id for seen in read}
    parts = [seen.headers for seen in read if not seen.headers.amendment]
    lasts = [headers.part for headers in parts if headers.last]
    epochs = {headers.id.epoch for headers in parts}
    whole = lasts and sorted(headers.part for headers in parts) == list(range(lasts[0] + 1))
    state: WindowState = "unobserved"
    if inputs:
        state = "complete" if whole and len(epochs) == 1 else "incomplete"
    if refused:
        state = "refused"
    bodies = [seen.body for seen in read] if not refused else []
    return NodeWindow(
        cluster=node.cluster,
        node=node.node,
        window_start_ns=start,
        window_length_ns=WINDOW_NS,
        revision=Revision(generation.number if generation is not None else 0, len(inputs), 0, 1),
        state=state,
        holdings=[body for body in bodies if isinstance(body, Holdings)],
        events=[body for body in bodies if isinstance(body, EventBatch)],
        samples=[body for body in bodies if isinstance(body, SampleBatch)],
        refused=sum(seen.headers.id in refused for seen in inputs),
        layout=layout,
        life_start_ns=life.launched_ns if life.launched_ns > start else None,
        life_end_ns=life.ended_ns
        if life.ended_ns is not None and life.ended_ns < start + WINDOW_NS
        else None,
        partition=inputs[0].partition if inputs else -1,
        offset_ranges=_ranges([seen.offset for seen in inputs]),
        price_version=generation.price_version if generation is not None else None,
        team_version=generation.team_version if generation is not None else None,
    )


def _ranges(offsets: Sequence[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and sum(ranges[-1]) == offset:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
        else:
            ranges.append((offset, 1))
    return ranges


def rank(charges: ChargeSet) -> int:
    """The revision as one number."""
    return Revision(charges.generation, charges.inputs, charges.digest, charges.core_version).packed


# the rank's own parts follow from gpu.nodes too; of a window without inputs the partition is the owner's
BESIDE = {"digest", "inputs", "core_version", "partition"}


def differences(got: ChargeSet, wanted: ChargeSet) -> list[str]:
    """Names of the columns that differ, the rank aside."""
    names = [item.name for item in fields(ChargeSet) if item.name not in BESIDE]
    found = [name for name in names if not _same(getattr(got, name), getattr(wanted, name))]
    if len(wanted.offset_starts) and got.partition != wanted.partition:
        found.append("partition")
    return found


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return bool(a == b)
