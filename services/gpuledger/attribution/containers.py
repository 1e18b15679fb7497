"""How a consumer's containers share what is the consumer's."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.attribution.consumers import THE_POOL, ConsumerKey
from gpuledger.attribution.evidence import Occupation
from gpuledger.attribution.formula import Category, largest_remainder
from gpuledger.attribution.pieces import Piece


def containers_of(
    consumer: ConsumerKey, category: Category, piece: Piece, found: Occupation | None
) -> Sequence[tuple[str, int]]:
    """The containers of a consumer with their weights: what they used, else the slots they were given."""
    if consumer == THE_POOL:
        return [("", 1)]
    share = found.shares.get(consumer) if found else None
    if category is Category.USED and share is not None:
        busy = [(name, weight) for name, weight in sorted(share.containers.items()) if weight]
        if busy:
            return busy
    for entitlement in piece.holding.entitlements:
        if entitlement.consumer == consumer:
            return entitlement.containers
    names = sorted(share.containers) if share else []
    return [(names[0] if names else "", 1)]


def divided(value: int, containers: Sequence[tuple[str, int]]) -> list[int]:
    """A consumer's amount over its containers, by largest remainder."""
    if len(containers) == 1:
        return [value]
    weights = [weight for _, weight in containers]
    return largest_remainder(value, weights, sum(weights))
