"""Records of gpu.charges as what is to be written, or as why they can not be."""

from __future__ import annotations

from collections.abc import Collection

from gpuledger.bus import Incoming, SchemaRegistry
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.records import ChargeSet, decode_as, decode_many
from gpuledger.contract.schemas import schema
from gpuledger.contract.wire import unframe
from gpuledger.sink.meaning import check
from gpuledger.sink.tables import Arrival


def decoded(
    registry: SchemaRegistry, records: Collection[Incoming]
) -> list[tuple[Incoming, Arrival | BadRecord]]:
    """Each record with its charge set, in the order given.

    Those that were written with this version's schema, as a rule all, are decoded together. Raises
    RegistryUnavailable.
    """
    found: dict[int, ChargeSet | BadRecord] = {}
    ours: dict[int, bool] = {}
    together: list[tuple[int, bytes]] = []
    for number, record in enumerate(records):
        try:
            schema_id, body = _body(record)
            writer = registry.schema(schema_id)
            if schema_id not in ours:
                ours[schema_id] = writer == schema("ChargeSet")
            if ours[schema_id]:
                together.append((number, body))
            else:
                found[number] = decode_as(ChargeSet, body, writer)
        except BadRecord as error:
            found[number] = error
    many = decode_many(ChargeSet, [body for _, body in together])
    found.update((number, charges) for (number, _), charges in zip(together, many, strict=True))
    return [(record, _arrival(record, found[number])) for number, record in enumerate(records)]


def _body(record: Incoming) -> tuple[int, bytes]:
    if record.value is None:
        raise BadRecord("tombstone", "a charge set has a value", "value")
    schema_id, body = unframe(record.value)
    return schema_id, bytes(body)


def _arrival(record: Incoming, charges: ChargeSet | BadRecord) -> Arrival | BadRecord:
    if isinstance(charges, BadRecord):
        return charges
    try:
        check(charges, record.key)
    except BadRecord as error:
        return error
    return Arrival(charges, record.topic, record.partition, record.offset, max(0, record.timestamp_ms))
