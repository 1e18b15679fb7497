"""The last unbroken run of hours of which something is true, up to the end of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuledger.recommend.evidence import HOUR_S, Evidence, Hour
from gpuledger.recommend.saving import Part
from gpuledger.spend import Span

STILL_THERE_S = HOUR_S  # the first windows of an hour may be on their way; who was not there before is gone


def last_run(evidence: Evidence, hours: Sequence[Hour], true: Callable[[Hour], bool]) -> list[Hour]:
    """The hours in order; none where the last of them is not true, or the subject is gone."""
    run: list[Hour] = []
    for hour in reversed(hours):
        if not true(hour) or (run and run[-1].start_s - hour.start_s != HOUR_S):
            break
        run.append(hour)
    if not run or run[0].start_s + HOUR_S < evidence.span.until_s - STILL_THERE_S:
        return []
    return run[::-1]


def span_of_run(evidence: Evidence, run: Sequence[Hour]) -> Span:
    """From its first hour to the end of its last, within the evidence."""
    first, last = run[0], run[-1]
    start_s = max(first.start_s, evidence.span.start_s)
    return Span(start_s, min(last.start_s + HOUR_S, evidence.span.until_s))


def part(evidence: Evidence, hour: Hour, nano: int | None, gpu_ns: int, unsure_ns: int = 0) -> Part:
    """What a change would have saved in an hour; ``unsure_ns`` is GPU time by which that is unsure."""
    unsure = 0
    if hour.total_nano is not None and hour.total_ns:
        unsure = hour.total_nano * unsure_ns // hour.total_ns
    return Part(hour.start_s, evidence.length_s(hour), nano, gpu_ns, unsure)
