"""Laws of money: nothing is ever lost to rounding."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.contract import money

prices = st.integers(0, 10**15)  # up to a million currency units an hour
instants = st.integers(0, 4 * 10**18)  # up to the year 2096


@given(prices, st.lists(instants, min_size=2, max_size=8))
def test_any_run_of_intervals_adds_up_to_the_whole(price: int, times: list[int]) -> None:
    times.sort()
    parts = [money.cost(price, start, end) for start, end in itertools.pairwise(times)]
    assert sum(parts) == money.cost(price, times[0], times[-1])
    assert min(parts) >= 0


@given(prices, instants, instants)
def test_a_cost_is_within_one_nano_of_the_exact_product(price: int, one: int, other: int) -> None:
    start, end = sorted((one, other))
    exact = Fraction(price * (end - start), money.NS_PER_HOUR)
    assert abs(money.cost(price, start, end) - exact) < 1


@given(st.integers(0, 10**30), st.integers(1, 112))
def test_the_units_of_a_total_sum_to_it(total: int, units: int) -> None:
    parts = [money.unit_share(total, unit, units) for unit in range(units)]
    assert sum(parts) == total
    assert max(parts) - min(parts) <= 1
    assert money.slices_share(total, 0, units, units) == total


@given(st.integers(0, 10**20), st.integers(0, 10**20), st.integers(1, 56), st.data())
def test_a_units_share_never_falls(one: int, other: int, units: int, data: st.DataObject) -> None:
    less, more = sorted((one, other))
    unit = data.draw(st.integers(0, units - 1))
    assert money.unit_share(less, unit, units) <= money.unit_share(more, unit, units)


weights = st.lists(
    st.one_of(st.integers(0, 10**12), st.fractions(0, 5, max_denominator=1000)), min_size=1, max_size=12
)


@given(st.integers(0, 10**18), weights)
def test_largest_remainder_divides_exactly_and_fairly(
    total: int, given_weights: list[int | Fraction]
) -> None:
    whole = sum(given_weights, Fraction(0))
    if whole == 0:
        total = 0
    parts = money.largest_remainder(total, given_weights)
    assert sum(parts) == total
    for part, weight in zip(parts, given_weights, strict=True):
        exact = Fraction(weight) * total / whole if whole else Fraction(0)
        assert abs(part - exact) < 1
        assert part == 0 or weight > 0


@given(st.integers(-(10**18), 10**18))
def test_an_amount_survives_text(nano: int) -> None:
    assert money.nano_from_decimal(money.format_nano(nano)) == nano
    assert money.nano_from_decimal(money.decimal_from_nano(nano)) == nano


@pytest.mark.parametrize("wrong", [(-1, [1]), (1, [0, 0]), (1, [2, -1])])
def test_an_impossible_division_is_refused(wrong: tuple[int, list[int]]) -> None:
    with pytest.raises(ValueError, match=r"negative|nobody"):
        money.largest_remainder(*wrong)
