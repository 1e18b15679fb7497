"""Forecasts and sudden changes: what the models find in histories whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from gpuledger.budgets.history import BUCKET_NS, BUCKETS_A_DAY, Doubles, deviation, expected
from gpuledger.contract.windows import DAY_NS
from tests.support.budget_minutes import DAY, HEAD, NANO, Fleet, fleet

MONDAY_NS = 4 * DAY_NS  # 1970-01-05
MINUTES_A_BUCKET = BUCKET_NS // 60 // NANO


def usage(days: int, growth_a_day: float = 0.0, noise: float = 0.0, seed: int = 1) -> Doubles:
    """Work hours of weekdays, little at night and at weekends, from a Monday on."""
    rng = np.random.default_rng(seed)
    hours = np.arange(days * BUCKETS_A_DAY)
    day, of_day = hours // BUCKETS_A_DAY, hours % BUCKETS_A_DAY
    busy = np.where((of_day >= 4) & (of_day < 10), 100.0, 20.0)
    shape = np.where(day % 7 >= 5, 10.0, busy)
    return shape * (1 + growth_a_day * day) * (1 + noise * rng.standard_normal(shape.size))


@pytest.mark.parametrize("ahead_days", [0.5, 1, 5, 10])
def test_a_steady_week_goes_on_as_it_was(ahead_days: float) -> None:
    whole = usage(35)
    found = expected(whole[: 21 * BUCKETS_A_DAY], MONDAY_NS, MONDAY_NS + int((21 + ahead_days) * DAY_NS))
    assert found is not None
    truth = whole[21 * BUCKETS_A_DAY : int((21 + ahead_days) * BUCKETS_A_DAY)].sum()
    assert found.mean == pytest.approx(truth, rel=0.01)


def test_growth_is_followed_better_than_by_the_level_alone() -> None:
    whole = usage(28, growth_a_day=0.01)
    found = expected(whole[: 21 * BUCKETS_A_DAY], MONDAY_NS, MONDAY_NS + 28 * DAY_NS)
    assert found is not None
    truth = whole[21 * BUCKETS_A_DAY :].sum()
    level_alone = whole[14 * BUCKETS_A_DAY : 21 * BUCKETS_A_DAY].sum()
    assert abs(found.mean - truth) < 0.5 * abs(level_alone - truth)


def test_the_interval_holds_most_of_what_then_happens() -> None:
    inside = 0
    for seed in range(40):
        whole = usage(26, noise=0.3, seed=seed)
        found = expected(whole[: 21 * BUCKETS_A_DAY], MONDAY_NS, MONDAY_NS + 26 * DAY_NS)
        assert found is not None
        inside += found.low <= whole[21 * BUCKETS_A_DAY :].sum() <= found.high
    assert 24 <= inside < 40


def test_nothing_is_forecast_from_less_than_a_week() -> None:
    assert expected(usage(6), MONDAY_NS, MONDAY_NS + 9 * DAY_NS) is None


def test_a_bucket_is_as_far_out_as_hampel_says() -> None:
    same = np.array([10.0, 12.0, 8.0, 11.0, 9.0, 10.0])
    assert deviation(20.0, same) == pytest.approx(10 / 1.4826)
    assert deviation(20.0, np.full(6, 10.0)) == pytest.approx(10 / (1.4826 * 0.5))
    assert deviation(20.0, same[:4]) is None
    assert deviation(20.0, np.zeros(9)) is None


def month(rule: str, amount: int) -> Fleet:
    return fleet(
        f"    period: fixed\n    starts: {day_text(-10)}\n    ends: {day_text(20)}\n    amount: {amount}\n"
        f"    currency: USD\n    thresholds: [10000%]\n    rules: [{rule}]\n"
    )


def day_text(offset: int) -> str:
    return str(np.datetime64("1970-01-01") + np.timedelta64(DAY // DAY_NS + offset, "D"))


def spend(one: Fleet, first_bucket: int, amounts: list[int]) -> None:
    for number, amount in enumerate(amounts, start=first_bucket):
        one.charge(number * MINUTES_A_BUCKET, amount)


def test_a_forecast_fires_days_before_the_amount_is_used_up() -> None:
    one = month("{kind: forecast}", 2_000)
    spend(one, -10 * BUCKETS_A_DAY, [5] * (8 * BUCKETS_A_DAY))  # 60 a day: 1,800 in all
    assert not one.told
    spend(one, -2 * BUCKETS_A_DAY, [10] * (5 * BUCKETS_A_DAY))
    (breach,) = one.told
    assert (breach.rule, breach.state) == ("forecast", "firing")
    assert breach.spent_nano is not None
    assert breach.spent_nano < 2_000 * NANO
    assert "expected by the end of the period" in breach.why


def test_a_sudden_change_fires_and_is_resolved_when_all_is_as_usual_again() -> None:
    one = month("{kind: anomaly, least: 1%}", 2_000)
    spend(one, -10 * BUCKETS_A_DAY, [5, 6, 4] * (3 * BUCKETS_A_DAY))
    assert not one.told
    spend(one, -BUCKETS_A_DAY, [60, 5, 5, 5])
    assert [(b.rule, b.state) for b in one.told] == [("anomaly", "firing"), ("anomaly", "resolved")]
    assert "60.00 USD in two hours, usually" in one.told[0].why


def test_a_change_of_little_money_is_no_breach() -> None:
    one = month("{kind: anomaly, least: 5%}", 2_000)
    spend(one, -10 * BUCKETS_A_DAY, [5, 6, 4] * (3 * BUCKETS_A_DAY))
    spend(one, -BUCKETS_A_DAY, [60, 5, 5])
    assert not one.told


def test_a_rolling_budget_has_no_end_to_forecast() -> None:
    from gpuledger.pricing.yaml_documents import InvalidDocument, read_documents

    text = "    period: rolling\n    rolling: 24h\n    gpu_hours: 1\n    rules: [{kind: forecast}]\n"
    with pytest.raises(InvalidDocument, match="a rolling period has no end"):
        read_documents(HEAD + text, "budgets.yaml")
