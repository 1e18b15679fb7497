"""What many new windows of one start count, summed at once: the path that nearly every charge takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpuledger.budgets.catalog import Match, Meter, Plan
from gpuledger.budgets.contribution import Counted
from gpuledger.budgets.lines import CATEGORIES, Amounts, Driver, WindowCharges

TIMES = len(CATEGORIES)  # of a line's amounts; money is behind them


class Added(NamedTuple):
    """What a meter counts of them, and from whom (money and GPU-ns)."""

    meter: Meter
    counted: Counted
    drivers: dict[Driver, tuple[int, int]]


def matched(plan: Plan, charges: WindowCharges) -> list[tuple[Match, Amounts]] | None:
    """The lines of a window that count for a budget; None where money must be converted, window by window."""
    found = []
    for payer, amounts in charges.lines:
        match = plan.match(charges.window.cluster, payer)
        if match.foreign:
            return None
        if len(match.numbers):
            found.append((match, amounts))
    return found


def added(plan: Plan, start_ns: int, lines: Sequence[tuple[Match, Amounts]]) -> Iterator[Added]:
    """What lines of windows that start then count for each meter. The sum of their ``contribution``."""
    if not lines:
        return
    line = np.repeat(np.arange(len(lines)), [len(match.numbers) for match, _ in lines])
    number = np.concatenate([match.numbers for match, _ in lines])
    holding = plan.holding(start_ns)[number]
    line, number = line[holding], number[holding]
    amounts = np.array([amounts for _, amounts in lines], np.int64)[line] * plan.chosen[number]
    gpu_ns, nano = amounts[:, :TIMES].sum(axis=1), amounts[:, TIMES:].sum(axis=1)
    totals = np.zeros((2, len(plan.ordered)), np.int64)
    np.add.at(totals[0], number, nano)
    np.add.at(totals[1], number, gpu_ns)
    counts = (nano != 0) | (gpu_ns != 0)
    drivers: dict[int, dict[Driver, tuple[int, int]]] = {}
    pairs = (column[counts].tolist() for column in (number, line, nano, gpu_ns))
    for meter, index, money, time_ns in zip(*pairs, strict=True):
        driver = lines[index][0].driver
        of_meter = drivers.setdefault(meter, {})
        if driver is not None:
            known = of_meter.get(driver)
            of_meter[driver] = (money, time_ns) if known is None else (known[0] + money, known[1] + time_ns)
    for meter, of_meter in drivers.items():
        counted = Counted(int(totals[0, meter]), int(totals[1, meter]), 0)
        yield Added(plan.ordered[meter], counted, of_meter)
