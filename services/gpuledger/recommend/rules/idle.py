"""Held and idle: GPUs of a workload that is hardly active, and of one that only keeps memory resident."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from gpuledger.recommend.advice import Recommendation
from gpuledger.recommend.evidence import Evidence, Hour, WorkloadUse
from gpuledger.recommend.rules.runs import last_run, part, span_of_run
from gpuledger.recommend.rules.working_hours import at_work
from gpuledger.recommend.saving import Part, saving
from gpuledger.recommend.settings import Settings
from gpuledger.spend.words import duration, gpu_hours

IDLE, WARM_IDLE = "idle", "warm_idle"
SCALABLE = ("Deployment", "StatefulSet")
WORKING_HOURS = 8  # a day of them, before a workload that was active is called idle
GIB = 1 << 30


def idle_workloads(evidence: Evidence, settings: Settings) -> Iterator[Recommendation]:
    """Workloads below the team's share of active time for at least the team's time, up to now.

    The saving is what was held idle in the run. Where nothing ran at all and memory is resident the workload
    is warm idle: it looks alive, and only its next request is faster.
    """
    for one in evidence.whole_workloads:
        limits = settings.of(one.team)
        run = last_run(evidence, one.hours, partial(_is_below, limits.active_percent / 100))
        if not run or span_of_run(evidence, run).length_s < limits.idle_hours * 3_600:
            continue
        working = sum(at_work(hour, limits) for hour in run)
        if len(run) < len(one.hours) and working < min(WORKING_HOURS, limits.idle_hours):
            continue  # it was active before, and this may be a weekend: see schedules
        yield _recommendation(evidence, one, run)


def _recommendation(evidence: Evidence, one: WorkloadUse, run: Sequence[Hour]) -> Recommendation:
    span = span_of_run(evidence, run)
    held, used = sum(hour.total_ns for hour in run), sum(hour.used_ns for hour in run)
    memory = max(hour.memory_bytes for hour in run)
    rule = WARM_IDLE if not used and memory else IDLE
    what = f"holds {gpu_hours(held)} GPU-hours in {duration(span.length_s)}"
    if rule == WARM_IDLE:
        finding = f"{what} and runs nothing; {memory / GIB:.1f} GiB of device memory are resident"
    else:
        finding = f"{what} and is active in {100 * used / held:.1f} % of it"
    change = "end its pods, and start them on demand"
    if one.kind in SCALABLE:
        scale = f"kubectl -n {one.namespace} scale {one.kind.lower()}/{one.name} --replicas=0"
        change = f"scale it to zero while nothing asks for it: `{scale}`"
    return Recommendation(
        rule,
        one.subject,
        one.team,
        span,
        finding,
        change,
        "the first request after a pause waits for the model to load; what is only in device memory is lost. "
        "The team's bill falls at once, the fleet's when the freed GPUs are consolidated or given to others",
        saving([_part(evidence, hour, _held_now(evidence, run)) for hour in run], one.pods),
        one.currency,
    )


def _is_below(share: float, hour: Hour) -> bool:
    return hour.used_ns < share * hour.total_ns


def _held_now(evidence: Evidence, run: Sequence[Hour]) -> float:
    """GPU-ns a second that are held still; of two hours, as the last may have just begun."""
    return max(hour.total_ns / evidence.length_s(hour) for hour in run[-2:])


def _part(evidence: Evidence, hour: Hour, held_now: float) -> Part:
    """What was held idle, and is held still: what somebody gave back already saves nothing more."""
    still = min(1.0, held_now * evidence.length_s(hour) / hour.total_ns)
    idle_ns = round((hour.total_ns - hour.used_ns) * still)
    idle_nano = None if hour.idle_nano is None else round(hour.idle_nano * still)
    unsure_ns = max(hour.used_ns - hour.low_ns, hour.high_ns - hour.used_ns, 0)
    return part(evidence, hour, idle_nano, idle_ns, unsure_ns)
