"""Seconds of the exporter's query: an hour of 40 nodes with 8 GPUs, 360,000 rows, in the embedded engine.

The query reads the last hour once and sums it at four grains; the month is closed hours and running windows.
The baseline asks for the same as people would: four queries of the hour, and the month from the hourly view.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.figures import repeat, write_figure
from benchmarks.sink import ROWS_OF_SET, WINDOW_NS, charge_set
from gpuledger.contract.clock import SystemClock
from gpuledger.exporter.families import Limits, families
from gpuledger.exporter.question import ask
from gpuledger.sink.batcher import Batch
from gpuledger.sink.tables import Arrival
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse, connect, migrate
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse

NODES = 40
WINDOWS = 360
RUNS = 5
NS_PER_MS = 1_000_000
GRAINS = (
    "cluster, team, currency, evidence",
    "cluster, team, currency, namespace, pod",
    "cluster, node",
    "cluster, node, device",
)
ONE_GRAIN = """
SELECT {grain}, sum(used) AS a, sum(held_idle) AS b, sum(unallocated) AS c, sum(unobserved) AS d,
    sum(used_ns) AS e, sum(held_idle_ns) AS f, sum(unallocated_ns) AS g, sum(unobserved_ns) AS h,
    sum(completeness * total_ns) AS i, max(xid) AS j
FROM charges
WHERE window_start >= fromUnixTimestamp({{from:UInt32}})
    AND window_start < fromUnixTimestamp({{until:UInt32}})
GROUP BY {grain}
"""
THE_MONTH = """
SELECT cluster, team, currency,
    sum(used) AS a, sum(held_idle) AS b, sum(unallocated) AS c, sum(unobserved) AS d,
    sum(used_ns) AS e, sum(held_idle_ns) AS f, sum(unallocated_ns) AS g, sum(unobserved_ns) AS h
FROM charges_hourly
WHERE hour >= toStartOfMonth(now('UTC'))
GROUP BY cluster, team, currency
"""


def fill(warehouse: Warehouse, end_ns: int) -> None:
    """The hour before ``end_ns``, node by node."""
    writer, rng = Writer(warehouse, SystemClock()), np.random.default_rng(7)
    for node in range(NODES):
        sets = [charge_set(rng, node, end_ns - n * WINDOW_NS, 1) for n in range(1, WINDOWS + 1)]
        arrivals = [Arrival(one, "gpu.charges", 0, n, end_ns // NS_PER_MS) for n, one in enumerate(sets)]
        writer.write(Batch(arrivals))
    writer.store_hours()  # those that are over, as the sink does


def main() -> None:
    end_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    queries = [*(ONE_GRAIN.format(grain=grain) for grain in GRAINS), THE_MONTH]
    span = {"from": end_ns // 10**9 - 3600, "until": end_ns // 10**9}
    with tempfile.TemporaryDirectory() as folder, EmbeddedWarehouse(Path(folder)) as server:
        warehouse = connect(server.url, create_database=True)
        migrate(warehouse)
        fill(warehouse, end_ns)
        once = repeat(lambda: ask(warehouse, end_ns), RUNS)
        apart = repeat(lambda: [warehouse.rows(query, span) for query in queries], RUNS)
        rows = ask(warehouse, end_ns)
        told = repeat(lambda: families(rows, end_ns // NS_PER_MS, Limits()), RUNS)
        warehouse.close()
    write_figure(
        "exporter_query",
        once.median,
        "s",
        apart.median,
        once.median / apart.median,
        once.n,
        spread=once.spread,
        baseline_name="five queries: the last hour at each of four grains, the month from charges_hourly",
        ledger_rows=NODES * WINDOWS * ROWS_OF_SET,
        groups=len(rows),
        families_s=told.median,
    )


if __name__ == "__main__":
    main()
