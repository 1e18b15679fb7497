"""The rules, each in a file of its own, and how their answers are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from gpuledger.recommend.advice import Recommendation
from gpuledger.recommend.evidence import Evidence
from gpuledger.recommend.rules.idle import idle_workloads
from gpuledger.recommend.rules.nodes import unallocated_nodes
from gpuledger.recommend.rules.schedules import schedules
from gpuledger.recommend.rules.slices import slices
from gpuledger.recommend.rules.spot import spot
from gpuledger.recommend.rules.stranded import stranded_slices
from gpuledger.recommend.settings import Settings

Rule = Callable[[Evidence, Settings], Iterable[Recommendation]]
RULES: Final[tuple[Rule, ...]] = (
    idle_workloads, slices, unallocated_nodes, stranded_slices, spot, schedules
)  # fmt: skip


def recommend(evidence: Evidence, settings: Settings) -> list[Recommendation]:
    """What to change, the greatest saving first; of several rules for one subject the one that saves most,
    which names the others. So the savings of the list can be added up."""
    found: dict[tuple[str, str], dict[str, list[Recommendation]]] = {}
    for rule in RULES:
        for one in rule(evidence, settings):
            found.setdefault((one.subject, one.currency), {}).setdefault(one.rule, []).append(one)
    chosen: list[Recommendation] = []
    for by_rule in found.values():
        best = max(by_rule, key=lambda name: (_worth(by_rule[name]), name))
        others = tuple(sorted(by_rule.keys() - {best}))
        chosen += (replace(one, instead_of=others) for one in by_rule[best])
    return sorted(chosen, key=lambda one: (*(-value for value in _worth([one])), one.subject, one.rule))


def _worth(several: Iterable[Recommendation]) -> tuple[int, float]:
    """Money and GPU-hours; a workload on several kinds of devices has one for each."""
    known = list(several)
    return sum(one.saving.nano or 0 for one in known), sum(one.saving.gpu_hours for one in known)
