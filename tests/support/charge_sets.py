"""Charge sets, and what the ledger must show of them: a dict of the greatest revisions is the reference."""

from __future__ import annotations

import time
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from gpuledger.contract.charge_columns import DOUBLE_COLUMNS, LONG_COLUMNS, NANO_COLUMNS, TEXT_COLUMNS
from gpuledger.contract.records import ChargeSet
from gpuledger.sink.tables import Arrival

WINDOW_NS = 10_000_000_000
HOUR_NS = 3_600_000_000_000


def recent_window_ns(hours_ago: int = 3) -> int:
    """Start of an hour that is over, as the tables keep rows for 35 days only."""
    return (time.time_ns() // HOUR_NS - hours_ago) * HOUR_NS


def charge_set(
    window_start_ns: int,
    rows: int = 3,
    *,
    cluster: str = "c1",
    node: str = "n1",
    inputs: int = 5,
    generation: int = 0,
    pods: Sequence[str] | None = None,
    priced: bool = True,
    nano: int | None = None,
) -> ChargeSet:
    """A set whose content follows from its arguments, as a revision's does."""
    names = list(pods) if pods is not None else [f"pod-{number}" for number in range(rows)]
    rows = len(names)
    texts = ["", "pod", "none", "GPU-0", "USD", "busy_estimated", "H100", "team-a", "team-b", *names]
    rng = np.random.default_rng([window_start_ns // WINDOW_NS % 2**32, inputs, generation, rows])
    columns: dict[str, Any] = {name: np.zeros(rows, np.int64) for name in TEXT_COLUMNS}
    pod = np.arange(9, 9 + rows)
    columns |= {"consumer": pod, "pod": pod, "team": 7 + np.arange(rows) % 2}
    fixed = {"consumer_kind": 1, "reason": 2, "device": 3, "evidence": 5, "gpu_model": 6}
    for name, index in (fixed | {"currency": 4 if priced else 0}).items():
        columns[name] = np.full(rows, index, np.int64)
    for name in LONG_COLUMNS:
        columns[name] = rng.integers(0, 10**9, rows)
    for name in DOUBLE_COLUMNS:
        columns[name] = rng.random(rows)
    for name in NANO_COLUMNS:
        columns[name] = rng.integers(0, 10**9, rows) if nano is None else np.full(rows, nano)
    columns["effectively_used_ns"] = rng.integers(0, 10**9, rows)
    columns["effectively_used_nano"] = rng.integers(0, 10**9, rows)
    columns["priced"] = np.full(rows, int(priced), np.int64)
    columns["effective_known"] = np.arange(rows) % 2
    return ChargeSet(
        cluster=cluster,
        node=node,
        window_start_ns=window_start_ns,
        window_length_ns=WINDOW_NS,
        generation=generation,
        inputs=inputs,
        digest=7,
        core_version=1,
        state="complete",
        price_version=1,
        booking_period="2026-01",
        partition=0,
        texts=texts,
        offset_starts=np.array([3], np.int64),
        offset_counts=np.array([inputs], np.int64),
        **columns,
    )


def arrival(charges: ChargeSet, offset: int = 0, partition: int = 0) -> Arrival:
    """The set as if it had been read there."""
    return Arrival(charges, "gpu.charges", partition, offset, charges.window_start_ns // 1_000_000 + 12_345)


def ledger_of(sets: Sequence[ChargeSet]) -> dict[tuple[str, int], tuple[int, int, Decimal | None]]:
    """For each (node, window start in ns): rows, used ns and used money of the greatest revision."""
    best: dict[tuple[str, int], tuple[int, ChargeSet]] = {}
    for charges in sets:
        key, rank = (charges.node, charges.window_start_ns), arrival(charges).revision
        if key not in best or best[key][0] <= rank:
            best[key] = (rank, charges)
    return {
        key: (len(c.device), int(c.used_ns.sum()), Decimal(int(c.used_nano.sum())).scaleb(-9))
        for key, (_, c) in best.items()
        if len(c.device)
    }
