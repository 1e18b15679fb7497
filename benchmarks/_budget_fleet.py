"""The fleet of the budgets' benchmark: its charge sets, and budgets that are used up exactly with one."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuledger.contract.charge_columns import (
    DOUBLE_COLUMNS,
    EFFECTIVE_COLUMNS,
    KNOWN_COLUMNS,
    LONG_COLUMNS,
    NANO_COLUMNS,
    TEXT_COLUMNS,
)
from gpuledger.contract.columns import longs
from gpuledger.contract.records import Budget, BudgetRule, ChargeSet
from gpuledger.contract.windows import DAY_NS, HOUR_NS, NS_PER_S

NODES = 1_250
GPUS = 8
ROWS = 3 * GPUS + 1  # a GPU's pod, its idle time and the pool's, and the node
BUDGETS = 1_000
NAMESPACES, TEAMS, WORKLOADS = 400, 300, 300
WINDOW_NS = 10 * NS_PER_S
WINDOWS = 6
NANO_OF_ROW = 1_000_000
SCOPES = (("namespace", NAMESPACES), ("team", TEAMS), ("workload", WORKLOADS))


def charge_set(node: int, window_start_ns: int) -> ChargeSet:
    """A set of plausible size; its pods' namespaces, teams and workloads are spread over all."""
    fixed = ["", "pod", "none", "H100", "USD", "busy_estimated", "pay", "exclusive", "p5.48xlarge", "eu-1"]
    row = np.arange(ROWS)
    pod = node * GPUS + row // 3
    texts: list[str] = list(fixed)
    columns: dict[str, Any] = {name: np.zeros(ROWS, np.int64) for name in TEXT_COLUMNS}
    for name, count in (("device", 0), ("pod", 0), *SCOPES):
        numbers = pod % count if count else pod
        names = [f"{name}-{number}" for number in numbers.tolist()]
        columns[name] = np.arange(len(texts), len(texts) + ROWS)
        texts += names
    columns["consumer"] = columns["pod"]
    for name, index in {
        "consumer_kind": 1,
        "reason": 2,
        "gpu_model": 3,
        "currency": 4,
        "evidence": 5,
    }.items():
        columns[name] = np.full(ROWS, index, np.int64)
    for name in LONG_COLUMNS:
        columns[name] = np.full(ROWS, WINDOW_NS // 3, np.int64)
    for name in DOUBLE_COLUMNS:
        columns[name] = np.full(ROWS, 0.5)
    for name in (*NANO_COLUMNS, *EFFECTIVE_COLUMNS):
        columns[name] = np.zeros(ROWS, np.int64)
    columns["used_nano"] = np.full(ROWS, NANO_OF_ROW, np.int64)
    columns |= dict.fromkeys(KNOWN_COLUMNS, np.ones(ROWS, np.int64))
    return ChargeSet(
        "prod",
        f"node-{node}",
        window_start_ns,
        WINDOW_NS,
        generation=0,
        inputs=3,
        digest=7,
        core_version=1,
        state="complete",
        booking_period="2026-01",
        texts=texts,
        **columns,
    )


def rows_of_scope() -> dict[tuple[str, str], int]:
    """How many rows of one window of the fleet each scope has."""
    found: dict[tuple[str, str], int] = {}
    for pod in (node * GPUS + row // 3 for node in range(NODES) for row in range(ROWS)):
        for name, count in SCOPES:
            key = (name, f"{name}-{pod % count}")
            found[key] = found.get(key, 0) + 1
    return found


def budgets(from_ns: int) -> list[Budget]:
    """Budgets that are used up with the last set of the first, second, .. window."""
    scopes = list(rows_of_scope().items())[:BUDGETS]
    never = {"pending_ns": "0", "fast": f"{10**15} {HOUR_NS} {HOUR_NS // 12}"}  # asked each time all the same
    return [
        Budget(
            id=f"budget-{number}",
            period="fixed",
            scope={name: value},
            fixed_from_ns=from_ns - DAY_NS,
            fixed_to_ns=from_ns + 29 * DAY_NS,
            amount_nano=rows * NANO_OF_ROW * crossed_in(number),
            currency="USD",
            thresholds_ppm=longs([1_000_000]),
            counts=["used", "held_idle"],
            rules=[BudgetRule("burn_rate", never)],
        )
        for number, ((name, value), rows) in enumerate(scopes)
    ]


def crossed_in(number: int) -> int:
    """With how many windows a budget is used up."""
    return 1 + number % WINDOWS
