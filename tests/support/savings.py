"""Recommendations carried out on a simulated fleet: what was promised, and what the ledger then shows.

The past is charged and recommended from. The future is charged twice, as it would have been and with the
change made to the plan; what the subject pays less is what the change realised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuledger.contract.records import ChargeSet
from gpuledger.recommend import MONTH_S, Recommendation, Saving
from tests.support.changes import CHANGES
from tests.support.worlds import World


class Outcome(NamedTuple):
    """Money of the future's hours in nano: promised, its interval, and realised."""

    rule: str
    change: str
    subject: str
    promised_nano: int
    low_nano: int
    high_nano: int
    realised_nano: int


def realised(
    before: World, found: Sequence[Recommendation], only: str = "", most: int | None = None
) -> list[Outcome]:
    """Carry out each recommendation alone; ``only`` those of one change, at most so many."""
    chosen = [one for one in _joined(found) if only in ("", CHANGES[one.rule][0])]
    return [_outcome(before, one) for one in chosen[:most]]


def _joined(found: Sequence[Recommendation]) -> list[Recommendation]:
    """A workload on several kinds of devices moves to spot as a whole. Where what spot costs is not known of
    one of them nothing is promised, and nothing can be held against it."""
    joined: dict[object, Recommendation] = {}
    unknown = set()
    for number, one in enumerate(found):
        key = (one.subject, one.rule) if one.rule == "spot" else number
        known = joined.get(key)
        joined[key] = one if known is None else replace(one, saving=_sum(known.saving, one.saving))
        if one.saving.nano is None:
            unknown.add(key)
    return [one for key, one in joined.items() if key not in unknown]


def _sum(a: Saving, b: Saving) -> Saving:
    nano, low, high = (
        (x or 0) + (y or 0)
        for x, y in ((a.nano, b.nano), (a.low_nano, b.low_nano), (a.high_nano, b.high_nano))
    )
    return Saving(nano, low, high, a.gpu_hours + b.gpu_hours)


def _outcome(before: World, one: Recommendation) -> Outcome:
    name, change, categories = CHANGES[one.rule]
    changed = [after for plan, after in zip(before.plans, change(before, one), strict=True) if after != plan]
    nodes = {plan.key.node for plan in changed}
    unchanged = [charges for charges in before.unchanged if charges.node in nodes]
    after = before.charged(before.future, changed)
    saved = _paid(unchanged, one, categories) - _paid(after, one, categories)
    scale = before.future_hours * 3600 / MONTH_S
    s = one.saving
    promised, low, high = (round((value or 0) * scale) for value in (s.nano, s.low_nano, s.high_nano))
    return Outcome(one.rule, name, one.subject, promised, low, high, saved)


def _paid(sets: Sequence[ChargeSet], one: Recommendation, categories: Sequence[str]) -> int:
    """What the subject of a recommendation pays: a workload for itself, a node for all that it is, a GPU for
    its slices that are stranded."""
    paid = 0
    for charges in sets:
        texts, node = charges.texts, f"{charges.cluster}/{charges.node}"
        for row in range(len(charges.device)):
            namespace, workload = texts[charges.namespace[row]], texts[charges.workload[row]]
            names = [f"{charges.cluster}/{namespace}/{workload}", node]
            if texts[charges.reason[row]] == "stranded":
                names.append(f"{node}/{texts[charges.device[row]]}")
            if one.subject in names:
                paid += sum(int(getattr(charges, f"{name}_nano")[row]) for name in categories)
    return paid
