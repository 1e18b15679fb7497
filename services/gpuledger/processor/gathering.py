"""All records of the windows to be computed: those held, and those fetched again from Kafka, decoded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuledger.bus import Incoming
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import Holdings, NodeLayout, NodeLifetime, encode
from gpuledger.processor import metrics
from gpuledger.processor.protocol import LogRecord, WindowTask
from gpuledger.processor.reading import Decoder, Telemetry, log_record
from gpuledger.processor.window_inputs import WindowInputs

# What a node consists of, as bytes: gpu.progress repeats it in each hour. 56 MIG instances with long labels
# are some tens of kilobytes.
LAYOUT_BYTES = 1 << 20

Held = Mapping[int, Mapping[int, tuple[Incoming, RecordHeaders]]]  # by partition, then offset


@dataclass(slots=True)
class Gathered:
    """The records of the windows of one round."""

    unions: dict[tuple[NodeKey, int], list[LogRecord]] = field(default_factory=dict)
    bodies: dict[tuple[int, int], Telemetry] = field(default_factory=dict)
    errors: dict[tuple[int, int], BadRecord] = field(default_factory=dict)


class Chosen(NamedTuple):
    """A record that is an input of the window at ``place``."""

    place: tuple[NodeKey, int]
    message: Incoming
    headers: RecordHeaders


class Gatherer:
    """Decodes held records and reads again what was finished before. Owned by the engine's thread."""

    def __init__(self, inputs: WindowInputs, decoder: Decoder) -> None:
        self._inputs = inputs
        self._decoder = decoder
        self._layouts: dict[NodeKey, NodeLayout] = {}

    def gather(self, tasks: Sequence[tuple[int, WindowTask]], held: Held) -> Gathered:
        """See ``protocol.Gather``. Raises KafkaUnavailable, RegistryUnavailable."""
        gathered = Gathered()
        chosen: list[Chosen] = []
        fetched: dict[int, list[WindowTask]] = {}
        for partition, task in tasks:
            place = task.node, task.window_start_ns
            gathered.unions.setdefault(place, [])
            chosen += [Chosen(place, *held[partition][offset]) for offset in task.held]
            if task.fetch is not None:
                fetched.setdefault(partition, []).append(task)
        for partition, reopened in fetched.items():
            chosen += self._fetched(partition, reopened)
        decoded = self._decoder.decode_many([(one.message, one.headers) for one in chosen])
        for one, body in zip(chosen, decoded, strict=True):
            gathered.unions[one.place].append(self._record(one, body, gathered))
        return gathered

    def _fetched(self, partition: int, tasks: Sequence[WindowTask]) -> Iterator[Chosen]:
        wanted = {(task.node, task.window_start_ns): task for task in tasks}
        for message in self._inputs.read(partition, tasks):
            try:
                headers = RecordHeaders.from_kafka(message.key, message.headers)
            except BadRecord:
                continue  # it was an input of no window then, and is none now
            place = headers.id.node_key, headers.window_start_ns
            task = wanted.get(place)
            if task is None or task.fetch is None or message.offset in task.held:
                continue
            if task.fetch[0] <= message.offset <= task.fetch[1]:
                metrics.RECORDS_FETCHED.inc()
                yield Chosen(place, message, headers)

    def _record(self, one: Chosen, body: Telemetry | BadRecord, gathered: Gathered) -> LogRecord:
        record = log_record(one.message, one.headers)
        place = one.message.partition, one.message.offset
        try:
            if isinstance(body, BadRecord):
                raise body
            if record.keyframe and isinstance(body, Holdings):
                record = record._replace(layout=self._shared(one.headers.id.node_key, body.layout))
        except BadRecord as error:
            gathered.errors[place] = error
            return record._replace(readable=False)
        gathered.bodies[place] = body
        return record

    def _shared(self, node: NodeKey, layout: NodeLayout) -> NodeLayout:
        """One object for one layout of a node: rows of many windows refer to it."""
        known = self._layouts.get(node)
        if known is not layout and known != layout:
            size_bytes = len(encode(NodeLifetime(*node, layout)))
            if size_bytes > LAYOUT_BYTES:
                raise BadRecord("layout_too_large", f"a node of {size_bytes} bytes", "layout")
            known = self._layouts[node] = layout
        return known
