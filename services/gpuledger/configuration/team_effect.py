"""Whose rows of the ledger would be another team's under another team map, as far as the ledger can tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuledger.configuration.effect import Effect, LedgerHour
from gpuledger.contract.records import TeamMapVersion, TeamRule
from gpuledger.contract.rows import POOL
from gpuledger.pricing import Consumer, TeamMap
from gpuledger.pricing.changes import held
from gpuledger.pricing.explain import rule_mismatches


class Possible(NamedTuple):
    """What may decide whose a consumer is: rules about what the ledger does not keep (labels, annotations,
    node pools), in the order in which they are asked; and who is asked in the end, which is certain."""

    first: tuple[tuple[str, ...], ...]
    certain: str


def add_team_effect(
    effect: Effect, rows: Iterable[LedgerHour], old: Sequence[TeamMapVersion], new: TeamMapVersion
) -> None:
    """Add whose the rows are now and whose they would be, of those for whom other rules may decide. ``old``
    are all versions that there were; that one counts which held at the row's hour."""
    none = TeamMapVersion(version=1, active_from_ns=0)
    stretches = held(old)
    for row in rows:
        place = next(one.place for one in stretches if one.start_ns <= row.hour_ns < one.end_ns)
        was = old[place] if place >= 0 else none
        kind, _, name = row.workload.partition("/")
        consumer = Consumer(
            kind=row.consumer_kind,
            cluster=row.cluster,
            namespace=row.namespace,
            owner_kind=kind,
            owner_name=name,
        )
        before, after = (possible_teams(teams, consumer, row.hour_ns) for teams in (was, new))
        if before == after:
            continue
        if before.first == after.first:  # whom these rules give it to stays; the others follow the last one
            team = after.certain if row.team == before.certain else row.team
        elif not after.first:
            team = after.certain
        else:
            effect.uncertain[row.currency] += row.total_nano
            continue
        effect.before[row.team, row.currency] += row.total_nano
        effect.after[team, row.currency] += row.total_nano


def possible_teams(teams: TeamMapVersion, consumer: Consumer, at_ns: int) -> Possible:
    """Who may get a consumer of which neither labels, annotations nor node pool are known."""
    first: list[tuple[str, ...]] = []
    for rule in TeamMap(teams).rules:
        known = TeamRule(
            id="",
            team=rule.team or rule.label_key,
            cluster=rule.cluster,
            namespace=rule.namespace,
            owner_kind=rule.owner_kind,
            owner_name=rule.owner_name,
            consumer_kind=rule.consumer_kind,
            effective_from_ns=rule.effective_from_ns,
            effective_to_ns=rule.effective_to_ns,
        )
        if any(rule_mismatches(known, consumer, at_ns)):
            continue
        unknown = rule.label_key, rule.labels, rule.annotations, rule.node_pool
        if not any(unknown):
            return Possible(tuple(first), rule.team)
        first.append((rule.team, *map(str, unknown)))
    if not teams.rules and consumer.kind != POOL:
        first.append(("", "team"))  # a map without rules takes the pod's label
    rest = TeamMapVersion(version=1, active_from_ns=0, default_team=teams.default_team)
    return Possible(tuple(first), TeamMap(rest).team_of(consumer, at_ns).team)
