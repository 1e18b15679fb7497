"""The contract's schemas in a registry: one subject for each topic and record name."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from gpuledger.bus.log import Schemas
from gpuledger.bus.registry import Compatibility, SchemaRegistry
from gpuledger.contract.records import Record, decode_as, encode, record_name
from gpuledger.contract.schemas import schema_text
from gpuledger.contract.topics import RECORDS_OF_TOPIC, subject_of, topic_of
from gpuledger.contract.wire import frame, unframe

R = TypeVar("R")


class SchemaState(NamedTuple):
    """A schema of the contract and what the registry says of it; `schema_id` None: not registered."""

    subject: str
    schema_id: int | None
    compatibility: Compatibility
    rule: str


def register_all(registry: SchemaRegistry) -> dict[str, int]:
    """Register every schema, each subject with the rule BACKWARD; id of each short record name.

    Idempotent. Raises Refused.
    """
    ids = {}
    for topic, records in RECORDS_OF_TOPIC.items():
        for record in records:
            ids[record] = register(registry, record)
            registry.require_backward(subject_of(topic, record))
    return ids


def register(registry: SchemaRegistry, record: str) -> int:
    """Id of the current schema of the record of that short name (`EventBatch`), cached by the registry."""
    return registry.register(subject_of(topic_of(record), record), schema_text(record))


def check_all(registry: SchemaRegistry) -> list[SchemaState]:
    """What the registry says of every current schema; changes nothing."""
    states = []
    for topic, records in RECORDS_OF_TOPIC.items():
        for record in records:
            subject, text = subject_of(topic, record), schema_text(record)
            found = registry.find(subject, text)
            fits = Compatibility(True, ()) if found is not None else registry.check_compatible(subject, text)
            states.append(SchemaState(subject, found, fits, registry.compatibility(subject)))
    return states


def framed(registry: SchemaRegistry, record: Record) -> bytes:
    """A record as its bytes in Kafka. Raises BadRecord, RegistryUnavailable, Refused."""
    return frame(register(registry, record_name(record)), encode(record))


def unframed(cls: type[R], value: bytes | None, schemas: Schemas) -> R:
    """A value in Kafka as its record, whichever schema it was written with.

    Raises BadRecord, also for a tombstone; RegistryUnavailable.
    """
    schema_id, body = unframe(value or b"")
    return decode_as(cls, body, schemas.schema(schema_id))
