"""What a charge set must be, beyond its schema, before it may reach the ledger."""

from __future__ import annotations

from gpuledger.contract.errors import BadRecord
from gpuledger.contract.identity import NO_NODE, NodeKey
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.revision import Revision
from gpuledger.contract.windows import NS_PER_S

LATEST_NS = (1 << 32) * NS_PER_S  # DateTime of the hourly tables ends in February 2106
_KEY = ("device", "consumer_kind", "consumer", "container", "reason")


def check(charges: ChargeSet, key: bytes | None) -> None:
    """Raise BadRecord when writing the set would lose or misplace money.

    A key of the record that names another node would be read out of order; two rows of one natural key would
    collapse into one; a time beyond the range of the tables would land in another hour.
    """
    stated = NO_NODE if key == NO_NODE.key else NodeKey.from_key(key)
    if stated != NodeKey(charges.cluster, charges.node):
        raise BadRecord(
            "wrong_key", f"the key names {stated}, the record {charges.cluster}/{charges.node}", "node"
        )
    if charges.window_start_ns % charges.window_length_ns:
        raise BadRecord("bad_window", "the window is not aligned to its length", "window_start_ns")
    if not 0 <= charges.window_start_ns < LATEST_NS - charges.window_length_ns:
        raise BadRecord("bad_window", "the window is outside the years of the warehouse", "window_start_ns")
    try:
        _ = Revision(charges.generation, charges.inputs, charges.digest, charges.core_version).packed
    except ValueError as error:
        raise BadRecord("bad_revision", str(error), "generation") from error
    texts = charges.texts
    if stated == NO_NODE and any(texts[index] != "commitment" for index in charges.reason.tolist()):
        raise BadRecord("no_node", "charges of no node are of reason commitment alone", "reason")
    columns = (getattr(charges, name).tolist() for name in _KEY)
    keys = {tuple(texts[index] for index in row) for row in zip(*columns, strict=True)}
    if len(keys) != len(charges.device):
        raise BadRecord(
            "duplicate_row", f"{len(charges.device)} rows have {len(keys)} different keys", "device"
        )
