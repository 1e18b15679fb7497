"""Budgets in a chaos run: what is budgeted, and what must have been told, from the final ledger alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from gpuledger.bus import BusSettings, PartitionReader
from gpuledger.contract import topics
from gpuledger.contract.records import Breach, ChargeSet, decode
from gpuledger.contract.windows import HOUR_NS
from gpuledger.contract.wire import unframe

APPLICATION = "chaos-budgets"
PERCENT = [1, 2, 3, 5, 7, 10, 14, 20, 28, 40, 55, 75, 100, 140, 200, 280, 400, 550, 750, 1000, 1400, 2000]
NANO = 10**9


class Watched(NamedTuple):
    """A budget: of whom, how much (money, or GPU-ns), and what counts."""

    id: str
    team: str | None
    amount: int
    in_money: bool
    counts: tuple[str, ...]


WATCHED = (
    Watched("all", None, NANO, True, ("used", "held_idle", "unallocated", "unobserved")),
    Watched("vision", "vision", NANO // 4, True, ("used",)),
    Watched("idle", None, NANO // 4, True, ("held_idle",)),
    Watched("time", None, HOUR_NS // 10, False, ("used", "held_idle")),
)
Line = tuple[str, int]
"""A budget and the threshold in percent of its amount."""


def document() -> str:
    """The budgets as people write them; a period that holds every run."""
    thresholds = ", ".join(f"{percent}%" for percent in PERCENT)
    text = "kind: budgets\nbudgets:\n"
    for one in WATCHED:
        amount = f"amount: {one.amount / NANO:g}\n    currency: USD"
        amount = amount if one.in_money else f"gpu_hours: {one.amount / HOUR_NS:g}"
        text += f"  - id: {one.id}\n    period: fixed\n    starts: 2020-01-01\n    ends: 2100-01-01\n"
        text += f"    {amount}\n    counts: [{', '.join(one.counts)}]\n    thresholds: [{thresholds}]\n"
        if one.team:
            text += f"    scope: {{team: {one.team}}}\n"
    return text


def crossed(sets: Iterable[ChargeSet]) -> set[Line]:
    """The lines that the ledger has crossed: row by row, budget by budget."""
    spent: dict[str, int] = defaultdict(int)
    for one in sets:
        teams = [one.texts[number] for number in one.team.tolist()]
        priced = one.priced.tolist()
        for watched in WATCHED:
            unit = "nano" if watched.in_money else "ns"
            for name in watched.counts:
                amounts = getattr(one, f"{name}_{unit}").tolist()
                for team, known, amount in zip(teams, priced, amounts, strict=True):
                    if watched.team in (None, team) and (known or not watched.in_money):
                        spent[watched.id] += amount
    return {
        (watched.id, percent)
        for watched in WATCHED
        for percent in PERCENT
        if 100 * spent[watched.id] >= percent * watched.amount
    }


def told(bus: BusSettings) -> list[Breach]:
    """Every change on gpu.breaches, in its order."""
    with PartitionReader(bus, "chaos-breaches") as reader:
        values = [record.value or b"" for record in reader.read_to_end(topics.BREACHES, 0)]
    return [decode(Breach, unframe(value)[1]) for value in values]


def firing(changes: Iterable[Breach]) -> set[Line]:
    """The lines that are said to be crossed in the end."""
    last = {(breach.budget_id, breach.threshold_ppm // 10_000): breach.state for breach in changes}
    return {line for line, state in last.items() if state == "firing"}


def wrong(changes: Iterable[Breach], wanted: set[Line]) -> list[str]:
    """What was told that should not have been, or not told, or told twice."""
    by_id: Mapping[str, list[Breach]] = _by_id(changes)
    every = [breach for lives in by_id.values() for breach in lives]
    found = [f"breach {line} is {'not ' if line in wanted else ''}told" for line in firing(every) ^ wanted]
    for name, lives in by_id.items():
        numbers, states = [breach.change for breach in lives], [breach.state for breach in lives]
        if numbers != list(range(1, len(lives) + 1)):
            found.append(f"breach {name}: changes {numbers}")
        if any(before == after for before, after in pairwise(states)):
            found.append(f"breach {name} told twice: {states}")
        kinds = Counter(states)
        if kinds["firing"] - kinds["retracted"] not in (0, 1) or set(kinds) - {"firing", "retracted"}:
            found.append(f"breach {name}: {states}")
    return sorted(found)


def _by_id(changes: Iterable[Breach]) -> dict[str, list[Breach]]:
    found: dict[str, list[Breach]] = defaultdict(list)
    for breach in changes:
        found[breach.id].append(breach)
    return found
