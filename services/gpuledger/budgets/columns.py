"""What was counted, as records: for the second stage, and for the next owner."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from gpuledger.budgets.contribution import Counted
from gpuledger.budgets.counters import Changed, Counters, Restated
from gpuledger.budgets.counting import PartitionCount
from gpuledger.budgets.known import KnownRevisions
from gpuledger.budgets.lines import Driver, Window
from gpuledger.budgets.reaches import Reach
from gpuledger.budgets.rings import Ring
from gpuledger.budgets.totals import DRIVERS_KEPT, DRIVERS_TOLD, Total, largest
from gpuledger.contract.columns import LARGEST_LONG, Longs, longs
from gpuledger.contract.records import BudgetState, BudgetSubtotal

TOTALS_OF_A_PART = 5_000  # of a state's record; with their buckets and drivers some 4 MB
REVISION_OFFSET = 1 << 63  # a revision has 64 bits, a long 63 and a sign


class Texts:
    """Texts of a record, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Index of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def all(self) -> list[str]:
        """All of them in the order of their indexes."""
        return list(self._numbers)


def subtotal_of(
    count: PartitionCount,
    changed: Changed,
    most_drivers: int = DRIVERS_TOLD,
    more: Mapping[tuple[str, int, int], int] = MappingProxyType({}),
) -> BudgetSubtotal:
    """The present values of what changed, and ``more`` buckets."""
    counters, texts = count.counters, Texts()
    totals: list[tuple[int, int, int, int, int, int]] = []
    drivers: list[tuple[int, int, int, int, int, int]] = []
    for row, (key, start_ns) in enumerate(sorted(changed.totals)):
        total = counters.totals[key][start_ns]
        counted = (total.nano, total.gpu_ns, total.unconverted_nano, total.through_ns)
        totals.append((texts.number(key), start_ns, *counted))
        for driver, (nano, gpu_ns) in largest(total.drivers, most_drivers):
            namespace, workload, pod = map(texts.number, driver)
            drivers.append((row, namespace, workload, pod, nano, gpu_ns))
    buckets = [
        (texts.number(key), length_ns, start_ns, counters.rings[key][length_ns].get(start_ns))
        for key, length_ns, start_ns in sorted(changed.buckets)
    ]
    for (key, length_ns, start_ns), amount in sorted(more.items()):
        buckets.append((texts.number(key), length_ns, start_ns, amount))
    meter, period, money, gpu, unconverted, through = columns(totals, 6)
    bucket_meter, bucket_length, bucket_start, bucket_amount = columns(buckets, 4)
    of_total, *driver_names, driver_nano, driver_gpu = columns(drivers, 6)
    return BudgetSubtotal(
        partition=count.partition,
        version=count.position,
        newest_end_ns=counters.newest_end_ns,
        texts=texts.all(),
        meter=meter,
        period_start_ns=period,
        nano=money,
        gpu_ns=gpu,
        unconverted_nano=unconverted,
        through_ns=through,
        bucket_meter=bucket_meter,
        bucket_length_ns=bucket_length,
        bucket_start_ns=bucket_start,
        bucket_amount=bucket_amount,
        driver_total=of_total,
        driver_namespace=driver_names[0],
        driver_workload=driver_names[1],
        driver_pod=driver_names[2],
        driver_nano=driver_nano,
        driver_gpu_ns=driver_gpu,
    )


def states_of(count: PartitionCount, subtotals_offset: int) -> list[BudgetState]:
    """All that a partition has counted, in as many parts as needed; the first has the nodes."""
    counters = count.counters
    every = sorted((key, start) for key, periods in counters.totals.items() for start in periods)
    pieces = [every[low : low + TOTALS_OF_A_PART] for low in range(0, len(every), TOTALS_OF_A_PART)] or [[]]
    states = []
    for part, piece in enumerate(pieces):
        changed = Changed(set(piece), set(_buckets(counters, {key for key, _ in piece})))
        states.append(
            BudgetState(
                part=part,
                parts=len(pieces),
                subtotals_offset=subtotals_offset,
                tail_offset=count.tail_offset,
                tail_start_ms=counters.tail_start_ms,
                subtotal=subtotal_of(count, changed, most_drivers=DRIVERS_KEPT),
            )
        )
    _write_nodes(counters, states[0])
    return states


