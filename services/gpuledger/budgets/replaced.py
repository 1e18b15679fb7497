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
_START = "toUnixTimestamp64Milli(window_start)"
# Every revision that came in is in charge_revisions, also after it was replaced, with the time at which it
# came first. Rows say the same of what came before that table was there, but with the last time.
_REVISIONS = f"""
SELECT cluster, node, start_ms, max(revision)
FROM
(
    SELECT cluster, node, {_START} AS start_ms, revision, first_received_at AS at
    FROM charge_revisions
    WHERE (cluster, node, {_START}) IN {{windows:Array(Tuple(String, String, Int64))}}
    UNION ALL
    SELECT cluster, node, {_START} AS start_ms, revision, received_at AS at
    FROM charge_rows
    WHERE (cluster, node, {_START}) IN {{windows:Array(Tuple(String, String, Int64))}}
)
WHERE at < fromUnixTimestamp64Milli({{before_ms:Int64}})
GROUP BY cluster, node, start_ms
"""
_ROWS = f"""
SELECT cluster, node, {_START}, revision, {_PAYER}, {_AMOUNTS}
FROM charge_rows FINAL
WHERE (cluster, node, {_START}, revision)
  IN {{windows:Array(Tuple(String, String, Int64, UInt64))}}
GROUP BY cluster, node, window_start, revision, {_PAYER}
"""
# Of what came before charge_revisions was there, the version of the head is the nearest that is known.
_PRICES = f"""
SELECT cluster, node, start_ms, argMin(price_version, place)
FROM
(
    SELECT cluster, node, {_START} AS start_ms, revision, price_version, 0 AS place
    FROM charge_revisions
    WHERE (cluster, node, {_START}, revision)
      IN {{windows:Array(Tuple(String, String, Int64, UInt64))}}
    UNION ALL
    SELECT cluster, node, {_START} AS start_ms, revision, price_version, 1 AS place
    FROM charge_windows FINAL
    WHERE (cluster, node, {_START})
      IN arrayMap(w -> (w.1, w.2, w.3), {{windows:Array(Tuple(String, String, Int64, UInt64))}})
)
GROUP BY cluster, node, start_ms
"""


def replaced(
    warehouse: Warehouse, asked: Mapping[Window, int | None], before_ms: int
) -> dict[Window, Replaced]:
    """What is counted of each window: by its revision, or where that is None of the greatest revision that
    first came before ``before_ms``. Windows that did not are left out. Raises WarehouseUnavailable."""
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
        amounts = [*map(int, rest[7:11]), *map(nano_of, rest[11:])]
        lines.setdefault(Window(cluster, node, int(start_ms) * NS_PER_MS), []).append((payer, amounts))
    prices = {
        Window(cluster, node, int(start_ms) * NS_PER_MS): int(version)
        for cluster, node, start_ms, version in warehouse.rows(_PRICES, {"windows": keys})
    }
    return {
        window: Replaced(revision, prices.get(window, 0), joined(lines.get(window, ())))
        for window, revision in revisions.items()
    }


def _key(window: Window) -> tuple[str, str, int]:
    return window.cluster, window.node, window.start_ns // NS_PER_MS


def nano_of(amount: Any) -> int:
    """Money of the warehouse in 1e-9 of its currency."""
    return int(Decimal(amount).scaleb(9))
