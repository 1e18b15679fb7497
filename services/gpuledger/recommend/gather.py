"""The evidence of a span, read from the hourly ledger: one row a subject, its hours as an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuledger.contract.money import nano_from_decimal
from gpuledger.recommend.evidence import HOUR_S, Evidence, Hour, KeptBy, NodeUse, Stranded, WorkloadUse
from gpuledger.spend import Span
from gpuledger.warehouse import Warehouse

MAX_SUBJECTS = 20_000  # workloads, nodes or GPUs of a report; those with most money come first
_WHEN = "hour >= fromUnixTimestamp({from:UInt32}) AND hour < fromUnixTimestamp({until:UInt32})"
_WHERE = f"""WHERE {_WHEN} AND reason != 'commitment'
    AND ({{cluster:String}} = '' OR cluster = {{cluster:String}})"""
_SUBJECT = "if(workload = '', concat('Pod/', pod), workload)"
_WORKLOAD_KEYS = "cluster, namespace, subject, team, gpu_model, sharing, mig_profile, capacity_type, currency"
_HOUR = "toUnixTimestamp(hour) AS at_s"
# What was not observed is neither used nor idle: it is no evidence of either.
_MEASURES = """sum(used_ns + held_idle_ns) AS hour_total_ns, sum(used_ns) AS hour_used_ns,
        sum(confidence_low_ns) AS hour_low_ns, sum(confidence_high_ns) AS hour_high_ns,
        sum(used + held_idle) AS hour_total, sum(held_idle) AS hour_idle,
        max(memory_peak_bytes) AS hour_memory"""
_HOURS = """groupArray((at_s, hour_total_ns, hour_used_ns, hour_low_ns, hour_high_ns,
    hour_total, hour_idle, hour_memory)) AS hours"""
_LIMIT = "ORDER BY sum(hour_total) DESC NULLS LAST\nLIMIT {most:UInt32}"

_WORKLOADS = f"""
SELECT {_WORKLOAD_KEYS}, {_HOURS}
FROM
(
    SELECT cluster, namespace, {_SUBJECT} AS subject, team, gpu_model, sharing, mig_profile, capacity_type,
        currency, {_HOUR},
        {_MEASURES}
    FROM charges_hourly
    {_WHERE} AND consumer_kind = 'pod' AND ({{team:String}} = '' OR team = {{team:String}})
    GROUP BY {_WORKLOAD_KEYS}, at_s
)
GROUP BY {_WORKLOAD_KEYS}
{_LIMIT}
"""
_LIVES = f"""
SELECT cluster, namespace, subject, count() AS pods, toUInt32(median(life_s)) AS life_s,
    max(devices) AS gpus_a_pod
FROM
(
    SELECT cluster, namespace, {_SUBJECT} AS subject, consumer,
        toUnixTimestamp(max(hour)) - toUnixTimestamp(min(hour)) + {HOUR_S} AS life_s,
        uniqExactIf(device, total_ns > 0) AS devices
    FROM charges_hourly
    {_WHERE} AND consumer_kind = 'pod' AND ({{team:String}} = '' OR team = {{team:String}})
    GROUP BY cluster, namespace, subject, consumer
)
GROUP BY cluster, namespace, subject
"""
_NODES = f"""
SELECT cluster, node, any(type), any(capacity), max(node_currency), {_HOURS},
    groupArrayIf(at_s, kept) AS kept_hours,
    argMax(holder, (has_holder, at_s)) AS last_holder
FROM
(
    SELECT cluster, node, any(instance_type) AS type, any(capacity_type) AS capacity,
        max(currency) AS node_currency, {_HOUR},
        sum(total_ns - unallocated_ns) + sumIf(unallocated_ns, reason IN ('held', 'lent')) AS hour_total_ns,
        0 AS hour_used_ns, 0 AS hour_low_ns, 0 AS hour_high_ns,
        if(uniqExactIf(currency, currency != '') > 1, NULL, sum(total)) AS hour_total,
        sum(unallocated) AS hour_idle, 0 AS hour_memory,
        countIf(reason = 'kept_by_cpu_pods') > 0 AS kept, countIf(consumer_kind != 'pool') > 0 AS has_holder,
        argMax((namespace, workload, pod, team),
            (consumer_kind != 'pool', total_ns, namespace, workload, pod, team)) AS holder
    FROM charges_hourly
    {_WHERE} AND node != '-'
    GROUP BY cluster, node, at_s
)
GROUP BY cluster, node
{_LIMIT}
"""
_STRANDED = f"""
SELECT cluster, node, device, gpu_model, mig_profile, currency, {_HOURS}
FROM
(
    SELECT cluster, node, device, gpu_model, mig_profile, currency, {_HOUR},
        sum(total_ns) AS hour_total_ns, 0 AS hour_used_ns, 0 AS hour_low_ns, 0 AS hour_high_ns,
        sum(total) AS hour_total, sum(total) AS hour_idle, 0 AS hour_memory
    FROM charges_hourly
    {_WHERE} AND reason = 'stranded'
    GROUP BY cluster, node, device, gpu_model, mig_profile, currency, at_s
)
GROUP BY cluster, node, device, gpu_model, mig_profile, currency
{_LIMIT}
"""
_RATES = f"""
SELECT gpu_model, currency,
    toFloat64(sumIf(total, capacity_type = 'spot'))
        / nullIf(sumIf(total_ns - unpriced_ns, capacity_type = 'spot'), 0) AS spot,
    toFloat64(sumIf(total, capacity_type = 'on_demand'))
        / nullIf(sumIf(total_ns - unpriced_ns, capacity_type = 'on_demand'), 0) AS on_demand
