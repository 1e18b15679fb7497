"""Which period an instant lies in, across changes of clocks."""

import pytest

from gpuledger.budgets.periods import MAX_BUCKETS, bucket_length_ns, period_of
from gpuledger.contract.records import Budget
from gpuledger.contract.windows import DAY_NS, HOUR_NS, MINUTE_NS
from gpuledger.pricing.yaml_values import instant_ns


def period(kind: str, zone: str, at: str) -> tuple[int, int] | None:
    return period_of(Budget(id="b", period=kind, time_zone=zone), instant_ns(at))


@pytest.mark.parametrize(
    ("kind", "zone", "at", "start", "end"),
    [
        ("day", "UTC", "2026-03-29T12:00:00Z", "2026-03-29", "2026-03-30"),
        # clocks go forward: a day of 23 hours
        ("day", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        # and back: one of 25
        ("day", "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
        ("month", "Europe/Berlin", "2026-03-31T22:00:00Z", "2026-03-31T22:00:00Z", "2026-04-30T22:00:00Z"),
        ("month", "America/New_York", "2026-12-15T00:00:00Z", "2026-12-01T05:00:00Z", "2027-01-01T05:00:00Z"),
        ("week", "Asia/Kathmandu", "2026-11-30T00:00:00Z", "2026-11-29T18:15:00Z", "2026-12-06T18:15:00Z"),
        # midnight is skipped: the day begins at the change
        ("day", "America/Santiago", "2025-09-07T12:00:00Z", "2025-09-07T04:00:00Z", "2025-09-08T03:00:00Z"),
    ],
)
def test_a_period_is_one_of_the_budgets_own_time_zone(
    kind: str, zone: str, at: str, start: str, end: str
) -> None:
    assert period(kind, zone, at) == (instant_ns(start), instant_ns(end))


@pytest.mark.parametrize("kind", ["day", "week", "month"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "UTC"])
def test_periods_of_two_years_follow_each_other_without_a_gap(kind: str, zone: str) -> None:
    budget = Budget(id="b", period=kind, time_zone=zone)
    at_ns, end_ns = instant_ns("2025-01-01"), instant_ns("2027-01-01")
    while at_ns < end_ns:
        found = period_of(budget, at_ns)
        assert found is not None
        assert found.start_ns <= at_ns < found.end_ns
        assert period_of(budget, found.end_ns - MINUTE_NS) == found
        following = period_of(budget, found.end_ns)
        assert following is not None
        assert following.start_ns == found.end_ns
        at_ns = found.end_ns


def test_fixed_dates_hold_from_their_start_to_before_their_end() -> None:
    budget = Budget(id="b", period="fixed", fixed_from_ns=10 * DAY_NS, fixed_to_ns=12 * DAY_NS)
    assert period_of(budget, 10 * DAY_NS - 1) is None
    assert period_of(budget, 10 * DAY_NS) == (10 * DAY_NS, 12 * DAY_NS)
    assert period_of(budget, 12 * DAY_NS) is None


@pytest.mark.parametrize("hours", [1, 24, 25, 26, 168, 301, 7200])
def test_a_rolling_period_has_few_enough_buckets(hours: int) -> None:
    assert hours * HOUR_NS <= MAX_BUCKETS * bucket_length_ns(hours * HOUR_NS)
