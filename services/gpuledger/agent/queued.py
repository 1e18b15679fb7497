"""A record on its way into the queue: encoded, with all that the publisher has to know."""

from __future__ import annotations

from typing import TypeAlias

from gpuledger.agent import metrics
from gpuledger.agent.spool import Entry, NodeQueue
from gpuledger.agent.windows import Part
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import Kind, RecordHeaders
from gpuledger.contract.records import EventBatch, Holdings, NodeLifetime, SampleBatch, encode, record_name
from gpuledger.logs import EventLog

KafkaHeaders: TypeAlias = tuple[tuple[str, bytes], ...]

_KIND_OF: dict[type, Kind] = {EventBatch: Kind.EVENTS, SampleBatch: Kind.SAMPLES, Holdings: Kind.HOLDINGS}
_log = EventLog(__name__)


def headers_of(part: Part) -> KafkaHeaders:
    """Kafka's headers of a part: its identity and its place in the window."""
    keyframe = isinstance(part, Holdings) and part.keyframe
    return tuple(RecordHeaders.of(part.header, _KIND_OF[type(part)], keyframe).to_kafka())


def queue_record(
    queue: NodeQueue,
    record: Part | NodeLifetime,
    key: bytes,
    headers: KafkaHeaders = (),
    node_key: bytes = b"",
) -> bool:
    """Put it behind all others; False where there is no room for it, or no way to say it. Both are counted,
    and its window shows the missing part."""
    name = record_name(record)
    try:
        body = encode(record)
    except BadRecord as error:
        _log.error("record_not_encoded", record=name, error=str(error))
        metrics.RECORDS_REFUSED.inc()
        return False
    if queue.append(Entry(name, key, body, headers, node_key)):
        metrics.RECORDS_QUEUED.labels(name).inc()
        return True
    metrics.RECORDS_REFUSED.inc()
    return False
