"""The arithmetic of a device's window, piece by piece, to the nano-unit: price, A and a_i, the division."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.evidence import Occupation
from gpuledger.attribution.holding import Holding
from gpuledger.attribution.trace import Divided
from gpuledger.contract.rows import Flag
from gpuledger.pricing import PriceBook
from gpuledger.pricing.book import device_cum

PlaceOf = Callable[[str], str]
"""Where a price entry or a team rule of that id is written."""


def piece_of(step: Divided, book: PriceBook, place_of: PlaceOf) -> dict[str, Any]:
    """One piece. ``exact`` are fractions of a nano-unit before rounding; the rest are whole ns and nano."""
    piece = step.piece
    return {
        "start_ns": piece.start_ns,
        "end_ns": piece.end_ns,
        "sharing": piece.slot.sharing,
        "why_unknown": piece.gap,
        "holding": _holding(piece.holding),
        "occupied": None if step.found is None else _occupied(step.found, piece.length_ns),
        "prices": list(_prices(step, book, place_of)),
        "gpu_ns": step.time_ns,
        "cost_nano": step.cost.nano,
        "unpriced_ns": step.cost.unpriced_ns,
        "parts": [
            {
                **_who(part.consumer),
                "reason": part.reason,
                "category": part.category.name.lower(),
                "weight": weight,
                "of": step.weighted.total,
                "ns": ns,
                "nano": nano,
                "exact_nano": str(Fraction(step.cost.nano * weight, step.weighted.total)),
            }
            for part, weight, ns, nano in zip(
                step.weighted.parts, step.weighted.weights, step.ns, step.nano, strict=True
            )
        ],
    }


def _holding(holding: Holding) -> dict[str, Any]:
    return {
        "known": holding.known,
        "overbooked": holding.overbooked,
        "holders": [
            {**_who(item.consumer), "entitled": f"{item.weight}/{holding.denominator}"}
            for item in holding.entitlements
        ],
        "free": f"{holding.free_weight}/{holding.denominator}",
        "free_reason": holding.free_reason,
    }


def _occupied(found: Occupation, length_ns: int) -> dict[str, Any]:
    return {
        "ns": found.occupied_ns,
        "share": None if found.occupied_ns is None else found.occupied_ns / length_ns,
        "evidence": found.evidence,
        "flags": _flags(found.flags),
        "shares": [
            {
                **_who(key),
                "ns": share.used_ns,
                "share": share.used_ns / length_ns,
                "low_ns": share.low_ns,
                "high_ns": share.high_ns,
                "evidence": share.evidence,
                "flags": _flags(share.flags),
            }
            for key, share in sorted(found.shares.items())
        ],
    }


def _prices(step: Divided, book: PriceBook, place_of: PlaceOf) -> Iterator[dict[str, Any]]:
    priced = step.piece.slot.priced
    for price in book.pieces(priced, step.piece.start_ns, step.piece.end_ns):
        before, after = (device_cum(price, priced, at_ns) for at_ns in (price.start_ns, price.end_ns))
        yield {
            "start_ns": price.start_ns,
            "end_ns": price.end_ns,
            "id": None if price.entry is None else price.entry.id,
            "where": "" if price.entry is None else place_of(price.entry.id),
            "per": None if price.entry is None else price.entry.per,
            "unit_price_nano_per_hour": price.unit_price_nano_per_hour,
            "currency": book.currency,
            "until_end_nano": after,
            "until_start_nano": before,
            "nano": after - before,
        }


def _who(key: ConsumerKey) -> dict[str, str]:
    return {"consumer_kind": key.kind, "consumer": key.consumer}


def _flags(flags: Flag) -> list[str]:
    return [flag.name.lower() for flag in Flag if flags & flag and flag.name]
