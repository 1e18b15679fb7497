"""Work on on-demand nodes that would lose little when its node is taken: short, or with checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from gpuledger.recommend.advice import Recommendation
from gpuledger.recommend.evidence import Evidence, Hour, WorkloadUse
from gpuledger.recommend.manifests import spot_node_pool
from gpuledger.recommend.rules.runs import part
from gpuledger.recommend.saving import Saving, batch_saving
from gpuledger.recommend.settings import Limits, Settings
from gpuledger.spend.words import duration

SPOT = "spot"
BATCH_KINDS = ("Job", "CronJob", "Pod", "Workflow", "PyTorchJob", "MPIJob", "RayJob")
LEAST_PODS = 3  # of fewer a median life says little


def spot(evidence: Evidence, settings: Settings) -> Iterator[Recommendation]:
    """Batch work on on-demand nodes. The saving is its money times what spot is cheaper by: as the ledger
    has paid for the same model, else ``spot_price_ratio``; not known without either."""
    for one in evidence.workloads:
        why = _why(one, settings.of(one.team))
        if one.capacity_type != "on_demand" or not why:
            continue
        seen = evidence.spot_ratio.get(one.gpu_model)
        ratio = seen if seen is not None else settings.spot_price_ratio
        if ratio is not None and ratio >= 1:
            continue  # spot costs no less
        whole = batch_saving(
            [part(evidence, hour, hour.total_nano, hour.total_ns) for hour in one.hours]
            + [part(evidence, Hour(at, 0), 0, 0) for at in _absent(evidence, one)],
            one.pods,
        )
        yield Recommendation(
            SPOT,
            one.subject,
            one.team,
            evidence.span,
            f"runs on on-demand nodes ({one.gpu_model}); {why}",
            "run it on spot nodes: tolerate gpuledger.io/spot and select karpenter.sh/capacity-type: spot",
            "a node may be taken with two minutes' notice: work since the last checkpoint is done again, and "
            f"waits for another node. {_price(seen, settings.spot_price_ratio)}",
            _cheaper(whole, ratio),
            one.currency,
            spot_node_pool(),
        )


def _why(one: WorkloadUse, limits: Limits) -> str:
    place = f"{one.namespace}/{one.workload}"
    if any(fnmatchcase(place, pattern) for pattern in limits.checkpointing):
        return "it is listed as checkpointing"
    if one.kind in BATCH_KINDS and one.pods >= LEAST_PODS and 0 < one.life_s <= limits.short_hours * 3_600:
        return f"half of its {one.pods} pods lived {duration(one.life_s)} or less"
    return ""


def _price(seen: float | None, assumed: float | None) -> str:
    if seen is not None:
        return f"Spot was paid at {100 * seen:.0f} % of on-demand for this model"
    if assumed is not None:
        return f"That spot costs {100 * assumed:.0f} % is assumed (spot_price_ratio)"
    return "What spot costs is not known: set spot_price_ratio, or see it in the ledger"


def _cheaper(whole: Saving, ratio: float | None) -> Saving:
    if ratio is None:
        return Saving(None, None, None, 0.0)
    return replace(whole.of(1 - ratio), gpu_hours=0.0)  # the same GPU time, for less


def _absent(evidence: Evidence, one: WorkloadUse) -> Iterator[int]:
    """The hours in which it held nothing: batch work comes and goes."""
    there = {hour.start_s for hour in one.hours}
    return (at for at in range(evidence.span.start_s, evidence.span.until_s, 3_600) if at not in there)
