"""The formula of each policy against its definition in rationals, and the division that rounds it."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.attribution.consumers import THE_POOL, ConsumerKey
from gpuledger.attribution.formula import (
    Category,
    holders_missing,
    largest_remainder,
    occupied_missing,
    pay,
    reserved_first,
)
from gpuledger.attribution.holding import Entitlement, Holding

weights = st.lists(st.integers(0, 10**12), min_size=1, max_size=6).filter(any)


@given(st.integers(0, 10**18), weights)
def test_largest_remainder_divides_exactly_and_within_one(amount, shares):
    parts = largest_remainder(amount, shares, sum(shares))
    assert sum(parts) == amount
    for part, share in zip(parts, shares, strict=True):
        assert abs(part - Fraction(amount * share, sum(shares))) < 1
    rests = [Fraction(amount * share, sum(shares)) % 1 for share in shares]
    floors = [amount * share // sum(shares) for share in shares]
    raised = [i for i, part in enumerate(parts) if part > floors[i]]
    for i in raised:  # nobody with a larger remainder, or the same one earlier, was passed over
        assert all(j in raised for j in range(len(parts)) if (-rests[j], j) < (-rests[i], i))


@st.composite
def formula_inputs(draw: st.DrawFn):
    length = draw(st.integers(1, 10**10))
    occupied = draw(st.integers(0, length))
    used, left = {}, occupied
    for name in draw(st.lists(st.sampled_from("abcd"), unique=True)):
        used[ConsumerKey("pod", name)] = draw(st.integers(0, left))
        left -= used[ConsumerKey("pod", name)]
    numbers = draw(st.lists(st.integers(1, 5), max_size=4))
    held = tuple(Entitlement(ConsumerKey("pod", "bcde"[i]), n, (("", 1),)) for i, n in enumerate(numbers))
    denominator = draw(st.integers(max(sum(numbers), 1), sum(numbers) + 5))
    return length, occupied, used, Holding(held, denominator)


@settings(max_examples=300)
@given(formula_inputs(), st.integers(0, 10**12))
def test_the_formula_is_the_one_of_the_rules(inputs, cost):
    """Against the definition in rationals: used C a_i, idle in proportion to max(0, e_i - a_i) and e_0."""
    length, occupied, used, holding = inputs
    weighted = pay(length, occupied, used, holding)
    assert sum(weighted.weights) == weighted.total
    a = {key: Fraction(value, length) for key, value in used.items()}
    e = {item.consumer: Fraction(item.weight, holding.denominator) for item in holding.entitlements}
    wants = {key: max(Fraction(0), part - a.get(key, 0)) for key, part in e.items()}
    free = 1 - sum(e.values())
    whole = sum(wants.values()) + free
    idle = 1 - Fraction(occupied, length)
    assert whole >= idle
    for part, weight, nano in zip(weighted.parts, weighted.weights, weighted.divide(cost), strict=True):
        exact = {
            Category.USED: lambda part=part: a[part.consumer],
            Category.HELD_IDLE: lambda part=part: idle * wants[part.consumer] / whole,
            Category.UNALLOCATED: lambda: idle * free / whole,
            Category.UNOBSERVED: lambda: Fraction(occupied, length) - sum(a.values()),
        }[part.category]()
        assert Fraction(weight, weighted.total) == exact
        assert abs(nano - cost * exact) < 1
        if part.category is Category.HELD_IDLE:
            assert nano < cost * wants[part.consumer] + 1


@settings(max_examples=300)
@given(formula_inputs(), st.integers(0, 10**12))
def test_reserved_first_is_the_one_of_the_rules(inputs, cost):
    """used C min(a_i, e_i); what is left of e_i, and e_0, as idle : unobserved : lent."""
    length, occupied, used, holding = inputs
    weighted = reserved_first(length, occupied, used, holding)
    assert sum(weighted.weights) == weighted.total
    assert sum(weighted.divide(cost)) == cost
    a = {key: Fraction(value, length) for key, value in used.items()}
    e = {item.consumer: Fraction(item.weight, holding.denominator) for item in holding.entitlements}
    left = {key: part - min(part, a.get(key, Fraction(0))) for key, part in e.items()}
    left[THE_POOL] = 1 - sum(e.values())
    ratio = {
        "idle": 1 - Fraction(occupied, length),
        "unexplained": Fraction(occupied, length) - sum(a.values()),
        "lent": sum((max(Fraction(0), part - e.get(key, 0)) for key, part in a.items()), Fraction(0)),
    }
    whole = sum(ratio.values())
    assert sum(left.values()) == whole
    for part, weight in zip(weighted.parts, weighted.weights, strict=True):
        if part.category is Category.USED:
            exact = min(a[part.consumer], e[part.consumer])
        else:
            kind = part.reason if part.reason in ratio else "idle"
            exact = left[part.consumer] * ratio[kind] / whole
        assert Fraction(weight, weighted.total) == exact


@given(formula_inputs(), st.integers(0, 10**12))
def test_idle_for_the_pool_takes_it_off_the_holders_and_changes_nothing_else(inputs, cost):
    length, occupied, used, holding = inputs
    usual, pooled = (pay(length, occupied, used, holding, to_pool) for to_pool in (False, True))
    assert sum(pooled.divide(cost)) == cost
    assert pooled.total == usual.total
    idle = sum(w for p, w in zip(usual.parts, usual.weights, strict=True) if p.category is Category.HELD_IDLE)
    assert idle == sum(w for p, w in zip(pooled.parts, pooled.weights, strict=True) if p.reason == "held")
    assert not any(part.category is Category.HELD_IDLE for part in pooled.parts)


@given(formula_inputs(), st.integers(0, 10**12))
def test_missing_values_leave_nothing_out(inputs, cost):
    length, _, used, holding = inputs
    for weighted in (occupied_missing(holding), holders_missing(length, used)):
        assert sum(weighted.weights) == weighted.total
        assert sum(weighted.divide(cost)) == cost
