"""What a replay computes with: the recorded configuration, and what is to stand in for parts of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuledger.attribution import Policy
from gpuledger.bus import Incoming
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.records import PriceBookVersion, TeamMapVersion
from gpuledger.pricing import PriceBook, Prices, TeamMap, Teams
from gpuledger.processor.charging import Configuration
from gpuledger.replay.request import Request

REPLAYED = "replayed"
"""The side that has all of it."""


class OnePriceBook(Prices):
    """One book for every window, whatever its generation pins."""

    def __init__(self, version: PriceBookVersion) -> None:
        super().__init__([version])
        self._book = PriceBook(version)

    def at(self, window_start_ns: int, version: int | None = None) -> PriceBook:
        """See Prices."""
        return self._book


class OneTeamMap(Teams):
    """One team map for every window, whatever its generation pins."""

    def __init__(self, version: TeamMapVersion) -> None:
        super().__init__([version])
        self._map = TeamMap(version)

    def at(self, window_start_ns: int, version: int | None = None) -> TeamMap:
        """See Teams."""
        return self._map


def with_generations(recorded: Configuration, request: Request) -> Configuration:
    """The recorded configuration, with the generations of a request."""
    more = {generation.number: generation for generation in request.generations}
    return replace(recorded, generations={**recorded.generations, **more})


def sides(recorded: Configuration, request: Request) -> Iterator[tuple[str, Configuration]]:
    """What is computed of each window, by name: with what was recorded, then with one change after the other.

    The last is ``replayed`` and has all changes; without changes it is the only one.
    """
    steps: list[tuple[str, Configuration]] = [("late", recorded)]
    current = recorded
    if request.prices is not None:
        current = replace(current, prices=OnePriceBook(request.prices))
        steps.append(("price", current))
    if request.teams is not None:
        current = replace(current, teams=OneTeamMap(request.teams))
        steps.append(("team", current))
    if request.policy:
        current = replace(current, policy=Policy(**request.policy))
        steps.append(("policy", current))
    yield from steps[:-1]
    yield REPLAYED, current


class Unheard:
    """Where refused records of the topics beside the log go: the processor has told them already."""

    def add(self, message: Incoming, error: BadRecord) -> None:
        """See processor.topics_read.Refuses."""

    def forget(self, topic: str, partition: int) -> None:
        """See processor.topics_read.Refuses."""
