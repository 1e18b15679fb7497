"""How long the agent's loop rests between two rounds."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.agent.pace import AFTER_NS, LEAST_NS, LOOK_S, ROUND_NS, rest, until_round_s
from gpuledger.contract.clock import NS_PER_S

LOOKS = 7
REST_S = LOOKS * LOOK_S


class Source:
    probes_changed = False

    def __init__(self, *ratios: float) -> None:
        self._ratios = list(ratios)

    @property
    def filled_ratio(self) -> float:
        return self._ratios.pop(0)

    def follow(self, seconds: float) -> bool:
        return False


def left(source: Source) -> int:
    return len(source._ratios)


def test_a_source_that_stays_nearly_empty_is_looked_at_until_the_rest_is_over() -> None:
    source = Source(*[0.01] * (LOOKS + 3))
    rest(threading.Event(), source, REST_S)
    assert left(source) == 3


def test_a_source_that_fills_ends_the_rest() -> None:
    source = Source(0.0, 0.5, 0.5)
    rest(threading.Event(), source, REST_S)
    assert left(source) == 1


def test_a_source_that_follows_processes_is_what_the_rest_is_spent_on() -> None:
    source = Source(*[0.0] * LOOKS)
    followed = []
    source.follow = lambda seconds: not followed.append(seconds)  # type: ignore[method-assign,func-returns-value]
    rest(threading.Event(), source, REST_S)
    assert followed == pytest.approx([LOOK_S] * LOOKS)


def test_a_stop_ends_the_rest_with_and_without_a_source() -> None:
    stop, source = threading.Event(), Source(0.0, 0.0)
    stop.set()
    rest(stop, source, REST_S)
    rest(stop, None, REST_S)
    assert left(source) == 1


@given(st.integers(0, 2**60), st.sampled_from([0, 200_000_000, 2_000_000_000, 3_141_592_653]))
def test_a_round_is_due_soon_after_each_second_is_settled(now_ns: int, delay_ns: int) -> None:
    rest_ns = round(until_round_s(now_ns, delay_ns) * NS_PER_S)
    settled_ns = now_ns + rest_ns - delay_ns
    assert LEAST_NS <= rest_ns <= LEAST_NS + ROUND_NS
    assert settled_ns % ROUND_NS == pytest.approx(AFTER_NS, abs=2)
