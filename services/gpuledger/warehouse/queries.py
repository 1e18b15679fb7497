"""The questions that people ask of the ledger, by name. Each reads a view, never a base table.

``charges`` (windows, 35 days) answers to the second, ``charges_hourly`` for months. Money is in the column
``currency``; sums of several currencies are never made. NULL money means that nothing of it has a price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

_SUMS = """\
    round(sum(used_ns) / 3600e9, 4) AS used_gpu_hours,
    round(sum(total_ns) / 3600e9, 4) AS total_gpu_hours,
    sum(used) AS used,
    sum(held_idle) AS held_idle,
    sum(unallocated) AS unallocated,
    sum(unobserved) AS unobserved,
    sum(total) AS total,
    currency"""
_USAGE = """\
    sum(launches) AS launches,
    sum(bytes_h2d) + sum(bytes_d2h) + sum(bytes_d2d) AS bytes_copied,
    max(memory_peak_bytes) AS memory_peak_bytes,
    round(avgIf(sm_active, sm_active IS NOT NULL), 4) AS sm_active,
    anyLast(evidence) AS evidence,
    sum(confidence_low_ns) / 1e9 AS used_low_s,
    sum(confidence_high_ns) / 1e9 AS used_high_s,
    min(completeness) AS completeness"""


class Grain(Enum):
    """Which view answers, and the name of its time column."""

    WINDOW = ("charges", "window_start")
    HOUR = ("charges_hourly", "hour")


@dataclass(frozen=True)
class NamedQuery:
    """A query with the parameters ``from`` and ``until`` (s since the Unix epoch, ``until`` exclusive)."""

    name: str
    about: str
    columns: str
    usage: bool

    def sql(self, grain: Grain = Grain.WINDOW) -> str:
        """The statement for one grain, with ClickHouse's own parameters in it."""
        view, time = grain.value
        usage = f",\n{_USAGE}" if self.usage else ""
        return (
            f"SELECT {self.columns},\n{_SUMS}{usage}\nFROM {view}\n"
            f"WHERE {time} >= fromUnixTimestamp({{from:UInt32}})\n"
            f"  AND {time} < fromUnixTimestamp({{until:UInt32}})\n"
            f"GROUP BY {self.columns}, currency\nORDER BY total DESC NULLS LAST, {self.columns}"
        )


BY_TEAM = NamedQuery("by_team", "Who spends: used, idle, total of each team.", "team", usage=False)
BY_POD = NamedQuery(
    "by_pod", "The same by pod, with what it did and how well.", "team, namespace, pod", usage=True
)
BY_DEVICE = NamedQuery(
    "by_device",
    "Where it goes: each device with what nobody used.",
    "cluster, node, device, gpu_model",
    usage=True,
)
BY_REASON = NamedQuery("by_reason", "Why GPU time was not used.", "reason", usage=False)

NAMED: Mapping[str, NamedQuery] = {q.name: q for q in (BY_TEAM, BY_POD, BY_DEVICE, BY_REASON)}


def period(start_s: int, end_s: int) -> dict[str, Any]:
    """The parameters of a named query."""
    return {"from": start_s, "until": end_s}
