"""How the rows of a window came about, step by step, for whoever wants to be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gpuledger.attribution.consumers import ConsumerKey
from gpuledger.attribution.evidence import Occupation
from gpuledger.attribution.formula import Weighted
from gpuledger.attribution.pieces import Piece
from gpuledger.pricing import Consumer, Cost


class Divided(NamedTuple):
    """A piece of a device and how it was divided: ``ns`` and ``nano`` of each of ``weighted.parts``, which
    sum to ``time_ns`` (GPU time) and ``cost``. ``found`` None: nobody observed it."""

    device: str
    piece: Piece
    found: Occupation | None
    weighted: Weighted
    time_ns: int
    cost: Cost
    ns: list[int]
    nano: list[int]


class Assigned(NamedTuple):
    """What a team was decided from, and when."""

    consumer: Consumer
    at_ns: int


class Trace(Protocol):
    """Is told of every step. What it is told must not be changed."""

    def divided(self, step: Divided) -> None:
        """A piece was divided."""

    def assigned(self, key: ConsumerKey, step: Assigned) -> None:
        """A consumer's team was decided."""


@dataclass(slots=True)
class Steps:
    """A trace that keeps the steps of one window."""

    pieces: list[Divided] = field(default_factory=list)
    teams: dict[ConsumerKey, Assigned] = field(default_factory=dict)

    def divided(self, step: Divided) -> None:
        """See Trace."""
        self.pieces.append(step)

    def assigned(self, key: ConsumerKey, step: Assigned) -> None:
        """See Trace."""
        self.teams[key] = step

    def forget(self) -> None:
        """Begin again."""
        self.pieces.clear()
        self.teams.clear()