def counters_of(states: Sequence[BudgetState]) -> tuple[Counters, int]:
    """What was counted, and the offset of the next record, from all parts of one version."""
    counters = Counters()
    for state in states:
        _read_subtotal(counters, state.subtotal)
        counters.tail_start_ms = state.tail_start_ms
        if state.part == 0:
            _read_nodes(counters, state)
    return counters, states[0].subtotal.version


def newest(states: Iterable[BudgetState]) -> dict[int, list[BudgetState]]:
    """Of each partition the parts of the greatest version that is there whole."""
    found: dict[tuple[int, int], dict[int, BudgetState]] = {}
    for state in states:
        found.setdefault((state.subtotal.partition, state.subtotal.version), {})[state.part] = state
    whole: dict[int, list[BudgetState]] = {}
    for (partition, _), parts in sorted(found.items()):
        if len(parts) >= parts[min(parts)].parts:
            whole[partition] = [parts[number] for number in sorted(parts)]
    return whole


def columns(rows: Sequence[Sequence[int]], width: int) -> list[Longs]:
    """Rows as columns; a sum beyond LARGEST_LONG is that: 292 GPU-years in one partition and period."""
    if not rows:
        return [longs([]) for _ in range(width)]
    return [_longs(column) for column in zip(*rows, strict=True)]


def _longs(column: Sequence[int]) -> Longs:
    try:
        return longs(column)
    except OverflowError:
        return longs([min(one, LARGEST_LONG) for one in column])


