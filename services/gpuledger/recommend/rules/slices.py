"""A whole GPU where a slice would do: a MIG instance where the model has them, else time-slices or MPS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuledger.contract.gpu_models import MigProfile, memory_of_model, profiles_of
from gpuledger.recommend.advice import Recommendation
from gpuledger.recommend.evidence import HOUR_S, Evidence, WorkloadUse
from gpuledger.recommend.manifests import mig_layout, mps, time_slicing
from gpuledger.recommend.rules.runs import STILL_THERE_S, part
from gpuledger.recommend.saving import saving
from gpuledger.recommend.settings import Settings

MIG, TIME_SLICING, MPS = "mig_slice", "time_slicing", "mps"
LEAST_HOURS = 6  # a busy hour that was not seen in fewer may come yet
MOST_REPLICAS = 8
STEADY = 0.5  # of the hours with work: small kernels all the time run beside others rather than in turns


class Need(NamedTuple):
    """What a workload takes of one GPU at its busiest, with headroom: share of time, bytes."""

    share: float
    memory_bytes: float


class Fit(NamedTuple):
    """What would do, and the share of a GPU that it costs."""

    rule: str
    change: str
    risk: str
    share: float
    manifests: Mapping[str, str]


def slices(evidence: Evidence, settings: Settings) -> Iterator[Recommendation]:
    """Workloads on whole GPUs of which a smaller part has room for their busiest hour and their memory.

    The share of time in which the GPU was busy stands for the share of it that is needed, as if every kernel
    filled it: a slice that is large enough by this is never too small.
    """
    for one in evidence.workloads:
        limits = settings.of(one.team)
        need = _need(one, limits.headroom_percent)
        if need is None or one.hours[-1].start_s + HOUR_S < evidence.span.until_s - STILL_THERE_S:
            continue
        fit = _mig(one, need) if profiles_of(one.gpu_model) else _shared(one, need)
        if fit is None:
            continue
        parts = [part(evidence, hour, hour.total_nano, hour.total_ns) for hour in one.hours]
        yield Recommendation(
            fit.rule,
            one.subject,
            one.team,
            evidence.span,
            f"holds whole GPUs ({one.gpu_model}); with {limits.headroom_percent:.0f} % headroom its busiest "
            f"hour needs {100 * need.share:.0f} % of one and {need.memory_bytes / (1 << 30):.1f} GiB",
            fit.change,
            f"{fit.risk}. A busier hour than any in the evidence would be slower",
            saving(parts, one.pods).of(1 - fit.share),
            one.currency,
            fit.manifests,
        )


def unknown_models(evidence: Evidence) -> list[str]:
    """Models of whole GPUs of which neither MIG profiles nor memory are known: nothing is said of a part."""
    held = {one.gpu_model for one in evidence.workloads if one.has_whole_gpus and one.gpu_model}
    return sorted(model for model in held if not (profiles_of(model) or memory_of_model(model)))


def _need(one: WorkloadUse, headroom_percent: float) -> Need | None:
    if not one.has_whole_gpus or one.gpus_a_pod > 1 or len(one.hours) < LEAST_HOURS:
        return None  # GPUs that work together do so over NVLink, which slices do not have
    room = 1 + headroom_percent / 100
    busiest = max(max(hour.used_ns, hour.high_ns) / hour.total_ns for hour in one.hours if hour.total_ns)
    memory = max(hour.memory_bytes for hour in one.hours)
    return Need(busiest * room, memory * room) if memory else None  # what it needs is not known


def _mig(one: WorkloadUse, need: Need) -> Fit | None:
    fitting = [
        profile
        for profile in profiles_of(one.gpu_model)
        if profile.share >= need.share and profile.memory_bytes >= need.memory_bytes and profile.share < 1
    ]
    if not fitting:
        return None
    profile = min(fitting, key=lambda profile: (profile.share, profile.memory_bytes))
    return Fit(
        MIG,
        f"ask for nvidia.com/mig-{profile.name}: 1 instead of a whole GPU, on nodes with "
        f"{profile.per_gpu} such instances a GPU",
        "a node is drained to change its MIG layout; peer-to-peer and NVLink are not there between instances",
        profile.share,
        mig_layout(_name(profile), {profile.name: profile.per_gpu}),
    )


def _shared(one: WorkloadUse, need: Need) -> Fit | None:
    total = memory_of_model(one.gpu_model)
    by_memory = int(total / need.memory_bytes) if total else 0
    replicas = min(MOST_REPLICAS, by_memory, int(1 / need.share) if need.share else MOST_REPLICAS)
    if replicas < 2:
        return None
    awake = sum(hour.used_ns > 0 for hour in one.hours) / len(one.hours)
    if awake > STEADY:
        percentage = 100 // replicas
        return Fit(
            MPS,
            f"share its GPUs by MPS between {replicas} pods, each with {percentage} % of the multiprocessors",
            "a fault of one pod's kernel ends the others' on the same GPU; memory is bounded, not protected",
            1 / replicas,
            mps(replicas),
        )
    return Fit(
        TIME_SLICING,
        f"share its GPUs by time-slicing between {replicas} pods",
        "there is no bound on memory and none on time: who is busy slows the others down",
        1 / replicas,
        time_slicing(replicas),
    )


def _name(profile: MigProfile) -> str:
    return f"all-{profile.name}"
