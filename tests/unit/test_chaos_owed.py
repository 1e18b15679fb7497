"""What a chaos run holds a ledger against: what a node lived, but for what nobody can know of its devices."""

from __future__ import annotations

import pytest

from tests.chaos.truth import WINDOW_NS, Life, Told, owed

W = WINDOW_NS
LAUNCHED, ENDED = 10 * W + W // 4, 20 * W
ALL = [(LAUNCHED, ENDED)]
FIRST = Told(1, 10 * W, keyframe=False)  # an agent that begins within a window tells of it without a keyframe


@pytest.mark.parametrize(
    ("told", "parts"),
    [
        ([FIRST, Told(1, 11 * W, keyframe=True)], ALL),
        ([FIRST, Told(1, 15 * W, keyframe=True)], ALL),
        ([FIRST, Told(1, 11 * W, keyframe=False)], ALL),
        ([FIRST, Told(2, 9 * W, keyframe=True)], ALL),
        ([Told(2, 15 * W, keyframe=True)], ALL),
        (
            [FIRST, Told(2, 14 * W, keyframe=False), Told(2, 15 * W, keyframe=True)],
            [(LAUNCHED, 11 * W), (14 * W, ENDED)],
        ),
        ([FIRST, Told(2, 14 * W, keyframe=False)], [(LAUNCHED, 11 * W), (14 * W, 15 * W)]),
        ([FIRST], [(LAUNCHED, 11 * W)]),
        ([], ALL),
    ],
    ids=[
        "it went on",
        "what it told meanwhile is lost",
        "its keyframe is lost",
        "a clock was behind",
        "all that its first agent told is lost",
        "killed in its first window, and seen again",
        "killed in the first window of two lives",
        "killed in its first window, and not seen again",
        "not heard of",
    ],
)
def test_a_node_is_owed_all_it_lived_but_behind_a_kill_in_its_first_window(
    told: list[Told], parts: list[tuple[int, int]]
) -> None:
    assert owed(Life(LAUNCHED, None), ENDED, told) == parts