FROM charges_hourly
{_WHERE} AND currency != '' AND device != 'node'
GROUP BY gpu_model, currency
HAVING spot > 0 AND on_demand > 0
"""

# The pods of the last window that names any: they come and go, and who is there now has to be moved.
_KEPT_BY = f"""
SELECT cluster, node, argMax((arrayZip(kept_by, kept_by_workload, kept_by_why), kept_by_count), window_start)
FROM charge_windows FINAL
WHERE {_WHEN.replace("hour", "window_start")} AND kept_by_count > 0
    AND ({{cluster:String}} = '' OR cluster = {{cluster:String}})
GROUP BY cluster, node
"""
_OLDEST = """
SELECT toUnixTimestamp(min(window_start)) FROM charge_windows
WHERE window_start >= fromUnixTimestamp({from:UInt32}) AND window_start < fromUnixTimestamp({until:UInt32})
    AND ({cluster:String} = '' OR cluster = {cluster:String})
"""


def gather(warehouse: Warehouse, span: Span, team: str = "", cluster: str = "") -> Evidence:
    """The evidence of a span. With a team: its workloads, and the nodes that it held last. It begins with the
    hour that the span begins in, or with the ledger where that is younger. Raises as Warehouse does."""
    first = span.start_s - span.start_s % HOUR_S
    parameters = {
        "from": first, "until": span.until_s, "team": team, "cluster": cluster, "most": MAX_SUBJECTS
    }  # fmt: skip
    lives = {tuple(row[:3]): tuple(map(int, row[3:])) for row in warehouse.rows(_LIVES, parameters)}
    workloads = [
        _workload(row, *lives.get(tuple(row[:3]), (1, 0, 1)))
        for row in warehouse.rows(_WORKLOADS, parameters)
    ]
    kept_by = {(row[0], row[1]): row[2] for row in warehouse.rows(_KEPT_BY, parameters)}
    nodes = [
        _node(row, *kept_by.get((row[0], row[1]), ((), 0))) for row in warehouse.rows(_NODES, parameters)
    ]
    nodes = [node for node in nodes if team in ("", node.last_team)]
    stranded = [] if team else [_stranded(row) for row in warehouse.rows(_STRANDED, parameters)]
    ratios = {row[0]: float(row[2]) / float(row[3]) for row in warehouse.rows(_RATES, parameters)}
    ((oldest_s,),) = warehouse.rows(_OLDEST, parameters)
    return Evidence(Span(max(first, int(oldest_s)), span.until_s), workloads, nodes, stranded, ratios)


def _workload(row: Sequence[Any], pods: int, life_s: int, gpus_a_pod: int) -> WorkloadUse:
    cluster, namespace, workload, team, model, sharing, profile, capacity_type, currency, hours = row
    return WorkloadUse(
        cluster, namespace, workload, team, model, sharing, profile, capacity_type, currency,
        _hours(hours), pods, life_s, gpus_a_pod,
    )  # fmt: skip


def _stranded(row: Sequence[Any]) -> Stranded:
    cluster, node, device, model, instances, currency, hours = row
    return Stranded(cluster, node, device, model, instances, currency, _hours(hours))


def _node(row: Sequence[Any], kept_by: Sequence[Sequence[str]], kept_by_count: int) -> NodeUse:
    cluster, node, instance_type, capacity_type, currency, hours, kept, holder = row
    namespace, workload, pod, team = holder
    last = "/".join(text for text in (namespace, workload or pod) if text)
    return NodeUse(
        cluster, node, instance_type, capacity_type, currency, _hours(hours), frozenset(map(int, kept)),
        last, team if last else "",
        [KeptBy(pod, workload, tuple(filter(None, why.split(",")))) for pod, workload, why in kept_by],
        int(kept_by_count),
    )  # fmt: skip


def _hours(rows: Sequence[Sequence[Any]]) -> list[Hour]:
    found = []
    for at_s, total_ns, used_ns, low_ns, high_ns, total, idle, memory in rows:
        money = [None if amount is None else nano_from_decimal(amount) for amount in (total, idle)]
        ns = (int(total_ns), int(used_ns), int(low_ns), int(high_ns))
        found.append(Hour(int(at_s), *ns, money[0], money[1], int(memory)))
    return sorted(found, key=lambda hour: hour.start_s)
