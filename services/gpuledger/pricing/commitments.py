"""What is paid for whether it is used or not: committed, used and unused money by the minute.

A commitment's rate applies by its rule, to every device that it matches; what of the committed quantity
nothing was charged at is a row of node `-`, reason commitment, outside the law and equal to its own total.
A window never straddles a minute and commitments begin and end at whole minutes, so no window is split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuledger.contract.charge_columns import DOUBLE_COLUMNS, ROW_COLUMNS
from gpuledger.contract.identity import NO_NODE
from gpuledger.contract.money import cost
from gpuledger.contract.records import ChargeSet, PriceBookVersion
from gpuledger.contract.revision import CORE_VERSION, MAX_DIGEST, MAX_INPUTS, Revision
from gpuledger.contract.rows import NO_DEVICE, POOL
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.pricing.currencies import unit_price_segments
from gpuledger.pricing.teams import POOL_TEAM

MAX_COUNTED_INPUTS = MAX_INPUTS // 2  # of all windows of a minute; above that a set can still be outranked


class Minute(NamedTuple):
    """A minute of the ledger: what its windows were charged with, and how much at each commitment's rate."""

    start_ns: int
    generation: int = 0
    inputs: int = 0
    used_nano: Mapping[str, int] = {}


class Held(NamedTuple):
    """What the ledger has of a minute: the revision of its set, and its rows by commitment and currency."""

    revision: int
    unused_nano: Mapping[tuple[str, str], int]


class Usage(NamedTuple):
    """A commitment over a minute. ``over_nano`` was charged at its rate beyond its quantity: more matches
    its rule than was committed to."""

    id: str
    committed_nano: int
    used_nano: int

    @property
    def unused_nano(self) -> int:
        """Paid for and not used."""
        return max(0, self.committed_nano - self.used_nano)

    @property
    def over_nano(self) -> int:
        """Charged at the rate beyond the quantity."""
        return max(0, self.used_nano - self.committed_nano)


def usage(book: PriceBookVersion, minute: Minute) -> list[Usage]:
    """Every commitment that holds in a minute, in the order of the book; amounts in its currency."""
    found = []
    for entry in book.entries:
        if not entry.commitment_quantity:
            continue
        segments = [
            (max(one.start_ns, minute.start_ns), min(one.end_ns, minute.start_ns + MINUTE_NS), one)
            for one in unit_price_segments(entry, book.currency, book.rates)
        ]
        committed = sum(
            entry.commitment_quantity * cost(one.unit_price_nano_per_hour, start, end)
            for start, end, one in segments
            if start < end
        )
        if committed:
            found.append(Usage(entry.id, committed, minute.used_nano.get(entry.id, 0)))
    return found


def news(book: PriceBookVersion, minute: Minute, held: Held | None) -> ChargeSet | None:
    """The set that is lacking for the ledger to say what is known of a minute; None where it says so.

    A function of the ledger alone: asked again before the ledger has it, it gives the same bytes. It outranks
    what it replaces, also where what was charged since counts fewer inputs (windows that were withdrawn).
    """
    unused = {(one.id, book.currency): one.unused_nano for one in usage(book, minute) if one.unused_nano}
    if unused == (held.unused_nano if held is not None else {}):
        return None
    found = unused_rows(book, minute._replace(inputs=min(minute.inputs, MAX_COUNTED_INPUTS)))
    if held is None or _revision(found) > held.revision:
        return found
    last = Revision.unpack(held.revision)
    return unused_rows(book, minute._replace(generation=last.generation, inputs=last.inputs + 1))


def unused_rows(book: PriceBookVersion, minute: Minute) -> ChargeSet:
    """The rows of a minute, one for each commitment of which something was not used; none withdraw those
    that were there. More windows, or a later generation, make a greater revision."""
    unused = [one for one in usage(book, minute) if one.unused_nano]
    texts = ["", POOL, NO_DEVICE, "commitment", "none", POOL_TEAM, book.currency, *(one.id for one in unused)]
    ids = np.arange(len(unused), dtype=np.int64) + texts.index(book.currency) + 1
    columns: dict[str, Any] = {
        name: np.full(len(unused), np.nan) if name in DOUBLE_COLUMNS else np.zeros(len(unused), np.int64)
        for name in ROW_COLUMNS
    }
    told = {
        "device": NO_DEVICE,
        "consumer_kind": POOL,
        "reason": "commitment",
        "sharing": "none",
        "evidence": "none",
        "team": POOL_TEAM,
        "currency": book.currency,
    }
    columns |= {name: np.full(len(unused), texts.index(text), np.int64) for name, text in told.items()}
    columns |= {"consumer": ids, "price_ids": ids, "priced": np.ones(len(unused), np.int64)}
    columns["unallocated_nano"] = np.array([one.unused_nano for one in unused], np.int64)
    return ChargeSet(
        cluster=NO_NODE.cluster,
        node=NO_NODE.node,
        window_start_ns=minute.start_ns,
        window_length_ns=MINUTE_NS,
        generation=minute.generation,
        inputs=min(minute.inputs, MAX_INPUTS),
        digest=_digest(book, unused),
        core_version=CORE_VERSION,
        state="complete",
        price_version=book.version,
        booking_period=str(np.datetime64(minute.start_ns, "ns").astype("datetime64[M]")),
        texts=texts,
        **columns,
    )


def _revision(charges: ChargeSet) -> int:
    return Revision(charges.generation, charges.inputs, charges.digest, charges.core_version).packed


def _digest(book: PriceBookVersion, unused: Sequence[Usage]) -> int:
    rows = (f"{one.id} {one.unused_nano}" for one in unused)
    told = "\n".join((f"{book.version} {book.currency}", *rows))
    return int.from_bytes(hashlib.blake2b(told.encode(), digest_size=8).digest(), "big") & MAX_DIGEST
