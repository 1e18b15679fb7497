"""The replay of one partition, from where its state file stands to the end of the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuledger.bus import Incoming
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import EventBatch
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.charging import charge
from gpuledger.processor.gathering import Gathered, Gatherer
from gpuledger.processor.progress import hours_to_write, loaded
from gpuledger.processor.protocol import (
    Batch,
    Gather,
    LogRecord,
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
from gpuledger.replay.owner import RangeOwner, gone_on
from gpuledger.replay.request import Request, Source
from gpuledger.replay.state import Position, State, Stored

TAKE_RECORDS = 2_000
TAKE_BYTES = 32 << 20  # of records, before what is due is computed; decoded they are some times as much


class PartitionReplay:
    """Owned by one thread, as are the state and the source, which stay the caller's. Raises Unavailable."""

    def __init__(self, request: Request, partition: int, source: Source, state: State) -> None:
        self._request = request
        self._partition = partition
        self._state = state
        self._log = source.log
        self._partitions = source.log.partitions(TELEMETRY)
        self._decoder = Decoder(source.schemas)
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
        self._position: Position = state.get("position") or self._begin()
        self._owner = self._take_over()

    def run(self) -> Position:
        """Compute all that is left."""
        while not self._position.done:
            self._read()
            if self._is_mistaken:
                self._position = self._begin(whole=True)
                self._owner = self._take_over()
            else:
                self._finish()
        return self._position

    def _read(self) -> None:
        taken: list[Incoming] = []
        size_bytes = 0
        first, last = self._position.offset, self._position.end - 1
        for message in self._log.read_range(TELEMETRY, self._partition, first, last):
            taken.append(message)
            size_bytes += len(message.value or b"")
            if len(taken) >= TAKE_RECORDS or size_bytes >= TAKE_BYTES:
                self._feed(taken)
                taken, size_bytes = [], 0
        self._feed(taken)

    def _begin(self, whole: bool = False) -> Position:
        start = beginning(
            self._request,
            self._partition,
            self._log,
            self._decoder,
            self._headers,
            self._lifetimes,
            whole=whole,
        )
        position = Position(start.first, self._log.bounds(TELEMETRY, self._partition)[1])
        self._state.begin(start, position)
        return position

    def _take_over(self) -> RangeOwner:
        self._beginning: Beginning = self._state.get("beginning")
        self._is_mistaken = False
        self._held.clear()
        self._beyond.clear()
        owner = RangeOwner(
            self._partition,
            self._position.offset,
            self._request.settings.grid,
            self._request.settings.rules(),
            self._request.to_ns,
            progress=gone_on(self._beginning.progress, loaded(self._state.progress())),
            lifetimes=self._lifetimes,
            announcements=announcements(self._configuration.generations),
        )
        for record in self._state.get("beyond") or ():
            self._beyond[record.identity.node_key] = record
            owner.hear_beyond(record)
        return owner

    def _headers(self, message: Incoming) -> RecordHeaders:
        headers = placed_headers(message, self._partitions, self._request.settings.grid)
        if not self._request.wants(headers.id.cluster):
            raise BadRecord("bad_key", "of a cluster that does not take part")
        return headers

    def _feed(self, messages: Sequence[Incoming]) -> None:
        owner = self._owner
        for message in messages:
            owner.skip_to(message.offset)  # marks of transactions, and what the archive need not read
            self._last_append_ns = max(self._last_append_ns, message.timestamp_ms * NS_PER_MS)
            record = self._placed(message)
            if record is None:
                owner.pass_over(message.offset)
        if messages:
            owner.mark(self._last_append_ns, owner.position)
            self._work()

    def _placed(self, message: Incoming) -> Reading | None:
        """What the owner made of a record; None where it is none of the range."""
        try:
            headers = self._headers(message)
        except BadRecord:
            return None
        if headers.window_start_ns < self._request.from_ns:
            self._is_mistaken |= self._beginning.is_news(message, headers)
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

    def _finish(self) -> None:
        """All is read: what is silent now was silent then."""
        rules = self._request.settings.rules()
        passed_ns = self._request.to_ns + rules.longest_window_ns + rules.silence_ns
        self._owner.mark(max(passed_ns, self._last_append_ns) + rules.silence_ns, self._owner.position)
        self._work()
        end = self._position
        self._position = Position(end.end, end.end, end.events, end.windows, done=True)
        self._state.put(position=self._position)

    def _work(self) -> None:
        while self._round():
            pass

    def _round(self) -> int:
        """One round, as ``protocol.work`` orders it; the state file is both charges and progress."""
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

    def _charged(self, batch: Batch, gathered: Gathered) -> list[Stored]:
        decisions = [(self._partition, decision) for decision in batch.decisions]
        return [
            Stored(side, outcome.record, outcome.body)
            for side, configuration in self._sides
            for outcome in charge(decisions, gathered.bodies, self._window_ns, configuration)
        ]

    def _window_ns(self, cluster: str) -> int:
        return self._request.settings.grid(cluster).length_ns

    def _save(self, batch: Batch, sets: Sequence[Stored], gathered: Gathered) -> None:
        for offset in batch.finished:
            self._held.pop(offset, None)
        before = self._position
        offset = min(self._held, default=self._owner.position)
        events = sum(len(body.time_ns) for body in gathered.bodies.values() if isinstance(body, EventBatch))
        windows = sum(stored.side == REPLAYED for stored in sets)
        self._position = Position(offset, before.end, before.events + events, before.windows + windows)
        hours = hours_to_write(self._owner, batch)
        self._state.save(sets, hours, self._position, tuple(self._beyond.values()))


def replay_partition(request: Request, partition: int, directory: Path) -> Position:
    """Replay one partition, on from what its file in ``directory`` holds."""
    state = State(state_path(directory, partition), request.fingerprint)
    try:
        with Source(request) as source:
            return PartitionReplay(request, partition, source, state).run()
    finally:
        state.close()


def state_path(directory: Path, partition: int) -> Path:
    """The state file of a partition."""
    return directory / f"partition-{partition:05d}.sqlite"
