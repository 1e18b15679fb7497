"""Computing the windows of a range in one partition: what is read goes in, rounds of charges come out.

Where the records come from, and what is known when it begins, is the caller's: a log that is read through
(``partition``), or the topics of a replay that many workers share (``worker``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from gpuledger.bus import Incoming
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import EventBatch
from gpuledger.contract.records import NodeProgress as HourRecord
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.charging import charge, steady_core
from gpuledger.processor.gathering import Gathered, Gatherer
from gpuledger.processor.progress import hours_to_write
from gpuledger.processor.protocol import (
    Batch,
    Gather,
    LogRecord,
    NodeProgress,
    Progress,
    Publish,
    Reading,
    work,
)
from gpuledger.processor.reading import NS_PER_MS, Decoder, log_record, placed_headers
from gpuledger.processor.topics_read import TopicsReader, announcements
from gpuledger.processor.window_inputs import KafkaInputs
from gpuledger.replay.beginning import Beginning, beginning
from gpuledger.replay.configurations import REPLAYED, Unheard, sides, with_generations
from gpuledger.replay.owner import RangeOwner
from gpuledger.replay.request import Request, Source
from gpuledger.replay.state import Position, Stored


class Keeper(Protocol):
    """Where charges, progress and position are kept. It stays the caller's."""

    def save(
        self,
        sets: Iterable[Stored],
        hours: Iterable[HourRecord],
        position: Position,
        beyond: Sequence[LogRecord],
    ) -> None:
        """Keep all of a round, or nothing of it. Raises Unavailable, Fenced."""


