"""Rows per second that the sink's writer puts into the embedded server over HTTP, and that it decodes.

A batch is what the sink writes at once: some 100,000 rows of sets as an 8-GPU node makes them (25 rows, in
the processor's order), from numpy columns to rows that a query sees: Arrow tables built, rows, marks of hours
and heads inserted, one batch built while another is written, as in the sink; and the engine's merges as they
come. Client and server share the machine's cores. The baseline is the same rows as Python tuples through the
driver's ``insert``. Beside the rate stand the processor seconds of both for 100,000 rows: they say more on a
machine that does other work too.

The second figure is what comes before: records as Kafka hands them over, to sets that may be written, with
their checks, in one thread. Its baseline is the same one by one. Kafka itself and commits are in neither.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._processors import cpu_s
from benchmarks.figures import Runs, repeat, write_figure
from gpuledger.contract.charge_columns import (
    DOUBLE_COLUMNS,
    EFFECTIVE_COLUMNS,
    KNOWN_COLUMNS,
    LONG_COLUMNS,
    NANO_COLUMNS,
    TEXT_COLUMNS,
)
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import ChargeSet, decode, decode_many, encode
from gpuledger.sink.batcher import Batch
from gpuledger.sink.meaning import check
from gpuledger.sink.tables import Arrival
from gpuledger.sink.writer import Writer
from gpuledger.warehouse import Warehouse, connect, migrate
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse

ROWS_OF_SET = 25  # 8 GPUs with two consumers and the pool each, and the node
ROWS_OF_GPU = 3
SETS_OF_BATCH = 4_000
NODES = 400
BATCHES_OF_RUN = 3
RUNS = 5
BASELINE_SETS = 200  # slow enough already
DECODED_SETS = 2_000  # what the sink takes from Kafka at once
PER_ROWS = 100_000  # what processor seconds are told for
WINDOW_NS = 10_000_000_000
NS_PER_MS = 1_000_000


def charge_set(rng: np.random.Generator, node: int, window_start_ns: int, revision: int) -> ChargeSet:
    """A set of plausible size and variety."""
    fixed = ["", "pod", "none", "H100", "USD", "busy_estimated", "pay", "exclusive", "p5.48xlarge", "eu-1"]
    devices = [*(f"GPU-{node}-{number}" for number in range(8)), "node"]
    pods = [f"pod-{node}-{number:02}" for number in range(ROWS_OF_SET)]
    teams = [f"team-{number}" for number in range(7)]
    first = len(fixed)
    columns: dict[str, Any] = {name: np.zeros(ROWS_OF_SET, np.int64) for name in TEXT_COLUMNS}
    row = np.arange(ROWS_OF_SET)
    pod = first + len(devices) + row
    columns |= {"device": first + row // ROWS_OF_GPU, "consumer": pod, "pod": pod}
    columns["team"] = first + len(devices) + ROWS_OF_SET + row % 7
    for name, index in {
        "consumer_kind": 1,
        "reason": 2,
        "gpu_model": 3,
        "currency": 4,
        "evidence": 5,
    }.items():
        columns[name] = np.full(ROWS_OF_SET, index, np.int64)
    for name in LONG_COLUMNS:
        columns[name] = rng.integers(0, WINDOW_NS, ROWS_OF_SET)
    for name in DOUBLE_COLUMNS:
        columns[name] = rng.random(ROWS_OF_SET)
    for name in (*NANO_COLUMNS, *EFFECTIVE_COLUMNS):
        columns[name] = rng.integers(0, 40_000_000, ROWS_OF_SET)
    columns |= dict.fromkeys(KNOWN_COLUMNS, np.ones(ROWS_OF_SET, np.int64))
    return ChargeSet(
        "prod",
        f"node-{node}",
        window_start_ns,
        WINDOW_NS,
        generation=0,
        inputs=revision,
        digest=7,
        core_version=1,
        state="complete",
        booking_period="2026-01",
        texts=fixed + devices + pods + teams,
        **columns,
    )


def arrivals(rng: np.random.Generator, count: int, number: int) -> list[Arrival]:
    """The sets of batch ``number``, of the hours that are just over, as the sink decodes them."""
    now_ms = SystemClock().unix_ns() // NS_PER_MS
    start_ns = (now_ms * NS_PER_MS // WINDOW_NS - 2_000 + number * (count // NODES + 1)) * WINDOW_NS
    bodies = [
        encode(charge_set(rng, index % NODES, start_ns + index // NODES * WINDOW_NS, 1 + number))
        for index in range(count)
    ]
    return [
        Arrival(charges, "gpu.charges", 0, number * count + index, now_ms)
        for index, charges in enumerate(decode_many(ChargeSet, bodies))
        if isinstance(charges, ChargeSet)
    ]


def fresh(pool: Sequence[list[Arrival]], runs: int) -> list[list[Batch]]:
    """The batches of each run, at offsets of its own: an insert with a known token would cost nothing."""
    behind = len(pool) * SETS_OF_BATCH
    return [
        [Batch([replace(arrival, offset=arrival.offset + run * behind) for arrival in sets]) for sets in pool]
        for run in range(runs)
    ]


def write_all(writer: Writer, batches: Sequence[Batch]) -> None:
    """Write batches as the sink does: the next is built while one is written."""
    with ThreadPoolExecutor(1) as thread:
        under_way = None
        for batch in batches:
            batch.prepare()
            if under_way is not None:
                under_way.result()
            under_way = thread.submit(writer.write, batch)
        if under_way is not None:
            under_way.result()


def python_rows(warehouse: Warehouse, batch: Batch) -> None:
    """The baseline: the same columns and rows as Python tuples."""
    assert batch.rows is not None
    names = batch.rows.column_names
    rows = [tuple(row.values()) for row in batch.rows.to_pylist()]
    warehouse.client.insert("charge_rows", rows, column_names=names)


def decode_figure(rng: np.random.Generator) -> None:
    """Records to checked sets, together and one by one."""
    sets = [arrival.charges for arrival in arrivals(rng, DECODED_SETS, 0)]
    keys = [NodeKey(charges.cluster, charges.node).key for charges in sets]
    bodies = [encode(charges) for charges in sets]

    def together() -> None:
        for charges, key in zip(decode_many(ChargeSet, bodies), keys, strict=True):
            assert isinstance(charges, ChargeSet)
            check(charges, key)

    def one_by_one() -> None:
        for body, key in zip(bodies, keys, strict=True):
            check(decode(ChargeSet, body), key)

    rows = DECODED_SETS * ROWS_OF_SET
    ours = repeat(together, RUNS, clock=time.process_time).rate(rows)
    base = repeat(one_by_one, RUNS, clock=time.process_time).rate(rows)
    write_figure(
        "sink_decode",
        ours.median,
        "rows/s",
        base.median,
        ours.median / base.median,
        ours.n,
        spread=ours.spread,
        baseline_name="the same records one by one",
        baseline_spread=base.spread,
        rows_per_set=ROWS_OF_SET,
        bytes_per_set=len(bodies[0]),
    )


def main() -> None:
    rng = np.random.default_rng(23)
    decode_figure(rng)
    with tempfile.TemporaryDirectory() as folder, EmbeddedWarehouse(Path(folder)) as server:
        warehouse = connect(server.url, create_database=True)
        migrate(warehouse)
        writer = Writer(warehouse, SystemClock())
        pool = [arrivals(rng, SETS_OF_BATCH, number) for number in range(BATCHES_OF_RUN)]
        rows = sum(arrival.rows for sets in pool for arrival in sets)
        small = arrivals(rng, BASELINE_SETS, 0)

        runs = iter(fresh(pool, RUNS + 1))

        spent: list[float] = []

        def run() -> None:
            before = cpu_s()
            write_all(writer, next(runs))
            spent.append((cpu_s() - before) / rows * PER_ROWS)

        def run_baseline() -> None:
            python_rows(warehouse, Batch(list(small)))

        ours = repeat(run, RUNS).rate(rows)
        cpu = Runs(tuple(spent[-RUNS:]))
        base = repeat(run_baseline, RUNS).rate(BASELINE_SETS * ROWS_OF_SET)
        seen = warehouse.rows("SELECT count() FROM charges")[0][0]
        warehouse.close()
    if seen != rows:
        raise SystemExit(f"{seen} rows are seen of {rows} written")
    low, high = cpu.spread
    print(f"processor seconds for {PER_ROWS:,} rows {cpu.median:.3f}  [{low:.3f} .. {high:.3f}]")
    write_figure(
        "sink",
        ours.median,
        "rows/s",
        base.median,
        ours.median / base.median,
        ours.n,
        spread=ours.spread,
        baseline_name="clickhouse-connect insert of Python rows",
        baseline_spread=base.spread,
        cpu_s_per_100k_rows=cpu.median,
        cpu_s_per_100k_rows_spread=cpu.spread,
        rows_per_batch=SETS_OF_BATCH * ROWS_OF_SET,
        rows_per_set=ROWS_OF_SET,
        rows_seen=seen,
    )


if __name__ == "__main__":
    main()
