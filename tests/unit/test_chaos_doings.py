"""Faults of a chaos run that come at the worst moment."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuledger.localstack import Server
from tests.chaos.doings import Faults
from tests.chaos.service import Service
from tests.support.waiting import until


class Sleeper(Service):
    """A process that ends by itself between the look whether it runs and what is done to it."""

    ends_first = False

    def command(self) -> list[str]:
        return ["sleep", "600"]

    @property
    def pid(self) -> int:
        found = super().pid
        if self.ends_first:
            os.kill(found, signal.SIGKILL)
            until(lambda: not Path(f"/proc/{found}").exists())
        return found


class OfOne(Faults):
    """The faults of one process, which counts who ended by itself."""

    def __init__(self, name: str, target: Server) -> None:
        self.targets = {name: target}
        self.down: set[str] = set()
        self.happened: Counter[str] = Counter()
        self.ended = 0

    def clock(self, node: str) -> Path:
        raise NotImplementedError

    def state_of(self, node: str) -> Path:
        raise NotImplementedError

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        raise NotImplementedError

    def beside(self, do: Callable[[], None]) -> None:
        raise NotImplementedError

    def reap(self, name: str) -> bool:
        if name in self.down or self.targets[name].running:
            return False
        self.ended += 1
        self.targets[name].stop()
        return True


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Sleeper]:
    made = Sleeper("sleeper-0", tmp_path, [], {})
    made.begin()
    yield made
    made.ends_first = False
    made.stop()


def test_who_is_killed_stays_away_until_it_is_revived(sleeper: Sleeper) -> None:
    faults = OfOne("sleeper-0", sleeper)
    faults.kill("sleeper-0")
    assert not sleeper.running
    assert faults.down == {"sleeper-0"}
    assert (faults.happened, faults.ended) == (Counter({"kill sleeper": 1}), 0)
    faults.revive("sleeper-0")
    assert faults.targets["sleeper-0"].running
    assert not faults.down


def test_who_ends_by_itself_as_it_is_killed_was_not_killed(sleeper: Sleeper) -> None:
    faults = OfOne("sleeper-0", sleeper)
    sleeper.ends_first = True
    faults.kill("sleeper-0")
    assert not sleeper.running
    assert faults.down == {"sleeper-0"}
    assert (+faults.happened, faults.ended) == (Counter(), 1)


def test_who_ends_by_itself_as_it_is_frozen_was_not_frozen(sleeper: Sleeper) -> None:
    faults = OfOne("sleeper-0", sleeper)
    sleeper.ends_first = True
    faults.freeze("sleeper-0")
    assert not +faults.happened
    until(lambda: not sleeper.running)
