"""Making up for the time before a version, beside a partition's counting: between two of its records."""

from __future__ import annotations

from collections.abc import Collection

from gpuledger.budgets.backfill import Round, Sheet
from gpuledger.budgets.contribution import Counted
from gpuledger.budgets.counters import Changed
from gpuledger.budgets.counting import PartitionCount
from gpuledger.budgets.reaches import Reached


def begin(count: PartitionCount) -> Round | None:
    """Begin to make up for what was not counted yet of the time before a version; None where that is nothing,
    or under way."""
    backfill, counters = count.backfill, count.counters
    lacking = backfill.lacking(counters.newest_end_ns) if backfill.round is None else []
    if not lacking:
        return None
    reached = Reached(lacking)
    # Of these the amounts that were counted are known, and not from what: they are asked for anew.
    for window in [window for window in counters.restated if reached.at(window.start_ns)]:
        del counters.restated[window]
    tail = tuple(one for one in count.tail if reached.at(one.window.start_ns))
    known_ms = counters.tail_start_ms if count.position else None
    backfill.begin(Round(reached, known_ms, tail, count.tail_offset))
    return backfill.round


def merge(count: PartitionCount, base: Sheet) -> Sheet:
    """Count what was read, and what changed meanwhile, as of the present round, which is over. Returns what
    was counted. A state must be kept before anything of it is told."""
    begun, counters = count.backfill.round, count.counters
    assert begun is not None
    base.add(begun.sheet)
    for (key, start_ns), part in base.totals.items():
        meter = count.catalog.meter(key)
        if meter is None or meter.is_closed(start_ns, count.day_ns):
            continue
        total = count.total(meter, start_ns)
        total.add(Counted(part.nano, part.gpu_ns, part.unconverted_nano), part.through_ns)
        total.drive({}, part.drivers)
    for (key, length_ns, start_ns), amount in base.buckets.items():
        count.ring(key, length_ns).add(start_ns, amount)
    count.backfill.finish(counters.newest_end_ns)
    counters.backfilled = count.backfill.done.all
    counters.untold |= {reach.key for reach in begun.reached.all}
    return base


def all_of(count: PartitionCount, keys: Collection[str]) -> Changed:
    """All that is counted for some meters."""
    counters = count.counters
    return Changed(
        {(key, start_ns) for key in keys for start_ns in counters.totals.get(key, ())},
        {
            (key, length_ns, start_ns)
            for key in keys
            for length_ns, ring in counters.rings.get(key, {}).items()
            for start_ns in ring.columns()[0].tolist()
        },
    )
