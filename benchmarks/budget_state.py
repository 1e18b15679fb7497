"""What a partition of gpu.charges keeps for budgets once it keeps all that it may.

Run from the repository root: ``python -m benchmarks.budget_state``. The nodes of the partition fill every
bucket that is kept, then send all the windows of which the revision is known, and of these as many come once
more, restated, as are kept. The baseline is the same state after a minute.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from benchmarks._budget_fleet import BUDGETS, GPUS, NODES, WINDOW_NS, budgets, charge_set
from benchmarks.figures import repeat, write_figure
from gpuledger.budgets import Catalog, PartitionCount, Replaced, Sums
from gpuledger.budgets.catalog import BURN_BUCKET_NS
from gpuledger.budgets.counting import RESTATED_KEPT
from gpuledger.budgets.known import KNOWN_WINDOWS
from gpuledger.budgets.lines import WindowCharges, charges_of
from gpuledger.budgets.rings import RING_BUCKETS
from gpuledger.budgets.states import counters_of, states_of
from gpuledger.contract.avro.limits import MAX_RECORD_BYTES
from gpuledger.contract.records import BudgetState, BudgetsVersion, ChargeSet, decode, encode
from gpuledger.contract.windows import NS_PER_S

PARTITIONS = 24
A_MINUTE = 6
AT_ONCE = 500
RUNS = 5
START_NS = 1_700_000_000 * NS_PER_S // WINDOW_NS * WINDOW_NS


def main() -> None:
    catalog = Catalog([BudgetsVersion(version=1, active_from_ns=0, budgets=budgets(START_NS))])
    nodes = range(-(-NODES // PARTITIONS))  # with pods of every budget
    made = [decode(ChargeSet, encode(charge_set(node, START_NS))) for node in nodes]
    first = [charges_of(one, 0, 0) for one in made]
    soon, count = PartitionCount(0, catalog), PartitionCount(0, catalog)
    fill(soon, windows(first, A_MINUTE))
    fill(count, windows(first, RING_BUCKETS, BURN_BUCKET_NS))
    fill(count, windows(first, KNOWN_WINDOWS, begin=RING_BUCKETS * len(first)))
    known = bytes_of(count)
    restate(count, list(islice(windows(first, KNOWN_WINDOWS), RESTATED_KEPT)))
    bodies = [encode(state) for state in states_of(count, 0)]
    parts = [decode(BudgetState, body) for body in bodies]
    clock = time.process_time
    written = repeat(lambda: [encode(state) for state in states_of(count, 0)], RUNS, clock=clock)
    read = repeat(lambda: counters_of([decode(BudgetState, body) for body in bodies]), RUNS, clock=clock)
    judged = repeat(lambda: absorbed(parts), RUNS, clock=clock)
    whole, base = bytes_of(count), bytes_of(soon)
    write_figure(
        "budget_state",
        whole,
        "bytes of a partition",
        base,
        whole / base,
        1,
        baseline_name="the same partition after a minute",
        bytes_without_restated=known,
        bytes_of_all_partitions=whole * PARTITIONS,
        largest_record_bytes=max(map(len, bodies)),
        largest_of_limit_ratio=max(map(len, bodies)) / MAX_RECORD_BYTES,
        records=len(bodies),
        write_ms=1000 * written.median,
        read_ms=1000 * read.median,
        second_stage_reads_ms=1000 * judged.median,
        shape={
            "nodes_of_the_partition": len(nodes),
            "gpus_of_the_fleet": NODES * GPUS,
            "budgets": BUDGETS,
            "windows_known_of_a_node": KNOWN_WINDOWS,
            "windows_restated": RESTATED_KEPT,
        },
    )


def windows(
    first: Sequence[WindowCharges], rounds: int, apart_ns: int = WINDOW_NS, begin: int = 0
) -> Iterator[WindowCharges]:
    """So many windows of every node, in the order of time; up to START_NS where they lie further apart."""
    first_ns = START_NS - (rounds * apart_ns if apart_ns > WINDOW_NS else 0)
    for number in range(rounds):
        start_ns = first_ns + number * apart_ns
        for place, one in enumerate(first):
            window = one.window._replace(start_ns=start_ns)
            offset = begin + number * len(first) + place
            yield replace(one, window=window, offset=offset, append_ms=start_ns // 1_000_000)


def absorbed(parts: Sequence[BudgetState]) -> Sums:
    """What the second stage does with a state."""
    sums = Sums()
    for part in parts:
        sums.absorb(part.subtotal)
    return sums


def fill(count: PartitionCount, charges: Iterator[WindowCharges]) -> None:
    """Count windows of which none replaces another."""
    while bunch := list(islice(charges, AT_ONCE)):
        if count.to_ask(bunch):
            raise SystemExit("a window replaces another")
        count.count(bunch, {})


def restate(count: PartitionCount, earlier: Sequence[WindowCharges]) -> None:
    """Count windows once more, each in a later revision."""
    for low in range(0, len(earlier), AT_ONCE):
        bunch = earlier[low : low + AT_ONCE]
        came_ms = (START_NS + KNOWN_WINDOWS * WINDOW_NS) // 1_000_000 + low
        again = [
            replace(one, revision=one.revision + 1, offset=count.position + place, append_ms=came_ms)
            for place, one in enumerate(bunch)
        ]
        asked = count.to_ask(again)
        known = {one.window: Replaced(one.revision, one.price_version, one.lines) for one in bunch}
        count.count(again, {window: known[window] for window in asked})
    if len(count.counters.restated) != len(earlier):
        raise SystemExit(f"{len(count.counters.restated)} of {len(earlier)} windows are restated")


def bytes_of(count: PartitionCount) -> int:
    """A state as it is in Kafka, without what frames its records."""
    return sum(len(encode(state)) for state in states_of(count, 0))


if __name__ == "__main__":
    main()
