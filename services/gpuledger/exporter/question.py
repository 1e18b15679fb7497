"""The one query of a scrape interval, and its rows.

The last hour is read once, and summed at four grains together (GROUPING SETS); each XID error of a device by
itself. The month comes from the sums of its closed hours and, since nothing is stored of it yet, the windows
of the running hour. What was committed to and not used is outside the law of conservation, and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from gpuledger.warehouse import Warehouse

NS_PER_S = 1_000_000_000
HOUR_S = 3_600
RECENT_S = HOUR_S  # rates are means of so long: a spike of minutes is the breaches' business

MONTH = "month"
EVIDENCE = "evidence"
POD = "pod"
NODE = "node"
DEVICE = "device"
SCOPES = (MONTH, EVIDENCE, POD, NODE, DEVICE)

_SUMS = """
    sum(used) AS money_used, sum(held_idle) AS money_held_idle,
    sum(unallocated) AS money_unallocated, sum(unobserved) AS money_unobserved,
    sum(used_ns) AS ns_used, sum(held_idle_ns) AS ns_held_idle,
    sum(unallocated_ns) AS ns_unallocated, sum(unobserved_ns) AS ns_unobserved,
    sum(unpriced_ns) AS ns_unpriced"""
_QUERY = f"""
SELECT
    multiIf(grouping(evidence) = 0, '{EVIDENCE}', grouping(pod) = 0, '{POD}',
        grouping(device) = 0, '{DEVICE}', '{NODE}') AS scope,
    toString(cluster) AS of_cluster, toString(team) AS of_team, toString(node) AS of_node,
    toString(device) AS of_device, toString(namespace) AS of_namespace, toString(pod) AS of_pod,
    toString(currency) AS of_currency, toString(evidence) AS of_evidence,{_SUMS},
    sum(completeness * total_ns) / nullIf(sumIf(total_ns, completeness IS NOT NULL), 0) AS complete,
    max(xid) AS xid_code,
    toUnixTimestamp64Milli(min(window_start)) AS first_ms,
    max(toUnixTimestamp64Milli(window_start) + intDiv(window_length_ns, 1000000)) AS end_ms
FROM charges
WHERE window_start >= fromUnixTimestamp({{from:UInt32}})
    AND window_start < fromUnixTimestamp({{until:UInt32}})
    AND reason != 'commitment'
GROUP BY GROUPING SETS
(
    (cluster, team, currency, evidence),
    (cluster, team, currency, namespace, pod),
    (cluster, node),
    (cluster, node, device, xid)
)
HAVING (scope != '{POD}' OR pod != '') AND (scope != '{DEVICE}' OR xid_code > 0)
    AND (scope != '{NODE}' OR ns_unobserved > 0)
UNION ALL
SELECT
    '{MONTH}', toString(cluster), toString(team), '', '', '', '', toString(currency), '',{_SUMS},
    NULL, 0, toInt64(toUnixTimestamp(min(hour))) * 1000, (toInt64(toUnixTimestamp(max(hour))) + 3600) * 1000
FROM charges_hourly
WHERE hour >= fromUnixTimestamp({{month:UInt32}}) AND hour < fromUnixTimestamp({{hour:UInt32}})
    AND reason != 'commitment'
GROUP BY cluster, team, currency
UNION ALL
SELECT
    '{MONTH}', toString(cluster), toString(team), '', '', '', '', toString(currency), '',{_SUMS},
    NULL, 0, toUnixTimestamp64Milli(min(window_start)),
    max(toUnixTimestamp64Milli(window_start) + intDiv(window_length_ns, 1000000))
FROM charges
WHERE window_start >= fromUnixTimestamp({{hour:UInt32}})
    AND window_start < fromUnixTimestamp({{until:UInt32}})
    AND reason != 'commitment'
GROUP BY cluster, team, currency
"""


class Parts(NamedTuple):
    """What everything is split into: money of one currency (None: nothing has a price), or ns."""

    used: Any
    held_idle: Any
    unallocated: Any
    unobserved: Any


class Row(NamedTuple):
    """Sums of one group; which of the names are set, ``scope`` says. Times are ms since the Unix epoch."""

    scope: str
    cluster: str
    team: str
    node: str
    device: str
    namespace: str
    pod: str
    currency: str
    evidence: str
    money: Parts
    ns: Parts
    unpriced_ns: int
    completeness: float | None
    xid: int
    first_ms: int
    end_ms: int

    @property
    def total_ns(self) -> int:
        """GPU time of all parts."""
        return int(sum(self.ns))


def ask(warehouse: Warehouse, now_ns: int) -> list[Row]:
    """The last hour and the UTC month as they stand. Raises WarehouseUnavailable, WarehouseError."""
    now_s = now_ns // NS_PER_S
    month = datetime.fromtimestamp(now_s, UTC).replace(day=1, hour=0, minute=0, second=0)
    span = {
        "from": now_s - RECENT_S,
        "hour": now_s - now_s % HOUR_S,
        "until": now_s,
        "month": int(month.timestamp()),
    }
    found = warehouse.rows(_QUERY, span)
    return [_row(values) for values in found]


def added(first: Decimal | int | None, second: Decimal | int | None) -> Decimal | int | None:
    """The sum; what has no price adds nothing, and two of these are still without one."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _row(values: Sequence[Any]) -> Row:
    unpriced_ns, completeness, xid, first_ms, end_ms = values[17:]
    names: tuple[str, str, str, str, str, str, str, str, str] = tuple(values[:9])
    money, ns = Parts(*values[9:13]), Parts(*values[13:17])
    return Row(*names, money, ns, unpriced_ns, completeness, xid, first_ms, end_ms)
