"""What a planned version would change of the past: the time, and where there is a ledger, the money."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from gpuledger.configuration.effect import Effect, add_price_effect
from gpuledger.configuration.ledger import gpus_of_nodes, hours_of, opened, windows_of
from gpuledger.configuration.plan import Applied
from gpuledger.configuration.team_effect import add_team_effect
from gpuledger.contract.records import Generation, PriceBookVersion, TeamMapVersion
from gpuledger.pricing.changes import PriceChange
from gpuledger.pricing.restating import Published, ranges_of, restated
from gpuledger.warehouse import Warehouse


def foresee(planned: Applied, announced: Sequence[Generation], url: str | None) -> Effect:
    """The effect on all time that is charged otherwise until the version holds by itself, and under
    generations ``announced``. Without a URL of the warehouse its ranges alone."""
    new = planned.version
    known = [*planned.known, new]
    books = [version for version in known if isinstance(version, PriceBookVersion)]
    maps = [version for version in known if isinstance(version, TeamMapVersion)]
    published = Published(books, maps, _of_kind(announced, new))
    if isinstance(new, PriceBookVersion):
        found = restated(published, new, None)
        effect = Effect(ranges_of(found))
        causes = {one.cause for one in found}
        effect.cause = causes.pop() if len(causes) == 1 else "price"
        if url and effect.ranges:
            changes = list(chain.from_iterable(one.changes for one in found))
            with opened(url) as warehouse:
                _prices(effect, warehouse, changes, books[:-1], new)
        return effect
    if isinstance(new, TeamMapVersion):
        effect = Effect(ranges_of(restated(published, None, new)), "team")
        last = maps[-2] if len(maps) > 1 else TeamMapVersion(1, 0)
        effect.shared_otherwise = bool(effect.ranges) and last.policies != new.policies
        if url and effect.ranges:
            with opened(url) as warehouse:
                _teams(effect, warehouse, maps[:-1], new)
        return effect
    return Effect()  # no budget changes a charge


def _of_kind(announced: Sequence[Generation], new: object) -> list[Generation]:
    """The generations without the pins of the other kind of document, of which nothing is known here."""
    if isinstance(new, PriceBookVersion):
        return [_copy(one, one.price_version, 0) for one in announced]
    return [_copy(one, 0, one.team_version) for one in announced]


def _copy(one: Generation, price_version: int, team_version: int) -> Generation:
    return Generation(
        number=one.number,
        announced_ns=one.announced_ns,
        from_ns=one.from_ns,
        to_ns=one.to_ns,
        price_version=price_version,
        team_version=team_version,
        clusters=one.clusters,
    )


def _prices(
    effect: Effect,
    warehouse: Warehouse,
    changes: Sequence[PriceChange],
    old: Sequence[PriceBookVersion],
    new: PriceBookVersion,
) -> None:
    for one in effect.ranges:
        hours, cut = hours_of(warehouse, one)
        add_price_effect(effect, hours, changes, old, new, gpus_of_nodes(warehouse, one))
        effect.windows += windows_of(warehouse, one)
        effect.cut |= cut


def _teams(effect: Effect, warehouse: Warehouse, old: Sequence[TeamMapVersion], new: TeamMapVersion) -> None:
    for one in effect.ranges:
        hours, cut = hours_of(warehouse, one)
        add_team_effect(effect, hours, old, new)
        effect.windows += windows_of(warehouse, one)
        effect.cut |= cut
