"""What a planned version would change of the past: the time, and where there is a ledger, the money."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.configuration.effect import Effect, add_price_effect
from gpuledger.configuration.ledger import gpus_of_nodes, hours_of, opened, windows_of
from gpuledger.configuration.plan import Applied
from gpuledger.configuration.team_effect import add_team_effect
from gpuledger.contract.records import BudgetsVersion, PriceBookVersion, TeamMapVersion
from gpuledger.pricing.changes import (
    PriceChange,
    cause_of,
    past_price_changes,
    past_team_changes,
    ranges_to_restate,
)
from gpuledger.warehouse import Warehouse


def foresee(planned: Applied, now_ns: int, url: str | None) -> Effect:
    """The effect on the time before now and before the version holds by itself. Without a URL of the
    warehouse its ranges alone."""
    new = planned.version
    until_ns = min(now_ns, new.active_from_ns)
    if isinstance(new, PriceBookVersion):
        books = [version for version in planned.known if isinstance(version, PriceBookVersion)]
        changes = past_price_changes(books, new, until_ns)
        effect = Effect(ranges_to_restate((one.start_ns, one.end_ns, one.cluster) for one in changes))
        effect.cause = cause_of(changes)
        if url and effect.ranges:
            with opened(url) as warehouse:
                _prices(effect, warehouse, changes, books, new)
        return effect
    if isinstance(new, BudgetsVersion):
        return Effect([])  # no budget changes a charge
    maps = [version for version in planned.known if isinstance(version, TeamMapVersion)]
    stretches = past_team_changes(maps, new, until_ns)
    effect = Effect(ranges_to_restate((start, end, "") for start, end in stretches))
    effect.cause = "team"
    if url and effect.ranges:
        with opened(url) as warehouse:
            _teams(effect, warehouse, maps, new)
    return effect


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
