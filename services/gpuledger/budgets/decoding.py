"""Records of gpu.charges as what is to be counted, or as why they can not be."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.budgets import metrics
from gpuledger.budgets.lines import WindowCharges, charges_of
from gpuledger.bus import DeadLetters, Incoming, SchemaRegistry
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.records import ChargeSet, decode_as, decode_many
from gpuledger.contract.schemas import schema
from gpuledger.contract.wire import unframe


def decoded(
    registry: SchemaRegistry, records: Sequence[Incoming]
) -> tuple[list[tuple[Incoming, WindowCharges]], list[tuple[Incoming, BadRecord]]]:
    """What can be counted, and what is refused, each in the order given.

    Records of this version's schema, as a rule all, are decoded together. Raises RegistryUnavailable.
    """
    found: dict[int, ChargeSet | BadRecord] = {}
    together: list[tuple[int, bytes]] = []
    for number, record in enumerate(records):
        try:
            schema_id, body = unframe(record.value or b"")
            writer = registry.schema(schema_id)
            if writer == schema("ChargeSet"):
                together.append((number, bytes(body)))
            else:
                found[number] = decode_as(ChargeSet, body, writer)
        except BadRecord as error:
            found[number] = error
    many = decode_many(ChargeSet, [body for _, body in together])
    found.update((number, one) for (number, _), one in zip(together, many, strict=True))
    taken, refused = [], []
    for number, record in enumerate(records):
        one = found[number]
        if isinstance(one, BadRecord):
            refused.append((record, one))
        else:
            taken.append((record, charges_of(one, record.offset, record.timestamp_ms)))
    return taken, refused


def taken(
    registry: SchemaRegistry, dead_letters: DeadLetters, records: Sequence[Incoming]
) -> dict[int, list[WindowCharges]]:
    """The charge sets, by partition; what is none goes to dead letters. Raises Unavailable."""
    found: dict[int, list[WindowCharges]] = {}
    good, refused = decoded(registry, records)
    if refused:
        dead_letters.publish(refused)
        metrics.RECORDS_REFUSED.inc(len(refused))
    for record, charges in good:
        found.setdefault(record.partition, []).append(charges)
    return found
