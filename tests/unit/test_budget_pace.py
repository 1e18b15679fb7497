"""Burn rates, forecasts and what is beyond them: worked examples over the two stages."""

from __future__ import annotations

import pytest

from gpuledger.budgets.states import states_of
from gpuledger.contract.records import (
    Breach,
    BudgetState,
    decode,
    encode,
)
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS
from tests.support.budget_minutes import DAY, NANO, fleet

BURN = """    period: day
    amount: 2400
    currency: USD
    rules: [{kind: burn_rate, fast: {factor: 10, long: 1h, short: 5m}, slow: null%s}]
"""


def test_a_fast_burn_fires_when_both_spans_burn_and_is_resolved_once_it_is_over() -> None:
    one = fleet(BURN % "")  # even: 100 an hour
    for minute in range(60, 160):
        one.charge(minute, 1)  # 60 an hour
    assert not one.told
    for minute in range(160, 230):
        one.charge(minute, 20)  # 1200 an hour: 12 times the even pace
        if one.told:
            break
    first = one.told[0]
    assert (first.rule, first.speed, first.state) == ("burn_rate", "fast", "firing")
    assert first.factor_nano >= 10 * NANO
    assert minute >= 200  # the hour before counts too
    for later in range(minute + 1, minute + 15):
        one.charge(later, 1)
    assert one.states() == ["firing", "resolved"]


def test_a_slow_burn_fires_over_its_own_spans_where_the_fast_one_does_not() -> None:
    one = fleet("    period: day\n    amount: 2400\n    currency: USD\n    rules: [{kind: burn_rate}]\n")
    for minute in range(400):  # 720 an hour: 7.2 times the even pace, of which slow asks 6 and fast 14.4
        one.charge(minute, 12 if minute >= 60 else 1)
        if any(breach.rule == "burn_rate" for breach in one.told):
            break
    first = next(breach for breach in one.told if breach.rule == "burn_rate")
    assert (first.speed, first.state) == ("slow", "firing")
    assert 6 * NANO <= first.factor_nano < 7 * NANO
    assert minute >= 60 + 6 * 60 * 6 // 8  # most of six hours
    for later in range(minute + 1, minute + 45):
        one.charge(later, 1)
    assert [breach.state for breach in one.told if breach.speed == "slow"] == ["firing", "resolved"]
    assert all(breach.speed != "fast" for breach in one.told)


def test_a_short_burst_is_pending_and_then_retracted() -> None:
    one = fleet(BURN % ", pending: 20m")
    one.charge(0, 500)
    one.charge(1, 600)
    assert one.states() == ["pending"]
    for minute in range(2, 20):
        one.charge(minute, 1)
    assert one.states() == ["pending", "retracted"]


def test_a_burn_that_stays_fires_after_its_pending_time() -> None:
    one = fleet(BURN % ", pending: 20m")
    for minute in range(60):
        one.charge(minute, 30)
    burning = [breach for breach in one.told if breach.rule == "burn_rate"]
    assert [breach.state for breach in burning] == ["pending", "firing"]
    assert burning[1].since_ns == burning[0].since_ns
    assert burning[1].at_ns - burning[0].at_ns >= 20 * MINUTE_NS


def test_a_forecast_lies_between_the_periods_pace_and_the_recent_one() -> None:
    text = BURN % "" + "    thresholds: [5%]\n"
    one = fleet(text)
    for minute in range(0, 12 * 60, 10):
        one.charge(minute, 3)
    (breach,) = [b for b in one.told if b.rule == "threshold"]
    assert breach.forecast_low_ns is not None
    assert breach.forecast_high_ns is not None
    pace = 3 * NANO / (10 * MINUTE_NS)
    exhausted_ns = DAY + 2400 * NANO / pace
    assert breach.forecast_low_ns <= breach.forecast_high_ns
    assert breach.forecast_high_ns == pytest.approx(exhausted_ns, rel=0.001)


def test_what_is_spent_beyond_what_a_record_holds_is_told_as_the_greatest_it_holds() -> None:
    """2.56 million GPU-hours, eleven days of 10,000 GPUs; a budget of money counts them beside it."""
    one = fleet(
        "    period: fixed\n    starts: 2020-01-01\n    ends: 2100-01-01\n    amount: 4000000\n"
        "    currency: USD\n    thresholds: [1%, 100%]\n"
    )
    for minute in range(40):
        one.charge(minute, 100_000)
    assert [decode(Breach, encode(breach)) for breach in one.told] == one.told
    assert [breach.spent_nano for breach in one.told] == [100_000 * NANO, 4_000_000 * NANO]
    assert [breach.spent_gpu_ns for breach in one.told] == [100_000 * HOUR_NS, 2**63 - 1]
    assert [breach.drivers[0].gpu_ns for breach in one.told] == [100_000 * HOUR_NS, 2**63 - 1]
    (state,) = states_of(one.count, 0)
    (gpu_ns,) = decode(BudgetState, encode(state)).subtotal.gpu_ns.tolist()
    assert gpu_ns == 2**63 - 1


SLOW = """\
    period: fixed
    starts: 2020-01-01
    ends: 2100-01-01
    amount: %d
    currency: USD
    thresholds: [0.0001%%]
"""


@pytest.mark.parametrize(
    ("amount", "is_told"), [(4_000_000_000, False), (2_000_000, False), (500_000, False), (100_000, True)],
    ids=["no-date-holds-it", "no-record-holds-it", "no-price-does", "told"],
)  # fmt: skip
def test_an_amount_that_lasts_for_centuries_has_no_forecast(amount: int, is_told: bool) -> None:
    one = fleet(SLOW % amount)
    one.charge(0, 9_100)
    (breach, *_) = one.told
    assert decode(Breach, encode(breach)) == breach
    assert (breach.forecast_low_ns is not None) == (breach.forecast_high_ns is not None) == is_told
    assert ("used up" in breach.message) == is_told
