"""Which of the past a new version charges otherwise, and the generations that are announced for it.

A window is charged with what the greatest generation of its range pins, else with the versions that are
active at its start. What a published version owes is a function of what is published: the time in which it
would charge otherwise, less the time for which a generation with it, or a later one, was announced already.
So announcing may be interrupted anywhere and repeated: nothing is lost and nothing is announced twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeVar

from gpuledger.contract.records import Generation, PriceBookVersion, TeamMapVersion
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.pricing.changes import (
    PriceChange,
    Range,
    cause_of,
    price_changes,
    ranges_to_restate,
    team_changes,
)
from gpuledger.pricing.currencies import FOREVER_NS

V = TypeVar("V", PriceBookVersion, TeamMapVersion)
Pins = tuple[int, int, Mapping[str, str]]
"""Version of the prices, version of the teams, policy."""


@dataclass(frozen=True)
class Published:
    """Every version of prices and teams and every generation, as they are published or are about to be."""

    prices: Sequence[PriceBookVersion] = ()
    teams: Sequence[TeamMapVersion] = ()
    announced: Sequence[Generation] = ()

    @cached_property
    def books(self) -> dict[int, PriceBookVersion]:
        """Price books by number; of two with one number the first holds."""
        return {version.version: version for version in reversed(self.prices)}

    @cached_property
    def maps(self) -> dict[int, TeamMapVersion]:
        """Team maps, likewise."""
        return {version.version: version for version in reversed(self.teams)}

    @cached_property
    def generations(self) -> list[Generation]:
        """Those that hold, by number: the first of each, where the versions that it pins are there."""
        first = {generation.number: generation for generation in reversed(self.announced)}
        return [
            one
            for _, one in sorted(first.items())
            if one.price_version in {0, *self.books} and one.team_version in {0, *self.maps}
        ]

    @cached_property
    def next_number(self) -> int:
        """The number of the next generation."""
        return 1 + max((generation.number for generation in self.announced), default=0)

    @cached_property
    def named_clusters(self) -> list[str]:
        """Clusters that have generations of their own."""
        return sorted({cluster for one in self.generations for cluster in one.clusters})


class Stretch(NamedTuple):
    """Time in which windows of a cluster are charged alike. ``ahead`` are the greatest versions of prices
    and of teams that were ever announced for all of it."""

    start_ns: int
    end_ns: int
    pins: Pins
    ahead: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Restated:
    """Time that new versions charge otherwise. ``changes`` are those of the prices in it."""

    range: Range
    pins: Pins
    cause: str
    changes: tuple[PriceChange, ...] = ()


def stretches(published: Published, cluster: str) -> list[Stretch]:
    """What the windows of a cluster are charged with; an empty name is any that no generation names."""
    relevant = [one for one in published.generations if not one.clusters or cluster in one.clusters]
    cuts = {0, FOREVER_NS}
    cuts |= {max(version.active_from_ns, 0) for version in published.books.values()}
    cuts |= {max(version.active_from_ns, 0) for version in published.maps.values()}
    for one in relevant:
        cuts |= {max(one.from_ns, 0), max(one.to_ns, 0)}
    found = []
    for start, end in pairwise(sorted(cuts)):
        over = [one for one in relevant if one.from_ns <= start < one.to_ns]
        ahead = (
            max((one.price_version for one in over), default=0),
            max((one.team_version for one in over), default=0),
        )
        pins: Pins = (_active(published.books, start), _active(published.maps, start), {})
        if over:
            pins = over[-1].price_version, over[-1].team_version, over[-1].policy
        found.append(Stretch(start, end, pins, ahead))
    return found


def restated(
    published: Published, prices: PriceBookVersion | None, teams: TeamMapVersion | None
) -> list[Restated]:
    """The time that ``prices`` and ``teams``, versions of ``published``, charge otherwise than it is or will
    be charged, and for which neither was announced yet; in the order in which it is to be announced.

    What a cluster with generations of its own keeps comes behind what is announced for all of them, and so
    holds for it.
    """
    work = _Work(published, prices, teams)
    wide = work.of("")
    found = list(wide)
    for cluster in published.named_clusters:
        found += work.of(cluster, [one for one in wide if not one.range.clusters])
    return found


def owed(published: Published) -> list[Generation]:
    """The generations that the newest versions still owe to the past, as they were asked to restate it.

    Neither when they were announced nor by whom is in them.
    """
    prices = published.books.get(max(published.books, default=0))
    teams = published.maps.get(max(published.maps, default=0))
    found = restated(
        published,
        prices if prices is not None and prices.restates_past else None,
        teams if teams is not None and teams.restates_past else None,
    )
    return [
        Generation(
            number=published.next_number + index,
            announced_ns=0,
            from_ns=one.range.from_ns,
            to_ns=one.range.to_ns,
            clusters=list(one.range.clusters),
            price_version=one.pins[0],
            team_version=one.pins[1],
            policy=dict(one.pins[2]),
            cause=one.cause,
        )
        for index, one in enumerate(found)
    ]


@dataclass
class _Work:
    published: Published
    prices: PriceBookVersion | None
    teams: TeamMapVersion | None
    _price_changes: dict[int, list[PriceChange]] = field(default_factory=dict)
    _team_changes: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def of(self, cluster: str, wide: Sequence[Restated] = ()) -> list[Restated]:
        """For one cluster; for all that are not named where it is empty. ``wide`` is for this one too."""
        found: list[Restated] = []
        for stretch in stretches(self.published, cluster):
            changes = list(self._prices_in(stretch, cluster))
            moved = list(self._teams_in(stretch))
            spans = [(one.start_ns, one.end_ns, cluster or one.cluster) for one in changes]
            spans += [(start, end, cluster) for start, end in moved]
            spans += [(*both, cluster) for one in wide if (both := _overlap(one.range[:2], stretch[:2]))]
            pins = (
                self.prices.version if self.prices is not None else stretch.pins[0],
                self.teams.version if self.teams is not None else stretch.pins[1],
                stretch.pins[2],
            )
            for one in ranges_to_restate(spans):
                low, high = max(one.from_ns, stretch.start_ns), min(one.to_ns, stretch.end_ns)
                inside = tuple(change for change in changes if _overlap(change[:2], (low, high)))
                cause = cause_of(inside) if inside or not moved else "team"
                _append(found, Restated(Range(low, high, one.clusters), pins, cause, inside))
        return [one for one in found if not any(_covers(other, one) for other in wide)]

    def _prices_in(self, stretch: Stretch, cluster: str) -> Iterator[PriceChange]:
        """Clipped to the stretch, up to the minute that its end lies in: a window may reach over it."""
        if self.prices is None or stretch.ahead[0] >= self.prices.version:
            return
        number = stretch.pins[0]
        if number not in self._price_changes:
            self._price_changes[number] = price_changes(self.published.books.get(number), self.prices)
        named = self.published.named_clusters
        for change in self._price_changes[number]:
            both = _overlap(change[:2], (stretch.start_ns, _minute_behind(stretch.end_ns)))
            wanted = change.cluster in ("", cluster) if cluster else change.cluster not in named
            if both and wanted:
                yield change._replace(start_ns=both[0], end_ns=both[1])

    def _teams_in(self, stretch: Stretch) -> Iterator[tuple[int, int]]:
        if self.teams is None or stretch.ahead[1] >= self.teams.version:
            return
        number = stretch.pins[1]
        if number not in self._team_changes:
            self._team_changes[number] = team_changes(self.published.maps.get(number), self.teams)
        for change in self._team_changes[number]:
            both = _overlap(change, (stretch.start_ns, _minute_behind(stretch.end_ns)))
            if both:
                yield both


def _active(versions: Mapping[int, V], at_ns: int) -> int:
    return max((number for number, one in versions.items() if one.active_from_ns <= at_ns), default=0)


def _minute_behind(at_ns: int) -> int:
    return -(-at_ns // MINUTE_NS) * MINUTE_NS


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int] | None:
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low < high else None


def _append(found: list[Restated], one: Restated) -> None:
    """Join what meets and is charged alike."""
    last = found[-1] if found else None
    if (
        last is not None
        and last.range.to_ns == one.range.from_ns
        and (last.range.clusters, last.pins, last.cause) == (one.range.clusters, one.pins, one.cause)
    ):
        joined = Range(last.range.from_ns, one.range.to_ns, one.range.clusters)
        found[-1] = Restated(joined, one.pins, one.cause, (*last.changes, *one.changes))
    else:
        found.append(one)


def _covers(wide: Restated, one: Restated) -> bool:
    return (
        wide.pins == one.pins
        and wide.range.from_ns <= one.range.from_ns
        and one.range.to_ns <= wide.range.to_ns
    )


def ranges_of(found: Iterable[Restated]) -> list[Range]:
    """The time of all of it, joined where it meets."""
    return ranges_to_restate(
        (one.range.from_ns, one.range.to_ns, cluster)
        for one in found
        for cluster in one.range.clusters or ("",)
    )
