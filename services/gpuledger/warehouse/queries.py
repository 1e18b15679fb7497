"""The questions that people ask of the ledger, by name. Each reads a view, never a base table.

``charges`` (windows, 35 days) answers to the second, ``charges_hourly`` for months. Money is in the column
``currency``; sums of several currencies are never made. NULL money means that nothing of it has a price;
``unpriced_gpu_hours`` is the part of the GPU time that the money leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gpuledger.contract.rows import EVIDENCE_ORDER

_SUMS = """\
    round(sum(used_ns) / 3600e9, 4) AS used_gpu_hours,
    round(sum(total_ns) / 3600e9, 4) AS total_gpu_hours,
    round(sum(unpriced_ns) / 3600e9, 4) AS unpriced_gpu_hours,
    sum(used) AS used,
    sum(held_idle) AS held_idle,
    sum(unallocated) AS unallocated,
    sum(unobserved) AS unobserved,
    sum(total) AS total,
    currency"""
# Rows that used something come before all that did not; among them the weakest evidence speaks.
_WEAKNESS = f"(used_ns > 0, indexOf({list(EVIDENCE_ORDER)}, evidence))"
# The silicon's value is the device's: a pod that shares it must not take it for its own.
_USAGE = f"""\
    sum(launches) AS launches,
    sum(bytes_h2d) + sum(bytes_d2h) + sum(bytes_d2d) AS bytes_copied,
    max(memory_peak_bytes) AS memory_peak_bytes,
    sum(effectively_used) AS effectively_used,
    round(sum(sm_active * total_ns) / nullIf(sumIf(total_ns, sm_active IS NOT NULL), 0), 4)
        AS device_sm_active,
    argMax(evidence, {_WEAKNESS}) AS evidence,
    round(sum(confidence_low_ns) / 3600e9, 4) AS used_gpu_hours_low,
    round(sum(confidence_high_ns) / 3600e9, 4) AS used_gpu_hours_high,
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
    "by_pod", "The same by pod, with what it did and how well.", "team, cluster, namespace, pod", usage=True
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
