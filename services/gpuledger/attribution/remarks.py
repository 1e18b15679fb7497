"""What stands on the rows of a piece beside its cost: bounds, what was borrowed, who intruded."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import TypeAlias

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.containers import containers_of, divided
from gpuledger.attribution.evidence import Occupation, Share
from gpuledger.attribution.formula import Category, Part
from gpuledger.attribution.holding import Holding
from gpuledger.attribution.occupied import NO_FLAGS
from gpuledger.attribution.pieces import Piece
from gpuledger.attribution.rows import Row
from gpuledger.contract.rows import Flag

PPB = 1_000_000_000  # SM active is taken to 1e-9, so that its product with an amount is one of integers
NOTHING = Share(0, 0, 0, 0, "")


RowOf: TypeAlias = Callable[[ConsumerKey, str, str], Row]
"""The row of (consumer, container, reason) on the piece's device, made where it is the first."""


def trust(row: Row, part: Part, piece: Piece, found: Occupation) -> None:
    """What a part of a piece rests on, to its row."""
    share = found.shares.get(part.consumer)
    evidence = share.evidence if share else found.evidence
    (row.used_evidences if part.category is Category.USED else row.evidences).append(evidence)
    if found.flags or (share is not None and share.flags):
        row.flags |= found.flags | (share.flags if share else NO_FLAGS)
    if piece.holding.overbooked:
        row.flags |= Flag.OVERBOOKED


def effective(row: Row, ns: int, nano: int, piece: Piece, found: Occupation, sm_active: float | None) -> None:
    """Effectively used = C x SM active, at most used; only where the device's value is one consumer's.
    Where SM-time is shared it equals used."""
    if piece.slot.by_sm_time:
        row.effective_known = 1
        row.effectively_used_ns += ns
        row.effectively_used_nano += nano
        return
    users = [key for key, share in found.shares.items() if share.used_ns]
    if piece.slot.sharing == "time_slicing" or len(users) != 1 or sm_active is None or isnan(sm_active):
        return
    ratio = min(PPB, round(sm_active * PPB) * piece.length_ns // found.shares[users[0]].used_ns)
    row.effective_known = 1
    row.effectively_used_ns += ns * ratio // PPB
    row.effectively_used_nano += nano * ratio // PPB


def remark(
    row_of: RowOf, number: int, piece: Piece, found: Occupation, time_ns: int, nano: int, capped: bool
) -> None:
    """Busy time, bounds, borrowed, entitlement and flags of everybody who used or held the device in its
    piece ``number``, which has ``time_ns`` of GPU time and costs ``nano``. ``capped``: nobody is billed for
    more than his entitlement, so that the bounds of what is billed end there too."""
    holding, length = piece.holding, piece.length_ns
    weights = {entitlement.consumer: entitlement.weight for entitlement in holding.entitlements}
    users = {key for key, share in found.shares.items() if share.used_ns}
    intruders = users - set(weights) if weights else set()
    for key in sorted({*found.shares, *weights}):
        share = found.shares.get(key, NOTHING)
        entitled_ns = weights.get(key, 0) * length  # of holding.denominator
        above = max(0, share.used_ns * holding.denominator - entitled_ns)
        low, high = share.low_ns, share.high_ns
        if capped and holding.known:
            low, high = (min(bound, -(-entitled_ns // holding.denominator)) for bound in (low, high))
        values = (
            share.busy_ns,
            time_ns * low // length,
            -(-time_ns * high // length),
            time_ns * above // (length * holding.denominator),
            nano * above // (length * holding.denominator),
        )
        containers = containers_of(key, Category.USED, piece, found)
        parts = [divided(value, containers) for value in values]
        for index, (container, _) in enumerate(containers):
            row = row_of(key, container, "none")
            busy_ns, low_ns, high_ns, borrowed_ns, borrowed_nano = (part[index] for part in parts)
            row.busy_ns += busy_ns
            row.confidence_low_ns += low_ns
            row.confidence_high_ns += high_ns
            if holding.known:
                row.borrowed_ns += borrowed_ns
                row.borrowed_nano += borrowed_nano
            row.parts.add(number)
            if not row.evidences or share is NOTHING:
                row.evidences.append(share.evidence or found.evidence)
            if intruders or key not in weights:
                row.flags |= _booking(key, holding, weights, intruders)
    _entitle(row_of, number, piece, "none" if found.occupied_ns is not None else "no_sample")


def _booking(
    key: ConsumerKey, holding: Holding, weights: dict[ConsumerKey, int], intruders: set[ConsumerKey]
) -> Flag:
    """Whether a consumer used what it did not hold, or held what others used."""
    flags = NO_FLAGS
    if key not in weights and holding.known:
        flags |= Flag.OFF_THE_BOOKS
    if intruders and (key in weights or key in intruders):
        flags |= Flag.INTRUDER
    return flags


def _entitle(row_of: RowOf, number: int, piece: Piece, reason: str) -> None:
    """A piece's entitlements to the rows that pay for them: a pod's to its containers by their slots."""
    for entitlement in piece.holding.entitlements:
        whole = sum(slots for _, slots in entitlement.containers)
        for container, slots in entitlement.containers:
            row = row_of(entitlement.consumer, container, reason)
            part = entitlement.weight / piece.holding.denominator * slots / whole
            row.entitlement_ns += part * piece.length_ns
            row.parts.add(number)
