"""What is told of money held idle does not depend on how late charges come, up to half an hour."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.idle_team import MONEY, Team

BUCKETS = 60
FORGIVEN = 6
LONG_ENOUGH = 12


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    lasts=st.integers(0, 30),
    delays=st.lists(st.integers(0, FORGIVEN), min_size=BUCKETS, max_size=BUCKETS),
)
def test_each_time_without_a_break_is_told_once_however_late_one_of_two_nodes_is(
    lasts: int, delays: list[int]
) -> None:
    team = Team("    period: month\n" + MONEY)
    waits: list[int] = []
    for number in range(BUCKETS):
        idle = 0.5 if number < lasts else 0
        team.holds(range(number, number + 1), idle=idle, node="prompt")
        waits.append(number)
        while waits and waits[0] + delays[waits[0]] <= number:
            late = waits.pop(0)
            team.holds(range(late, late + 1), idle=0.5 if late < lasts else 0, node="late")
    if lasts >= LONG_ENOUGH:
        assert team.states() == ["pending", "firing", "resolved"]
    else:
        assert team.states() == (["pending", "retracted"] if 2 * lasts >= LONG_ENOUGH else [])
