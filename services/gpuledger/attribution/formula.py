"""The one formula, in integers.

   used_i = C a_i;   idle C (1 - A) in proportion to max(0, e_i - a_i) (held_idle) and e_0 (unallocated);
   what A shows and nobody explains, C (A - sum a_i), is unobserved

With T the piece in ns, A and a_i whole ns of it, e_i = n_i / D, every part of C is a weight over T Z:

   w_i = max(0, n_i T - a_i D),  w_0 = n_0 T,  Z = sum w_i + w_0
   used_i: a_i Z    held_idle_i: (T - A) w_i    unallocated: (T - A) w_0    unobserved: (A - sum a) Z

and these weights sum to T Z. Z is at least D (T - A): the sum of max(0, n_i T - a_i D) over the holders is
at least T sum n_i - D sum a_i, so Z >= T D - D sum a_i >= D (T - A), as the shares sum to at most A. Hence no
holder's idle part exceeds C max(0, e_i - a_i), and Z = 0 only where T = A: there is no idle time then and
any positive Z gives the same parts, so 1 is taken.

Burst policy `reserved_first` bills each holder for at most its entitlement, and all of that:

   used_i = C min(a_i, e_i);  what is left of e_i, and e_0, divides in the ratio
   (1 - A) idle : (A - sum a_i) unobserved : sum max(0, a_i - e_i) lent

   u_i = min(a_i D, n_i T),  l_i = n_i T - u_i,  l_0 = n_0 T,  L = sum l_i + l_0,
   b = sum max(0, a_i D - n_i T)
   used_i: u_i L    of l_i: l_i D (T - A) idle, l_i D (A - sum a) unobserved, l_i b lent

L = T D - sum u_i is what the three parts of the ratio sum to: D (T - A) + D (A - sum a) + b, since b is
D sum a_i - sum u_i. So these weights sum to T D L; L = 0 only where everything is used, and 1 is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from gpuledger.attribution.consumers import THE_POOL, ConsumerKey
from gpuledger.attribution.holding import Holding


class Category(IntEnum):
    """What a part of the cost is; the order breaks ties."""

    USED = 0
    HELD_IDLE = 1
    UNALLOCATED = 2
    UNOBSERVED = 3


class Part(NamedTuple):
    """Who gets a part of a piece's cost, and why. Its order is the order of rows, then of categories."""

    consumer: ConsumerKey
    reason: str
    category: Category


class Weighted(NamedTuple):
    """A piece's parts with their weights; they sum to ``total`` exactly."""

    parts: list[Part]
    weights: list[int]
    total: int

    def divide(self, amount: int) -> list[int]:
        """``amount`` in the proportion of the weights, by largest remainder; sums to it exactly."""
        return largest_remainder(amount, self.weights, self.total)


def largest_remainder(amount: int, weights: Sequence[int], total: int) -> list[int]:
    """``amount`` divided in proportion to ``weights``, which sum to ``total``; ties go to the earlier."""
    if len(weights) == 1 or not amount:
        return [amount] * len(weights)
    floors = []
    rests = []
    for weight in weights:
        whole, rest = divmod(amount * weight, total)
        floors.append(whole)
        rests.append(rest)
    left = amount - sum(floors)
    if left:
        for index in sorted(range(len(rests)), key=lambda i: (-rests[i], i))[:left]:
            floors[index] += 1
    return floors


def pay(
    length_ns: int,
    occupied_ns: int,
    used_ns: Mapping[ConsumerKey, int],
    holding: Holding,
    idle_to_pool: bool = False,
) -> Weighted:
    """Burst policy `pay`: weights of a piece of ``length_ns`` with A = ``occupied_ns`` and a_i = ``used_ns``,
    whose sum is at most A (see the module). With ``idle_to_pool`` what holders held idle is the pool's."""
    wants = {}
    for entitlement in holding.entitlements:
        used = used_ns.get(entitlement.consumer, 0)
        wants[entitlement.consumer] = max(0, entitlement.weight * length_ns - used * holding.denominator)
    free = holding.free_weight * length_ns
    z = max(sum(wants.values()) + free, 1)
    idle = length_ns - occupied_ns
    found = [(Part(key, "none", Category.USED), used * z) for key, used in used_ns.items()]
    if idle_to_pool:
        found.append((Part(THE_POOL, "held", Category.UNALLOCATED), idle * sum(wants.values())))
    else:
        found += [(Part(key, "none", Category.HELD_IDLE), idle * want) for key, want in wants.items()]
    found.append((Part(THE_POOL, holding.free_reason, Category.UNALLOCATED), idle * free))
    unexplained = occupied_ns - sum(used_ns.values())
    found.append((Part(THE_POOL, "unexplained", Category.UNOBSERVED), unexplained * z))
    return _weighted(found, length_ns * z)


def reserved_first(
    length_ns: int, occupied_ns: int, used_ns: Mapping[ConsumerKey, int], holding: Holding
) -> Weighted:
    """Burst policy `reserved_first`: arguments as those of ``pay`` (see the module)."""
    denominator = holding.denominator
    weights = {entitlement.consumer: entitlement.weight for entitlement in holding.entitlements}
    billed = {
        key: min(used_ns.get(key, 0) * denominator, weight * length_ns) for key, weight in weights.items()
    }
    left = {key: weight * length_ns - billed[key] for key, weight in weights.items()}
    left[THE_POOL] = holding.free_weight * length_ns
    whole = max(sum(left.values()), 1)
    used = sum(used_ns.values())
    idle = denominator * (length_ns - occupied_ns)
    unexplained = denominator * (occupied_ns - used)
    lent = denominator * used - sum(billed.values())
    found = [(Part(key, "none", Category.USED), part * whole) for key, part in billed.items()]
    for key, part in left.items():
        resting = Category.UNALLOCATED if key == THE_POOL else Category.HELD_IDLE
        found += [
            (Part(key, holding.free_reason if key == THE_POOL else "none", resting), part * idle),
            (Part(key, "unexplained", Category.UNOBSERVED), part * unexplained),
            (Part(key, "lent", resting), part * lent),
        ]
    return _weighted(found, length_ns * denominator * whole)


def occupied_missing(holding: Holding) -> Weighted:
    """Nobody knows whether the device worked: each holder pays C e_i as unobserved, the pool C e_0."""
    found = [
        (Part(entitlement.consumer, "no_sample", Category.UNOBSERVED), entitlement.weight)
        for entitlement in holding.entitlements
    ]
    found.append((Part(THE_POOL, holding.free_reason, Category.UNALLOCATED), holding.free_weight))
    return _weighted(found, holding.denominator)


def holders_missing(length_ns: int, used_ns: Mapping[ConsumerKey, int]) -> Weighted:
    """Nobody knows who holds the device: used_i = C a_i, all the rest is the pool's, unobserved."""
    found = [(Part(key, "none", Category.USED), used) for key, used in used_ns.items()]
    rest = length_ns - sum(used_ns.values())
    found.append((Part(THE_POOL, "holders_unknown", Category.UNOBSERVED), rest))
    return _weighted(found, length_ns)


def all_of_it(reason: str, category: Category) -> Weighted:
    """The whole piece is the pool's."""
    return Weighted([Part(THE_POOL, reason, category)], [1], 1)


def _weighted(found: list[tuple[Part, int]], total: int) -> Weighted:
    found = sorted(item for item in found if item[1])
    return Weighted([part for part, _ in found], [weight for _, weight in found], total)
