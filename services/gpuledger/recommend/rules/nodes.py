"""Nodes that nobody holds a GPU of: kept alive by pods without GPUs, or left over after their work ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuledger.recommend.advice import Recommendation
from gpuledger.recommend.evidence import Evidence, Hour, NodeUse
from gpuledger.recommend.manifests import gpu_node_pool
from gpuledger.recommend.rules.runs import last_run, part, span_of_run
from gpuledger.recommend.saving import saving
from gpuledger.recommend.settings import Settings
from gpuledger.spend.words import duration

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
        who = f"kubectl get pods -A --field-selector spec.nodeName={one.node}"
        change += f", and keep pods without GPUs off them by a taint: `{who}` says who is there"
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
    )