def _buckets(counters: Counters, keys: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    for key in keys:
        for length_ns, ring in counters.rings.get(key, {}).items():
            for start_ns, _ in ring.items():
                yield key, length_ns, start_ns


def _write_nodes(counters: Counters, state: BudgetState) -> None:
    texts, nodes = Texts(), sorted(counters.high_water_ns)
    numbers = {node: number for number, node in enumerate(nodes)}
    rows = [
        (texts.number(a), texts.number(b), counters.high_water_ns[a, b], counters.known[a, b].length_ns)
        for a, b in nodes
    ]
    state.node_cluster, state.node_name, state.high_water_ns, state.window_length_ns = columns(rows, 4)
    known = [counters.known[node].columns() for node in nodes]
    state.known_node = np.repeat(np.arange(len(nodes)), [starts.size for starts, _ in known])
    state.known_window_ns = np.concatenate([longs([]), *(starts for starts, _ in known)])
    state.known_revision = np.concatenate([longs([]), *(revisions for _, revisions in known)])
    restated, counted = [], []
    for row, (window, one) in enumerate(counters.restated.items()):
        node = numbers[window.cluster, window.node]
        restated.append((node, window.start_ns, one.revision - REVISION_OFFSET))
        counted += [(row, texts.number(key), *amounts) for key, amounts in sorted(one.counted.items())]
    state.restated_node, state.restated_window_ns, state.restated_revision = columns(restated, 3)
    (
        state.counted_restated,
        state.counted_meter,
        state.counted_nano,
        state.counted_gpu_ns,
        state.counted_unconverted_nano,
    ) = columns(counted, 5)
    backfilled = [
        (texts.number(key), *reach, int(key not in counters.untold)) for key, *reach in counters.backfilled
    ]
    (
        state.backfilled_meter,
        state.backfilled_length_ns,
        state.backfilled_from_ns,
        state.backfilled_until_ns,
        state.backfilled_told,
    ) = columns(backfilled, 5)
    state.texts = texts.all()


def _read_nodes(counters: Counters, state: BudgetState) -> None:
    texts = state.texts
    nodes = [
        (texts[cluster], texts[node])
        for cluster, node in zip(state.node_cluster.tolist(), state.node_name.tolist(), strict=True)
    ]
    counters.high_water_ns = dict(zip(nodes, state.high_water_ns.tolist(), strict=True))
    counters.known = {
        node: KnownRevisions(length_ns)
        for node, length_ns in zip(nodes, state.window_length_ns.tolist(), strict=True)
    }
    ends = np.searchsorted(state.known_node, np.arange(len(nodes)), side="right").tolist()
    for node, first, end in zip(nodes, [0, *ends], ends, strict=False):
        counters.known[node].put_all(state.known_window_ns[first:end], state.known_revision[first:end])
    rows = zip(
        state.restated_node.tolist(),
        state.restated_window_ns.tolist(),
        state.restated_revision.tolist(),
        strict=True,
    )
    windows = [
        (Window(nodes[node][0], nodes[node][1], start), revision + REVISION_OFFSET)
        for node, start, revision in rows
    ]
    counters.restated = OrderedDict((window, Restated(revision, {})) for window, revision in windows)
    for row, meter, *amounts in zip(
        state.counted_restated.tolist(),
        state.counted_meter.tolist(),
        state.counted_nano.tolist(),
        state.counted_gpu_ns.tolist(),
        state.counted_unconverted_nano.tolist(),
        strict=True,
    ):
        counters.restated[windows[row][0]].counted[texts[meter]] = Counted(*amounts)
    counters.backfilled = tuple(
        Reach(texts[meter], *reach)
        for meter, *reach in zip(
            state.backfilled_meter.tolist(),
            state.backfilled_length_ns.tolist(),
            state.backfilled_from_ns.tolist(),
            state.backfilled_until_ns.tolist(),
            strict=True,
        )
    )
    untold = (state.backfilled_told == 0).tolist()
    counters.untold = {reach.key for reach, one in zip(counters.backfilled, untold, strict=True) if one}


def _read_subtotal(counters: Counters, told: BudgetSubtotal) -> None:
    counters.newest_end_ns = max(counters.newest_end_ns, told.newest_end_ns)
    totals = []
    for meter, start_ns, *amounts in zip(
        told.meter.tolist(),
        told.period_start_ns.tolist(),
        told.nano.tolist(),
        told.gpu_ns.tolist(),
        told.unconverted_nano.tolist(),
        told.through_ns.tolist(),
        strict=True,
    ):
        totals.append(Total(*amounts))
        counters.totals.setdefault(told.texts[meter], {})[start_ns] = totals[-1]
    for row, driver, amount in drivers_of(told):
        totals[row].drivers[driver] = amount
    for key, length_ns, start_ns, value in buckets_of(told):
        rings = counters.rings.setdefault(key, {})
        rings.setdefault(length_ns, Ring(length_ns)).put(start_ns, value)


def drivers_of(told: BudgetSubtotal) -> Iterator[tuple[int, Driver, tuple[int, int]]]:
    """Each driver with the row of its total."""
    for row, namespace, workload, pod, nano, gpu_ns in zip(
        told.driver_total.tolist(),
        told.driver_namespace.tolist(),
        told.driver_workload.tolist(),
        told.driver_pod.tolist(),
        told.driver_nano.tolist(),
        told.driver_gpu_ns.tolist(),
        strict=True,
    ):
        texts = told.texts
        yield row, Driver(texts[namespace], texts[workload], texts[pod]), (nano, gpu_ns)


def buckets_of(told: BudgetSubtotal) -> Iterator[tuple[str, int, int, int]]:
    """Each bucket: meter, length, start, amount."""
    for meter, length_ns, start_ns, amount in zip(
        told.bucket_meter.tolist(),
        told.bucket_length_ns.tolist(),
        told.bucket_start_ns.tolist(),
        told.bucket_amount.tolist(),
        strict=True,
    ):
        yield told.texts[meter], length_ns, start_ns, amount
