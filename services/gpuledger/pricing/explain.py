"""Why a price or a team was chosen: everything that was considered, and why it did not decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpuledger.contract.records import PriceEntry, TeamRule
from gpuledger.pricing.book import PriceBook, entry_match, precedence
from gpuledger.pricing.check import day
from gpuledger.pricing.devices import MATCH_FIELDS, PricedDevice
from gpuledger.pricing.teams import Consumer, Team, TeamMap, fits, has


class Considered(NamedTuple):
    """A rule or an entry by its id. ``reasons`` say why it did not decide; the one that did has none."""

    id: str
    outcome: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TeamDecision:
    """Who pays, by which rule (empty: no rule), what stands in where no rule decides, and all rules."""

    team: Team
    rule: str
    otherwise: str
    considered: tuple[Considered, ...]


@dataclass(frozen=True, slots=True)
class PriceDecision:
    """The entry that applies, None where there is none; every entry in the order of precedence."""

    entry: PriceEntry | None
    considered: tuple[Considered, ...]


def explain_team(teams: TeamMap, consumer: Consumer, at_ns: int) -> TeamDecision:
    """The decision of ``TeamMap.team_of`` with every rule in the order in which it was asked."""
    decided = ""
    considered = []
    for rule in teams.rules:
        reasons = tuple(rule_mismatches(rule, consumer, at_ns))
        if reasons:
            considered.append(Considered(rule.id, f"team {_team(rule)}", reasons))
        elif decided:
            considered.append(
                Considered(rule.id, f"team {_team(rule)}", (f"it matches, but {decided} goes first",))
            )
        else:
            decided = rule.id
            considered.append(Considered(rule.id, f"team {_team(rule)}", ()))
    team = teams.team_of(consumer, at_ns)
    return TeamDecision(
        team, decided, "" if decided else _otherwise(teams, consumer, team), tuple(considered)
    )


def explain_price(book: PriceBook, device: PricedDevice, at_ns: int) -> PriceDecision:
    """The entry of ``PriceBook.entry`` with every price: those that match, in the order of precedence, then
    the others. The intervals of a series are one price."""
    chosen = book.entry(device, at_ns)
    matching: dict[str, Considered] = {}
    others: dict[str, Considered] = {}
    for entry in sorted(book.entries, key=lambda entry: (*(-part for part in precedence(entry)), entry.id)):
        reasons = tuple(entry_mismatches(entry, device, at_ns))
        if reasons:
            others.setdefault(entry.id, Considered(entry.id, f"per {entry.per}", reasons))
        else:
            why_not = () if chosen is None or entry is chosen else (_goes_first(chosen, entry),)
            matching[entry.id] = Considered(entry.id, f"per {entry.per}", why_not)
    rest = (one for one in others.values() if one.id not in matching)
    return PriceDecision(chosen, (*matching.values(), *rest))


def _goes_first(chosen: PriceEntry, entry: PriceEntry) -> str:
    (priority, attributes), (wins, wins_by) = precedence(entry), precedence(chosen)
    return (
        f"it matches, but {chosen.id} goes first: priority {wins} and {wins_by} matched attributes against "
        f"{priority} and {attributes}"
    )


def entry_mismatches(entry: PriceEntry, device: PricedDevice, at_ns: int) -> Iterator[str]:
    """Every reason why an entry does not apply."""
    yield from _out_of_time(entry.effective_from_ns, entry.effective_to_ns, at_ns)
    for name, wanted, value in zip(MATCH_FIELDS, entry_match(entry), device.match_key, strict=True):
        if wanted and wanted != value:
            yield f"{name} is {value or 'not known'}, not {wanted}"


def rule_mismatches(rule: TeamRule, consumer: Consumer, at_ns: int) -> Iterator[str]:
    """Every reason why a rule does not apply."""
    yield from _out_of_time(rule.effective_from_ns, rule.effective_to_ns, at_ns)
    if consumer.kind == "pool" and rule.consumer_kind != "pool":
        yield "the pool belongs to a rule only where it says consumer_kind: pool"
    elif rule.consumer_kind not in ("", consumer.kind):
        yield f"it is a {consumer.kind}, not a {rule.consumer_kind}"
    if not rule.team and not consumer.labels.get(rule.label_key):
        yield f"it has no label {rule.label_key} to take the team from"
    for name in ("cluster", "node_pool", "owner_kind"):
        wanted, value = getattr(rule, name), getattr(consumer, name)
        if wanted not in ("", value):
            yield f"{name} is {value or 'not known'}, not {wanted}"
    for name in ("namespace", "owner_name"):
        wanted, value = getattr(rule, name), getattr(consumer, name)
        if not fits(wanted, value):
            yield f"{name} is {value or 'not known'}, not {wanted}"
    yield from _lacks("label", rule.labels, consumer.labels)
    yield from _lacks("annotation", rule.annotations, consumer.annotations)


def _lacks(what: str, wanted: Mapping[str, str], there: Mapping[str, str]) -> Iterator[str]:
    for key, value in wanted.items():
        if not has({key: value}, there):
            yield (
                f"{what} {key} is {there[key]!r}, not {value!r}"
                if key in there
                else f"it has no {what} {key}"
            )


def _out_of_time(from_ns: int, to_ns: int | None, at_ns: int) -> Iterator[str]:
    if at_ns < from_ns:
        yield f"it holds only from {day(from_ns)}"
    if to_ns is not None and at_ns >= to_ns:
        yield f"it held only until {day(to_ns)}"


def _team(rule: TeamRule) -> str:
    return rule.team or f"of label {rule.label_key}"


def _otherwise(teams: TeamMap, consumer: Consumer, team: Team) -> str:
    """What decides where no rule does."""
    if consumer.kind == "pool":
        return "what nobody holds or explains"
    if not teams.rules and consumer.labels.get("team") == team.team:
        return "its label team, since the map has no rules"
    if teams.default_team:
        return "default_team: nobody claims it"
    return "its namespace, since there is no default_team" if consumer.kind == "pod" else "it is no pod"