class Computation:
    """Owned by one thread, as are the source and the keeper, which stay the caller's.

    ``begin`` or ``take_over`` comes first. Every method may raise Unavailable.
    """

    position: Position

    def __init__(self, request: Request, partition: int, source: Source, keeper: Keeper) -> None:
        self._request = request
        self._partition = partition
        self._keeper = keeper
        self._log = source.log
        self._schemas = source.schemas
        self._partitions = source.log.partitions(TELEMETRY)
        self._decoder = Decoder(source.schemas)
        self._core = steady_core()
        self._gatherer = Gatherer(KafkaInputs(source.again), self._decoder)
        topics = TopicsReader(source.log, source.schemas, Unheard())
        self._configuration = with_generations(topics.configuration(), request)
        self._sides = list(sides(self._configuration, request))
        self._held: dict[int, tuple[Incoming, RecordHeaders]] = {}
        self._beyond: dict[NodeKey, LogRecord] = {}
        self._last_append_ns = 0
        self._lifetimes = [
            (key, life) for key, life in topics.lifetimes(partition) if request.wants(key.cluster)
        ]

    def beginning(self, whole: bool) -> Beginning:
        """Where to begin, and what is known there; see ``beginning.beginning``. Raises Refused."""
        return beginning(
            self._request,
            self._partition,
            self._log,
            self._schemas,
            self._decoder,
            self._headers,
            self._lifetimes,
            whole=whole,
        )

    def take_over(
        self,
        position: Position,
        progress: Iterable[NodeProgress],
        beyond: Iterable[LogRecord],
        begun: Beginning | None = None,
    ) -> None:
        """Go on from there. With ``begun`` it is noticed where that did not know all (``is_mistaken``)."""
        self.position = position
        self.is_mistaken = False
        self._begun = begun
        self._held.clear()
        self._beyond.clear()
        self._owner = RangeOwner(
            self._partition,
            position.offset,
            self._request.settings.grid,
            self._request.settings.rules(),
            self._request.to_ns,
            progress=progress,
            lifetimes=self._lifetimes,
            announcements=announcements(self._configuration.generations),
        )
        for record in beyond:
            self._beyond[record.identity.node_key] = record
            self._owner.hear_beyond(record)

    @property
    def oldest_held(self) -> int | None:
        """The lowest offset whose record is not finished; None where all that was taken is."""
        return min(self._held, default=None)

    def take(self, messages: Sequence[Incoming]) -> None:
        """The next records of the log, in order; some may be left out that are of no window of the range."""
        owner = self._owner
        for message in messages:
            if message.offset < owner.position:
                continue
            owner.skip_to(message.offset)  # marks of transactions, and what need not be read
            self._last_append_ns = max(self._last_append_ns, message.timestamp_ms * NS_PER_MS)
            if self._placed(message) is None:
                owner.pass_over(message.offset)
        if messages:
            owner.mark(self._last_append_ns, owner.position)

    def pass_range(self) -> None:
        """All is read: whoever is silent in the range was silent then."""
        self._owner.mark(self._passed_ns(), self._owner.position)

    def pass_log(self, last_append_ns: int = 0) -> None:
        """The same for who was heard again after the range; then nothing is left to be computed."""
        last_ns = max(self._last_append_ns, last_append_ns) + self._request.settings.rules().silence_ns
        self._owner.mark(max(self._passed_ns(), last_ns), self._owner.position)

    def round(self) -> int:
        """One round, as ``protocol.work`` orders it, kept; returns how many windows were decided."""
        effects = work([self._owner])
        gathered, sets = Gathered(), list[Stored]()
        answer: object = None
        while True:
            try:
                effect = effects.send(answer)
            except StopIteration as end:
                decided: int = end.value
                return decided
            answer = None
            match effect:
                case Gather(tasks):
                    gathered = self._gatherer.gather(tasks, {self._partition: self._held})
                    answer = gathered.unions
                case Publish(batches):
                    sets = [stored for _, batch in batches for stored in self._charged(batch, gathered)]
                case Progress(_, batch):
                    self._save(batch, sets, gathered)

    def _passed_ns(self) -> int:
        rules = self._request.settings.rules()
        return self._request.to_ns + rules.longest_window_ns + 2 * rules.silence_ns

    def _headers(self, message: Incoming) -> RecordHeaders:
        headers = placed_headers(message, self._partitions, self._request.settings.grid)
        if not self._request.wants(headers.id.cluster):
            raise BadRecord("bad_key", "of a cluster that does not take part")
        return headers

    def _placed(self, message: Incoming) -> Reading | None:
        """What the owner made of a record; None where it is none of the range."""
        try:
            headers = self._headers(message)
        except BadRecord:
            return None
        if headers.window_start_ns < self._request.from_ns:
            self.is_mistaken |= self._begun is not None and self._begun.is_news(message, headers)
            return None
        record = log_record(message, headers)
        if headers.window_start_ns >= self._request.to_ns:
            key = headers.id.node_key
            if key not in self._beyond and not (record.mend or record.amendment):
                self._beyond[key] = record
                self._owner.hear_beyond(record)
            return None
        reading = self._owner.read(record)
        if reading is Reading.HELD:
            self._held[message.offset] = message, headers
        return reading

    def _charged(self, batch: Batch, gathered: Gathered) -> list[Stored]:
        decisions = [(self._partition, decision) for decision in batch.decisions]
        return [
            Stored(side, outcome.record, outcome.body)
            for side, configuration in self._sides
            for outcome in charge(decisions, gathered.bodies, self._window_ns, configuration, self._core)
        ]

    def _window_ns(self, cluster: str) -> int:
        return self._request.settings.grid(cluster).length_ns

    def _save(self, batch: Batch, sets: Sequence[Stored], gathered: Gathered) -> None:
        finished = set(batch.finished)
        before = self.position
        held = min((offset for offset in self._held if offset not in finished), default=None)
        events = sum(len(body.time_ns) for body in gathered.bodies.values() if isinstance(body, EventBatch))
        windows = sum(stored.side == REPLAYED for stored in sets)
        self.position = Position(
            self._owner.position if held is None else held,
            before.end,
            before.events + events,
            before.windows + windows,
        )
        hours = hours_to_write(self._owner, batch)
        self._keeper.save(sets, hours, self.position, tuple(self._beyond.values()))
        for offset in finished:
            self._held.pop(offset, None)
