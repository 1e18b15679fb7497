"""What a partition has counted, as the columns of a subtotal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from gpuledger.budgets.counters import Changed
from gpuledger.budgets.counting import PartitionCount
from gpuledger.budgets.lines import Driver
from gpuledger.budgets.totals import DRIVERS_TOLD, largest
from gpuledger.contract.columns import LARGEST_LONG, Longs, longs
from gpuledger.contract.records import BudgetSubtotal


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


def rings_of(told: BudgetSubtotal) -> list[tuple[str, int, Longs, Longs]]:
    """The same where they follow each other: meter, length, starts, amounts. Faster where these are many."""
    meters, lengths = told.bucket_meter, told.bucket_length_ns
    if not meters.size:
        return []
    others = np.flatnonzero((np.diff(meters) != 0) | (np.diff(lengths) != 0)) + 1
    firsts = [0, *others.tolist()]
    return [
        (
            told.texts[int(meters[first])],
            int(lengths[first]),
            told.bucket_start_ns[first:end],
            told.bucket_amount[first:end],
        )
        for first, end in zip(firsts, [*firsts[1:], meters.size], strict=True)
    ]
