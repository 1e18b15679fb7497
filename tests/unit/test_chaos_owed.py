"""What a chaos run holds a ledger against: what a node lived, as far as anybody can know its devices."""

from __future__ import annotations

import pytest

from tests.chaos.truth import WINDOW_NS, Life, owed_spans

W = WINDOW_NS
LAUNCHED = 10 * W + W // 4


@pytest.mark.parametrize(
    ("named", "told", "spans"),
    [
        (10 * W, {10 * W}, [(LAUNCHED, 20 * W)]),
        (9 * W, (), [(LAUNCHED, 20 * W)]),  # of a clock that was behind
        (15 * W, {10 * W}, [(LAUNCHED, 11 * W), (15 * W, 20 * W)]),
        (None, {10 * W}, [(LAUNCHED, 11 * W)]),  # killed in its first window, and not seen again
        (None, (), []),
    ],
    ids=["from its launch", "before it", "in its second life", "never", "not heard of"],
)
def test_a_node_is_owed_for_from_its_first_keyframe_and_for_the_states_before_it(
    named: int | None, told: set[int], spans: list[tuple[int, int]]
) -> None:
    assert owed_spans(Life(LAUNCHED, None), 20 * W, named, told) == spans
