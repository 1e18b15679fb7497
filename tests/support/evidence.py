"""Evidence for the rules of recommendations, built by hand: a GPU at 12.29 USD an hour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuledger.recommend import Evidence, Hour, WorkloadUse
from gpuledger.spend import Span

NANO = 1_000_000_000
HOUR_S = 3_600
MONDAY_S = 1_796_083_200 - 24 * HOUR_S  # 2026-11-30T00:00:00Z
PRICE_NANO = 12_290_000_000
GIB = 1 << 30


def hours(
    count: int,
    used: float | Callable[[int], float] = 0.0,
    gpus: float = 1.0,
    memory_gib: float = 8.0,
    priced: bool = True,
    first: int = 0,
) -> list[Hour]:
    """Hours from Monday on; ``used`` is the share of active time, of each hour by its number."""
    found = []
    for number in range(first, first + count):
        share = used(number) if callable(used) else used
        total, money = round(gpus * HOUR_S * NANO), round(gpus * PRICE_NANO)
        busy = round(share * total)
        found.append(
            Hour(
                MONDAY_S + number * HOUR_S,
                total,
                busy,
                busy,
                busy,
                money if priced else None,
                money - round(share * money) if priced else None,
                round(memory_gib * GIB),
            )
        )
    return found


def workload(found: list[Hour], **more: Any) -> WorkloadUse:
    """A deployment on whole H100s unless told otherwise."""
    given = {
        "cluster": "prod", "namespace": "serving", "workload": "Deployment/ranker", "team": "search",
        "gpu_model": "NVIDIA H100 80GB HBM3", "sharing": "exclusive", "mig_profile": "",
        "capacity_type": "on_demand", "currency": "USD",
    }  # fmt: skip
    return WorkloadUse(**(given | more), hours=found)


def evidence(count: int, **more: Any) -> Evidence:
    """Evidence of so many hours from Monday on."""
    return Evidence(Span(MONDAY_S, MONDAY_S + count * HOUR_S), **more)
