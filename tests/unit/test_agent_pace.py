"""How long the agent's loop rests between two rounds."""

import threading

from gpuledger.agent.pace import LOOK_S, LOOKS, rest


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
    rest(threading.Event(), source)
    assert left(source) == 3


def test_a_source_that_fills_ends_the_rest() -> None:
    source = Source(0.0, 0.5, 0.5)
    rest(threading.Event(), source)
    assert left(source) == 1


def test_a_source_that_follows_processes_is_what_the_rest_is_spent_on() -> None:
    source = Source(*[0.0] * LOOKS)
    followed = []
    source.follow = lambda seconds: not followed.append(seconds)  # type: ignore[method-assign,func-returns-value]
    rest(threading.Event(), source)
    assert followed == [LOOK_S] * LOOKS


def test_a_stop_ends_the_rest_with_and_without_a_source() -> None:
    stop, source = threading.Event(), Source(0.0, 0.0)
    stop.set()
    rest(stop, source)
    rest(stop, None)
    assert left(source) == 1
