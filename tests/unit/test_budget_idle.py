"""The rule for money held idle: worked examples over the two stages."""

from __future__ import annotations

import pytest

from gpuledger.contract.windows import DAY_NS, HOUR_NS
from tests.support.idle_team import DAY, LENGTH_NS, MONEY, NANO, Team


def test_it_is_pending_from_half_its_time_and_fires_once_all_of_it_has_passed() -> None:
    team = Team("    period: month\n" + MONEY)
    team.holds(range(6), idle=1)
    assert team.states() == []  # the sixth bucket may still lack charges
    team.holds(range(6, 7), idle=1)
    assert team.states() == ["pending"]
    team.holds(range(7, 12), idle=1)
    assert team.states() == ["pending"]
    team.holds(range(12, 20), idle=1)
    assert team.states() == ["pending", "firing"]
    firing = team.told[-1]
    assert (firing.rule, firing.spent_nano, firing.period_start_ns) == ("idle", 12 * NANO, DAY)
    assert "12.00 USD held idle in 1 h 0 min without a break" in firing.message
    assert [(driver.kind, driver.name) for driver in firing.drivers] == [
        ("workload", "train"),
        ("pod", "train-0"),
    ]
    assert firing.forecast_low_ns is None


def test_a_bucket_of_less_is_a_break_and_resolves_it() -> None:
    team = Team("    period: day\n" + MONEY)
    team.holds(range(14), idle=1)
    team.holds(range(14, 15), idle=0.999)
    team.holds(range(15, 20), idle=1)
    assert team.states() == ["pending", "firing"]  # charges of it may still be on their way
    team.holds(range(20, 22), idle=1)
    assert team.states() == ["pending", "firing", "resolved", "pending"]
    assert (team.told[2].period_start_ns, team.told[2].spent_nano) == (DAY, 12 * NANO)
    assert (team.told[3].period_start_ns, team.told[3].spent_nano) == (DAY + 15 * LENGTH_NS, 6 * NANO)
    team.holds(range(22, 28), idle=1)
    assert team.states() == ["pending", "firing", "resolved", "pending", "firing"]
    assert len({breach.id for breach in team.told}) == 1


def test_what_is_over_is_resolved_half_an_hour_later_and_told_with_all_that_it_was() -> None:
    team = Team("    period: day\n" + MONEY)
    team.holds(range(14), idle=1)
    team.holds(range(14, 21), idle=0)
    assert team.states() == ["pending", "firing"]
    team.holds(range(21, 40), idle=0)
    assert team.states() == ["pending", "firing", "resolved"]
    resolved = team.told[-1]
    assert (resolved.period_start_ns, resolved.spent_nano) == (DAY, 14 * NANO)


@pytest.mark.parametrize("late", [2, 3, 6])
def test_charges_that_come_late_make_no_break(late: int) -> None:
    """One of two nodes is late by so many buckets; nothing more is told by it."""
    assert of_a_node_that_is_late(late) == ["pending", "firing"]


def test_what_comes_more_than_half_an_hour_late_is_a_break_until_then() -> None:
    assert of_a_node_that_is_late(7) == ["pending", "firing", "resolved", "firing"]


def of_a_node_that_is_late(buckets: int) -> list[str]:
    team = Team("    period: day\n" + MONEY)
    for number in range(40):
        team.holds(range(number, number + 1), idle=0.5, node="prompt")
        if number == 20 + buckets:
            team.holds(range(20, number), idle=0.5, node="late")
        if not 20 <= number < 20 + buckets:
            team.holds(range(number, number + 1), idle=0.5, node="late")
    return team.states()


def test_a_break_in_what_was_told_is_seen_though_it_ended_as_well() -> None:
    team = Team("    period: day\n" + MONEY)
    team.holds(range(20), idle=1)
    team.holds(range(20, 24), idle=0)
    team.holds(range(9, 10), idle=0, used=1)
    assert team.states()[:3] == ["pending", "firing", "retracted"]


def test_late_charges_that_tell_of_a_time_that_ended_a_moment_ago_are_told_and_it_is_resolved() -> None:
    team = Team("    period: day\n" + MONEY)
    team.holds(range(8), idle=1)
    team.holds(range(9, 12), idle=1)
    team.holds(range(12, 14), idle=0)
    assert team.states() == ["pending"]
    team.holds(range(8, 9), idle=1, node="late")
    assert team.states() == ["pending", "firing"]
    team.holds(range(14, 40), idle=0)
    assert team.states() == ["pending", "firing", "resolved"]


def test_breaks_again_and_again_are_no_new_breach_while_long_enough_lies_between() -> None:
    team = Team("    period: day\n" + MONEY.replace("1000000", "900000"), longer_than="10m")
    for first in range(0, 60, 5):
        team.holds(range(first, first + 2), idle=1)
        team.holds(range(first + 2, first + 5), idle=0)
    assert team.states() == ["pending", "firing"]


def test_a_restated_break_in_what_was_told_retracts_it() -> None:
    team = Team("    period: day\n" + MONEY)
    team.holds(range(14), idle=1)
    team.holds(range(11, 12), idle=0, used=1)
    assert team.states() == ["pending", "firing", "retracted", "pending"]  # 55 minutes of it are true


def test_what_is_used_is_never_idle_though_the_budget_counts_it() -> None:
    team = Team("    period: day\n" + MONEY + "    counts: [used, held_idle]\n")
    team.holds(range(20), idle=0.5, used=5)
    assert team.states() == []


def test_of_a_budget_in_gpu_hours_the_rate_is_a_number_of_gpus() -> None:
    team = Team("    period: rolling\n    rolling: 24h\n    gpu_hours: 1000\n    counts: held_idle\n")
    team.holds(range(14), idle=12)
    team.holds(range(14, 22), idle=11.9)
    assert team.states() == ["pending", "firing", "resolved"]
    assert team.told[1].spent_gpu_ns == 12 * HOUR_NS


def test_the_scope_of_the_budget_is_that_of_its_rule() -> None:
    team = Team("    period: day\n    scope: {team: speech}\n" + MONEY)
    team.holds(range(20), idle=5)
    assert team.states() == []


def test_it_goes_on_where_a_period_ends() -> None:
    team = Team("    period: day\n" + MONEY)
    day = DAY_NS // LENGTH_NS
    team.holds(range(day - 7, day + 20), idle=1)
    assert team.states() == ["pending", "firing"]
