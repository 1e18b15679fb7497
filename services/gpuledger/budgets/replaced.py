"""The rows that a restatement replaces, from the warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from gpuledger.budgets.lines import CATEGORIES, Payer, Replaced, Window, joined
from gpuledger.warehouse import Warehouse

WINDOWS_A_QUESTION = 500
NS_PER_MS = 1_000_000
_PAYER = "team, cost_centre, namespace, workload, gpu_model, pod, currency"
_AMOUNTS = ", ".join(
    [f"sum({name}_ns)" for name in CATEGORIES] + [f"sum(ifNull({name}, 0))" for name in CATEGORIES]
)
# Every revision that came in is in charge_rows, also after it was replaced.
_REVISIONS = """
SELECT cluster, node, toUnixTimestamp64Milli(window_start), max(revision)
FROM charge_rows FINAL
WHERE (cluster, node, toUnixTimestamp64Milli(window_start)) IN {windows:Array(Tuple(String, String, Int64))}
  AND received_at < fromUnixTimestamp64Milli({before_ms:Int64})
GROUP BY cluster, node, window_start
"""
_ROWS = f"""
SELECT cluster, node, toUnixTimestamp64Milli(window_start), revision, {_PAYER}, {_AMOUNTS}
FROM charge_rows FINAL
WHERE (cluster, node, toUnixTimestamp64Milli(window_start), revision)
  IN {{windows:Array(Tuple(String, String, Int64, UInt64))}}
GROUP BY cluster, node, window_start, revision, {_PAYER}
"""
_PRICES = """
SELECT cluster, node, toUnixTimestamp64Milli(window_start), any(price_version)
FROM charge_windows FINAL
WHERE (cluster, node, toUnixTimestamp64Milli(window_start)) IN {windows:Array(Tuple(String, String, Int64))}
GROUP BY cluster, node, window_start
"""


def replaced(
    warehouse: Warehouse, asked: Mapping[Window, int | None], before_ms: int
) -> dict[Window, Replaced]:
    """What is counted of each window: by its revision, or where that is None of the greatest revision that
    was appended before ``before_ms``. Windows without rows are left out. Raises WarehouseUnavailable."""
    found: dict[Window, Replaced] = {}
    windows = list(asked)
    for low in range(0, len(windows), WINDOWS_A_QUESTION):
        some = windows[low : low + WINDOWS_A_QUESTION]
        revisions = {window: revision for window in some if (revision := asked[window]) is not None}
        unknown = [_key(window) for window in some if asked[window] is None]
        if unknown:
            parameters = {"windows": unknown, "before_ms": before_ms}
            for cluster, node, start_ms, revision in warehouse.rows(_REVISIONS, parameters):
                revisions[Window(cluster, node, int(start_ms) * NS_PER_MS)] = int(revision)
        found.update(_rows(warehouse, revisions))
    return found


def _rows(warehouse: Warehouse, revisions: Mapping[Window, int]) -> dict[Window, Replaced]:
    if not revisions:
        return {}
    keys = [(*_key(window), revision) for window, revision in revisions.items()]
    lines: dict[Window, list[tuple[Payer, Sequence[int]]]] = {}
    for cluster, node, start_ms, _, *rest in warehouse.rows(_ROWS, {"windows": keys}):
        payer = Payer(*map(str, rest[:7]))
        amounts = [*map(int, rest[7:11]), *map(_nano, rest[11:])]
        lines.setdefault(Window(cluster, node, int(start_ms) * NS_PER_MS), []).append((payer, amounts))
    prices = {
        Window(cluster, node, int(start_ms) * NS_PER_MS): int(version)
        for cluster, node, start_ms, version in warehouse.rows(
            _PRICES, {"windows": [_key(window) for window in revisions]}
        )
    }
    return {
        window: Replaced(revisions[window], prices.get(window, 0), joined(rows))
        for window, rows in lines.items()
    }


def _key(window: Window) -> tuple[str, str, int]:
    return window.cluster, window.node, window.start_ns // NS_PER_MS


def _nano(amount: Any) -> int:
    return int(Decimal(amount).scaleb(9))
