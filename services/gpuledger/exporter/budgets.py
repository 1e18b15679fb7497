"""Budgets as their last breach told of them: what is spent and left of the period that runs, what fires.

Between two changes of breaches a budget says nothing new, and one that never came near a line says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from prometheus_client.core import GaugeMetricFamily

from gpuledger.exporter.groups import OTHER
from gpuledger.warehouse import Warehouse

NS_PER_HOUR = 3_600_000_000_000
GPU_HOURS = "gpu_hours"
FIRING = "firing"
_EXISTS = "EXISTS TABLE breaches"
THRESHOLD = "threshold"  # its breaches tell the whole that is spent; those of other rules tell parts of it
# The last change of each breach, then those of a period that runs; of rolling budgets it ends at the latest
# window.
_QUERY = """
SELECT budget_id, rule, state, at, currency, spent, amount, spent_gpu_ns, amount_gpu_ns
FROM (SELECT * FROM breaches ORDER BY change DESC LIMIT 1 BY id)
WHERE period_end > fromUnixTimestamp({now:UInt32}) OR state = 'firing'
"""


class Breached(NamedTuple):
    """The last change of a breach; ``unit`` is a currency or GPU_HOURS, amounts are in it."""

    budget: str
    rule: str
    state: str
    at: datetime
    unit: str
    spent: Decimal
    amount: Decimal


def ask_budgets(warehouse: Warehouse, now_s: int) -> list[Breached]:
    """The breaches of periods that run; none where the warehouse has no such table yet. Raises as ``ask``."""
    if not warehouse.rows(_EXISTS)[0][0]:
        return []
    found = (_breached(row) for row in warehouse.rows(_QUERY, {"now": now_s}))
    return [one for one in found if one is not None]


def budget_families(breached: Sequence[Breached], limit: int) -> Iterator[GaugeMetricFamily]:
    """Spent, amount, what is left and what fires; the ``limit`` budgets with the least left by name."""
    last: dict[str, Breached] = {}
    for one in sorted(breached, key=lambda b: (b.at, b.spent)):
        if one.rule == THRESHOLD:
            last[one.budget] = one
    tightest = sorted(last, key=lambda budget: (_left(last[budget]), budget))
    others = sorted({one.budget for one in breached} - last.keys())
    named = set([*tightest, *others][:limit])
    sums: dict[tuple[str, str], tuple[Decimal, Decimal]] = {}
    for budget, one in last.items():
        key = (budget if budget in named else OTHER, one.unit)
        spent, amount = sums.get(key, (Decimal(0), Decimal(0)))
        sums[key] = (spent + one.spent, amount + one.amount)
    firing: dict[tuple[str, str], int] = {}
    for one in breached:
        key = (one.budget if one.budget in named else OTHER, one.rule)
        firing[key] = firing.get(key, 0) + (one.state == FIRING)
    yield _family(
        "budget_spent",
        "Spent of the budget when it was last told of, in `unit`",
        "unit",
        {key: float(spent) for key, (spent, _) in sums.items()},
    )
    yield _family(
        "budget_amount",
        "The budget, in `unit`",
        "unit",
        {key: float(amount) for key, (_, amount) in sums.items()},
    )
    yield _family(
        "budget_remaining",
        "What was left then, in `unit`; below 0 where it is overspent",
        "unit",
        {key: float(amount - spent) for key, (spent, amount) in sums.items()},
    )
    yield _family("breaches_firing", "Breaches of the budget that fire", "rule", firing)


def _breached(row: Sequence[Any]) -> Breached | None:
    budget, rule, state, at, currency, spent, amount, spent_gpu_ns, amount_gpu_ns = row
    if amount is not None and spent is not None:
        return Breached(budget, rule, state, at, currency, spent, amount)
    if amount_gpu_ns is not None and spent_gpu_ns is not None:
        hours = [Decimal(ns) / NS_PER_HOUR for ns in (spent_gpu_ns, amount_gpu_ns)]
        return Breached(budget, rule, state, at, GPU_HOURS, hours[0], hours[1])
    return None


def _left(one: Breached) -> Decimal:
    return 1 - one.spent / one.amount if one.amount else Decimal(0)


def _family(name: str, text: str, label: str, samples: Mapping[tuple[str, str], float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"gpuledger_{name}", text, labels=("budget", label))
    for key, value in samples.items():
        family.add_metric(key, value)
    return family
