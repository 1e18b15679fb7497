"""MIG slices that no instance can take, as the instances that are there leave no room for one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuledger.recommend.advice import Recommendation
from gpuledger.recommend.evidence import HOUR_S, Evidence
from gpuledger.recommend.manifests import mig_layout
from gpuledger.recommend.mig import full_layout
from gpuledger.recommend.rules.runs import STILL_THERE_S, part
from gpuledger.recommend.saving import saving
from gpuledger.recommend.settings import Settings

STRANDED = "stranded_slices"
_SLICES = re.compile(r"(?:^|[ ,])(?:\d+c\.)?(\d+)g\.")


def stranded_slices(evidence: Evidence, settings: Settings) -> Iterator[Recommendation]:
    """GPUs with stranded slices still. The saving is their money: with another layout they can be held."""
    del settings  # a stranded slice is of use to nobody, whatever the limits
    for one in evidence.stranded:
        if one.hours[-1].start_s + HOUR_S < evidence.span.until_s - STILL_THERE_S:
            continue
        layout = full_layout(one.gpu_model, [int(size) for size in _SLICES.findall(one.instances)])
        lost = sum(hour.total_ns for hour in one.hours) / sum(evidence.length_s(h) * 10**9 for h in one.hours)
        told = ", ".join(f"{count} x {name}" for name, count in (layout or {}).items())
        yield Recommendation(
            STRANDED,
            one.subject,
            "",
            evidence.span,
            f"{100 * lost:.0f} % of the GPU is stranded by its instances {one.instances or '(not named)'}",
            f"cut it into {told}" if layout else "cut it so that no slice is left over",
            "the node's MIG layout changes only while nothing runs on the GPU: drain it first. "
            "The slices cost less only when somebody holds them",
            saving([part(evidence, hour, hour.total_nano, hour.total_ns) for hour in one.hours]),
            one.currency,
            mig_layout("no-stranded-slices", layout) if layout else {},
        )
