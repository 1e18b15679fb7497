"""Refused records: kept whole, or by their place where large, with the reason, and first of all."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuledger.bus.producer import Producer
from gpuledger.bus.records import Incoming, Outgoing, Placed
from gpuledger.bus.registry import SchemaRegistry
from gpuledger.bus.schemas import framed
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import DeadLetter, HeaderItem
from gpuledger.contract.topics import DEAD_LETTERS

# Larger ones stay where they are, named by their offset: a flood of them must not double the traffic, and
# gpu.telemetry keeps them for days. Also the reason to leave room under the largest record.
MAX_WHOLE_BYTES = 1 << 20
MAX_HEADERS_BYTES = 32 * 1024  # key and headers of a refused record are as little to be trusted as its value
MAX_DETAIL_CHARACTERS = 2_000
NS_PER_MS = 1_000_000
_SURROGATES = re.compile("[\ud800-\udfff]")  # bytes that were no text, as librdkafka's client hands them on


def letter(record: Incoming, error: BadRecord, stage: str, refused_ns: int) -> DeadLetter:
    """The dead letter of a record read; pure. Its identity is what key and headers still say."""
    value = record.value
    items = _headers(record)
    dead = DeadLetter(
        reason=error.reason,
        detail=_printable(str(error)),
        stage=stage,
        source_topic=record.topic,
        source_partition=record.partition,
        source_offset=record.offset,
        append_ns=max(0, record.timestamp_ms) * NS_PER_MS,
        key=record.key if len(record.key or b"") <= MAX_HEADERS_BYTES else None,
        value=value if value is not None and len(value) <= MAX_WHOLE_BYTES else None,
        value_bytes=len(value or b""),
        headers=items,
        refused_ns=refused_ns,
    )
    try:
        dead.cluster, dead.node = NodeKey.from_key(record.key)
        known = RecordHeaders.from_kafka(record.key, record.headers)
    except BadRecord:
        return dead
    dead.boot_id, dead.epoch_ns, dead.sequence = known.id.boot_id, known.id.epoch_ns, known.id.sequence
    dead.window_start_ns, dead.mend = known.window_start_ns, known.mend
    return dead


class DeadLetters:
    """Publishes dead letters. `producer` and `registry` stay the caller's, and so does their closing."""

    def __init__(self, producer: Producer, registry: SchemaRegistry, clock: Clock, stage: str) -> None:
        self._producer = producer
        self._registry = registry
        self._clock = clock
        self._stage = stage

    def publish(self, refused: Iterable[tuple[Incoming, BadRecord]]) -> list[Placed]:
        """Write all of them and await it: only then may they be acknowledged.

        Raises KafkaUnavailable or RegistryUnavailable, and then nothing may be acknowledged.
        """
        return self._producer.produce_all(self.letters(refused))

    def letters(self, refused: Iterable[tuple[Incoming, BadRecord]]) -> list[Outgoing]:
        """What ``publish`` writes, for who writes it in a transaction. Raises RegistryUnavailable."""
        now_ns = self._clock.unix_ns()
        letters = [letter(record, error, self._stage, now_ns) for record, error in refused]
        return [Outgoing(DEAD_LETTERS, dead.key or None, framed(self._registry, dead)) for dead in letters]


def _headers(record: Incoming) -> list[HeaderItem]:
    items, size = [], 0
    for name, value in record.headers:
        size += len(name.encode(errors="replace")) + len(value or b"")
        if size > MAX_HEADERS_BYTES:
            break
        items.append(HeaderItem(_SURROGATES.sub("\ufffd", name), value))
    return items


def _printable(text: str) -> str:
    return _SURROGATES.sub("\ufffd", text)[:MAX_DETAIL_CHARACTERS]
