"""What configuration asks of the warehouse: one pod, and what past hours were charged as what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

from gpuledger.configuration.effect import LedgerHour
from gpuledger.contract.errors import Refused
from gpuledger.contract.identity import NO_NODE
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS, NS_PER_S
from gpuledger.pricing.changes import Range
from gpuledger.pricing.commitments import Held, Minute
from gpuledger.warehouse import Warehouse, connect

LATEST_S = (1 << 32) - 1  # a DateTime of ClickHouse ends in February 2106

_POD = """
SELECT cluster, consumer_kind, consumer, namespace, pod, workload, team, toString(window_start)
FROM charges
WHERE window_start <= fromUnixTimestamp({at:UInt32})
  AND (consumer = {pod:String} OR pod = {name:String})
  AND (consumer = {pod:String} OR {namespace:String} = '' OR namespace = {namespace:String})
  AND ({cluster:String} = '' OR cluster = {cluster:String})
ORDER BY window_start DESC
LIMIT 1 BY cluster, namespace, consumer
LIMIT 20
"""

_IN_RANGE = """
WHERE {time} >= fromUnixTimestamp({{from:UInt32}}) AND {time} < fromUnixTimestamp({{until:UInt32}})
  AND (empty({{clusters:Array(String)}}) OR cluster IN {{clusters:Array(String)}})
"""
# A commitment that was not used is no device's.
_HOURS = (
    """
SELECT toUnixTimestamp(hour), cluster, region, zone, instance_type, capacity_type, gpu_model, mig_profile,
       if(device = 'node', 'node', 'gpu') AS kind, consumer_kind, namespace, workload, team, price_ids,
       currency, sum(h.total), sum(h.total_ns), sum(h.unpriced_ns), sum(h.windows_ns)
FROM charges_hourly AS h
"""
    + _IN_RANGE.format(time="hour")
    + """
  AND reason != 'commitment'
GROUP BY hour, cluster, region, zone, instance_type, capacity_type, gpu_model, mig_profile, kind,
         consumer_kind, namespace, workload, team, price_ids, currency
ORDER BY hour DESC
LIMIT {limit:UInt32}
"""
)
_GPUS = (
    """
SELECT cluster, instance_type, max(gpus) FROM
(
    SELECT cluster, instance_type, node, uniqExact(if(parent_uuid = '', device, parent_uuid)) AS gpus
    FROM charges_hourly
"""
    + _IN_RANGE.format(time="hour")
    + """
      AND device NOT IN ('node', '-')
    GROUP BY cluster, instance_type, node
)
GROUP BY cluster, instance_type
"""
)
_WINDOWS = "SELECT uniqExact(cluster, node, window_start) FROM charges" + _IN_RANGE.format(
    time="window_start"
)
_USED = """
SELECT toUnixTimestamp(toStartOfMinute(window_start)) AS minute, price_ids, sum(c.total)
FROM charges AS c
WHERE window_start >= fromUnixTimestamp({from:UInt32}) AND window_start < fromUnixTimestamp({until:UInt32})
  AND price_ids IN {ids:Array(String)} AND reason != 'commitment'
GROUP BY minute, price_ids
"""
# The heads say what `charges` does not: how many inputs, and which version of the prices.
_CHARGED = """
SELECT toUnixTimestamp(toStartOfMinute(window_start)) AS minute, max(generation), sum(w.inputs),
       argMax(price_version, revision)
FROM charge_windows AS w FINAL
WHERE window_start >= fromUnixTimestamp({from:UInt32}) AND window_start < fromUnixTimestamp({until:UInt32})
  AND node != '-' AND rows > 0
GROUP BY minute
"""
# The heads also of sets without rows; a row whose head is not there yet is no part of the ledger either.
_HELD = """
SELECT toUnixTimestamp(window_start), revision FROM charge_windows FINAL
WHERE window_start >= fromUnixTimestamp({from:UInt32}) AND window_start < fromUnixTimestamp({until:UInt32})
  AND node = {nobody:String}
"""
_UNUSED = """
SELECT toUnixTimestamp(window_start), revision, consumer, currency, c.unallocated FROM charges AS c
WHERE window_start >= fromUnixTimestamp({from:UInt32}) AND window_start < fromUnixTimestamp({until:UInt32})
  AND node = {nobody:String}
