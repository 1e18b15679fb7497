"""Workloads that work by day and are held through nights and weekends."""

from __future__ import annotations

from collections.abc import Iterator

from gpuledger.contract.clock import NS_PER_S
from gpuledger.recommend.advice import Recommendation
from gpuledger.recommend.evidence import Evidence, Hour, WorkloadUse
from gpuledger.recommend.manifests import schedule
from gpuledger.recommend.rules.runs import part
from gpuledger.recommend.rules.working_hours import at_work
from gpuledger.recommend.saving import saving
from gpuledger.recommend.settings import Settings
from gpuledger.spend.words import gpu_hours

SCHEDULE = "schedule"
LEAST_DAYS = 3  # with fewer nights a habit is not told from chance
SCALABLE = ("Deployment", "StatefulSet")


def schedules(evidence: Evidence, settings: Settings) -> Iterator[Recommendation]:
    """Workloads that are active in working hours and below the team's share outside of them. The saving is
    what they held idle outside."""
    for one in evidence.whole_workloads:
        limits = settings.of(one.team)
        off = [hour for hour in one.hours if not at_work(hour, limits)]
        on = [hour for hour in one.hours if at_work(hour, limits)]
        days = {hour.start_s // 86_400 for hour in off}
        if one.kind not in SCALABLE or len(days) < LEAST_DAYS:
            continue
        threshold = limits.active_percent / 100
        if not _share(off) < threshold <= _share(on):
            continue
        begin, end = limits.work_hours
        pods = _pods_at_once(evidence, one, on)
        yield Recommendation(
            SCHEDULE,
            one.subject,
            one.team,
            evidence.span,
            f"active {100 * _share(on):.0f} % of its GPU time in working hours and {100 * _share(off):.1f} % "
            f"outside; there it held {gpu_hours(sum(hour.total_ns for hour in off))} GPU-hours",
            f"run {_words(pods)} Monday to Friday {begin}:00 to {end}:00 ({limits.time_zone}), "
            "else scale it to zero",
            "who works late finds it away; in the morning it waits for its nodes and for the model to load",
            saving(
                [part(evidence, hour, hour.idle_nano, hour.total_ns - hour.used_ns) for hour in off]
                + [part(evidence, hour, 0, 0) for hour in on]
            ),
            one.currency,
            schedule(one, pods, begin, end, limits.time_zone) if pods else {},
        )


def _pods_at_once(evidence: Evidence, one: WorkloadUse, hours: list[Hour]) -> int:
    """The most pods that it had at once, as the GPU time of its busiest hour tells: pods that take turns, as
    at a new version, are not counted twice. 0 where GPU time does not tell, as pods have parts of GPUs."""
    if not one.has_whole_gpus:
        return 0
    a_pod = one.gpus_a_pod * NS_PER_S
    return max(1, max(round(hour.total_ns / (evidence.length_s(hour) * a_pod)) for hour in hours))


def _words(pods: int) -> str:
    if not pods:
        return "as many pods as now"
    return f"{pods} pods" if pods > 1 else "1 pod"


def _share(hours: list[Hour]) -> float:
    total = sum(hour.total_ns for hour in hours)
    return sum(hour.used_ns for hour in hours) / total if total else 0.0
