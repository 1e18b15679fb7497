"""Nodes that nobody holds a GPU of: kept alive by pods without GPUs, or left over after their work ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpuledger.recommend.advice import Recommendation
from gpuledger.recommend.evidence import Evidence, Hour, KeptBy, NodeUse
from gpuledger.recommend.manifests import gpu_node_pool
from gpuledger.recommend.rules.runs import last_run, part, span_of_run
from gpuledger.recommend.saving import saving
from gpuledger.recommend.settings import Settings
from gpuledger.spend.words import duration

MOST_NAMED: Final = 5  # in a sentence; --json has all that the ledger names
WHY: Final[Mapping[str, str]] = {
    "do_not_disrupt": "karpenter.sh/do-not-disrupt: Karpenter leaves its node",
    "not_safe_to_evict": 'safe-to-evict: "false": cluster-autoscaler leaves its node',
    "no_controller": "no controller would make it again: cluster-autoscaler leaves its node",
    "local_storage": "local storage: cluster-autoscaler leaves its node",
    "disruption_budget": "a PodDisruptionBudget allows no pod of it to go now: autoscalers leave its node",
    "system_pod": "in kube-system: cluster-autoscaler leaves its node unless a PodDisruptionBudget allows it",
}
"""Words of the record Keeper."""
UNKNOWN: Final = "nothing on the pod stops an autoscaler, nor a PodDisruptionBudget that is known here"
UNALLOCATED, KEPT, LEFT_OVER = "node_unallocated", "node_kept_by_cpu_pods", "node_after_work"


def unallocated_nodes(evidence: Evidence, settings: Settings) -> Iterator[Recommendation]:
    """Nodes of which nobody held or used a GPU for at least ``node_idle_hours``, up to now. The saving is all
    that the node costs, also what of it is not GPU."""
    for one in evidence.nodes:
        run = last_run(evidence, one.hours, lambda hour: not hour.total_ns)
        if run and span_of_run(evidence, run).length_s >= settings.node_idle_hours * 3_600:
            yield _recommendation(evidence, one, run)


def _recommendation(evidence: Evidence, one: NodeUse, run: Sequence[Hour]) -> Recommendation:
    span = span_of_run(evidence, run)
    kept = sum(hour.start_s in one.kept for hour in run)
    finding = f"nobody held a GPU of it for {duration(span.length_s)} ({one.instance_type or 'unknown type'})"
    change = "let the node pool consolidate empty nodes"
    if kept:
        rule = KEPT
        finding += f"; in {kept} of these hours pods without GPUs kept it alive"
        finding += f": {_who(one)}" if one.kept_by else ""
        change += ", and keep pods without GPUs off them by a taint: " + _to_move(one)
    elif one.last_workload:
        rule = LEFT_OVER
        finding += f"; it stayed after the work of {one.last_workload} ended"
    else:
        rule = UNALLOCATED
        finding += ", nor before in this time"
    return Recommendation(
        rule,
        one.subject,
        one.last_team,
        span,
        finding,
        change,
        "work that comes back waits some minutes for a node, and may not get one where the type is scarce; "
        "pods on the node are evicted",
        saving([part(evidence, hour, hour.total_nano, 0) for hour in run]),
        one.currency,
        gpu_node_pool(),
        kept_by=one.kept_by if kept else (),
    )


def _who(one: NodeUse) -> str:
    """The pods and what stops an autoscaler, some by name."""
    told = [_pod(keeper) for keeper in one.kept_by[:MOST_NAMED]]
    more = one.kept_by_count - len(told)
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")


def _pod(keeper: KeptBy) -> str:
    owner = f" of {keeper.workload}" if keeper.workload else ""
    why = ", ".join(WHY.get(word, word) for word in keeper.why) or UNKNOWN
    return f"{keeper.pod}{owner} ({why})"


def _to_move(one: NodeUse) -> str:
    who = f"`kubectl get pods -A --field-selector spec.nodeName={one.node}`"
    if not one.kept_by:
        return f"{who} says who is there"
    stuck = [keeper for keeper in one.kept_by if keeper.why]
    first = f"first {stuck[0].pod}, which no autoscaler moves by itself; " if stuck else ""
    return f"move those that are there ({first}{who} lists them all)"