"""
MAX_HOUR_ROWS = 200_000  # a Python value each; a fleet of many teams has some thousand an hour


class LedgerPod(NamedTuple):
    """A consumer as its newest row has it."""

    cluster: str
    consumer_kind: str
    consumer: str
    namespace: str
    pod: str
    workload: str
    team: str
    window_start: str


@contextmanager
def opened(url: str) -> Iterator[Warehouse]:
    """A connection to the warehouse, closed in the end."""
    warehouse = connect(url)
    try:
        yield warehouse
    finally:
        warehouse.close()


def pod_in_ledger(url: str, pod: str, cluster: str, at_ns: int) -> LedgerPod:
    """The pod of a uid, a name or namespace/name. Raises Refused where there is none, or more than one place
    has one of that name."""
    namespace, _, name = pod.rpartition("/")
    parameters = {
        "at": min(at_ns // NS_PER_S, LATEST_S),
        "pod": pod,
        "name": name,
        "namespace": namespace,
        "cluster": cluster,
    }
    with opened(url) as warehouse:
        found = [LedgerPod(*row) for row in warehouse.rows(_POD, parameters)]
    if not found:
        raise Refused(f"the ledger has no row of {pod} up to then; its windows are kept for 35 days")
    places = sorted({f"{one.cluster}: {one.namespace}/{one.pod}" for one in found})
    if len(places) > 1:
        raise Refused(f"{pod} is more than one pod; say --cluster and namespace/name: {', '.join(places)}")
    return found[0]


def hours_of(warehouse: Warehouse, one: Range) -> tuple[list[LedgerHour], bool]:
    """The hours that a range touches, newest first, and whether there were more than are looked at."""
    rows = warehouse.rows(_HOURS, _parameters(one, HOUR_NS) | {"limit": MAX_HOUR_ROWS + 1})
    hours = [
        LedgerHour._make((int(row[0]) * NS_PER_S, *row[1:15], _nano(row[15]), *map(int, row[16:])))
        for row in rows
    ]
    return hours[:MAX_HOUR_ROWS], len(hours) > MAX_HOUR_ROWS


def gpus_of_nodes(warehouse: Warehouse, one: Range) -> dict[tuple[str, str], int]:
    """GPUs of a node by (cluster, instance type), as the ledger has seen them."""
    rows = warehouse.rows(_GPUS, _parameters(one, HOUR_NS))
    return {(cluster, kind): int(gpus) for cluster, kind, gpus in rows}


def windows_of(warehouse: Warehouse, one: Range) -> int:
    """Windows of a range that the ledger still has."""
    return int(warehouse.rows(_WINDOWS, _parameters(one, NS_PER_S))[0][0])


def _parameters(one: Range, grain_ns: int) -> dict[str, Any]:
    start = one.from_ns - one.from_ns % grain_ns
    return {
        "from": min(start // NS_PER_S, LATEST_S),
        "until": min(one.to_ns // NS_PER_S, LATEST_S),
        "clusters": list(one.clusters),
    }


def _nano(amount: Decimal | None) -> int:
    return 0 if amount is None else int(amount.scaleb(9))


def minutes_of(
    warehouse: Warehouse, start_ns: int, end_ns: int, commitments: Sequence[str]
) -> tuple[list[Minute], dict[int, int]]:
    """Every minute of [start_ns, end_ns) with what was charged at commitments, and the version of the prices
    that its windows were charged with, where it has any."""
    parameters = {"from": start_ns // NS_PER_S, "until": end_ns // NS_PER_S, "ids": list(commitments)}
    used: dict[int, dict[str, int]] = {}
    for second, name, amount in warehouse.rows(_USED, parameters):
        used.setdefault(int(second) * NS_PER_S, {})[name] = _nano(amount)
    starts = range(start_ns, end_ns, MINUTE_NS)
    minutes = {start: Minute(start, used_nano=used.get(start, {})) for start in starts}
    versions: dict[int, int] = {}
    for second, generation, inputs, version in warehouse.rows(_CHARGED, parameters):
        start = int(second) * NS_PER_S
        minutes[start] = minutes[start]._replace(generation=int(generation), inputs=int(inputs))
        versions[start] = int(version)
    return list(minutes.values()), versions


def unused_of(warehouse: Warehouse, start_ns: int, end_ns: int) -> dict[int, Held]:
    """What the ledger has of commitments that were not used, by the minutes of [start_ns, end_ns)."""
    parameters = {"from": start_ns // NS_PER_S, "until": end_ns // NS_PER_S, "nobody": NO_NODE.node}
    rows: dict[tuple[int, int], dict[tuple[str, str], int]] = {}
    for second, revision, consumer, currency, amount in warehouse.rows(_UNUSED, parameters):
        rows.setdefault((int(second), int(revision)), {})[consumer, currency] = _nano(amount)
    return {
        int(second) * NS_PER_S: Held(int(revision), rows.get((int(second), int(revision)), {}))
        for second, revision in warehouse.rows(_HELD, parameters)
    }
