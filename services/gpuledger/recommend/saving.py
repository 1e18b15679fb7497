"""What a change saves a month, with an interval.

The saving is a rate: the money of the evidence over its length, times a month of 730 hours. Its interval
is Student's, 90 %, over blocks of the evidence: days where there are three, else hours. One block says
nothing of its spread: then the interval is from nothing to twice the saving. What the ledger's evidence
leaves open (used GPU time lies between two bounds) widens it.

Hours follow each other: they say little of whether a pod is there tomorrow. Of n pods (or nodes) of which
none was seen leaving, a share of 0.05^(1/n) at least stays for as long again, with 95 % confidence (Clopper
and Pearson's interval for no event in n trials). An interval from less than three days is never narrower.

Batch work comes and goes. The roots of two counts of the same process lie apart by sqrt(1/2) as a rule (a
Poisson number's root has the deviation 1/2: Anscombe 1948). So all that n pods say of the number to come in
a time as long is its interval of 90 %: none to 5 for one, 0.1 to 8.6 for three, 78 to 125 for a hundred. What
is there now may also stay: the upper bound is that of the last hours, where these have more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuledger.contract.money import NS_PER_HOUR

MONTH_S = 730 * 3_600
DAY_S = 86_400
DAYS_FOR_BLOCKS = 3
HOURS_OF_NOW = 2  # the last of them may not be over
ANSCOMBE = 3 / 8  # makes the deviation of the root of a small count nearly that of a large one
UNLIKELY = 0.05  # one side of a two-sided interval of 90 %
# Student's t, 95th percentile (90 % two-sided), by degrees of freedom; beyond the table the normal one.
_T95 = (
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753,
    1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699,
)  # fmt: skip
_NORMAL95 = 1.645


class Part(NamedTuple):
    """What a change would have saved in a part of the evidence: money (None without a price), GPU-ns, and
    the money by which the ledger itself is unsure. ``start_s`` tells the block, ``length_s`` its weight."""

    start_s: int
    length_s: int
    nano: int | None
    gpu_ns: int
    unsure_nano: int = 0


@dataclass(frozen=True, slots=True)
class Saving:
    """Money a month in 1e-9 of the currency: the value, and its interval; None where no price is known."""

    nano: int | None
    low_nano: int | None
    high_nano: int | None
    gpu_hours: float

    def of(self, share: float) -> Saving:
        """A share of it."""
        nano, low, high = (
            None if value is None else round(value * share)
            for value in (self.nano, self.low_nano, self.high_nano)
        )
        return Saving(nano, low, high, self.gpu_hours * share)


def saving(parts: Sequence[Part], units: int = 1) -> Saving:
    """The saving a month of what the parts would have saved; at least one part. ``units`` are the pods or
    nodes that it rests on, each of which may leave."""
    length_s = sum(part.length_s for part in parts)
    hours = sum(part.gpu_ns for part in parts) / NS_PER_HOUR * MONTH_S / length_s
    priced = [part for part in parts if part.nano is not None]
    if not priced:
        return Saving(None, None, None, hours)
    mean = sum(part.nano or 0 for part in priced) * MONTH_S / length_s
    half = _half(_blocks(priced), mean)
    if len({part.start_s // DAY_S for part in parts}) < DAYS_FOR_BLOCKS:
        half = max(half, (1 - UNLIKELY ** (1 / units)) * mean)
    half += sum(part.unsure_nano for part in priced) * MONTH_S / length_s
    return Saving(round(mean), max(0, round(mean - half)), round(mean + half), hours)


def batch_saving(parts: Sequence[Part], pods: int) -> Saving:
    """The saving a month of work of which so many pods were seen, which comes and goes; at least one part."""
    whole = saving(parts, pods)
    if whole.nano is None or whole.low_nano is None or whole.high_nano is None:
        return whole
    low, high = (count / pods for count in next_count(pods))
    newest = sorted(parts)[-HOURS_OF_NOW:]
    now = max((part.nano or 0) * MONTH_S // part.length_s for part in newest)
    return replace(
        whole,
        low_nano=min(whole.low_nano, round(whole.nano * low)),
        high_nano=max(whole.high_nano, round(max(whole.nano, now) * high)),
    )


def next_count(seen: int) -> tuple[float, float]:
    """Between what two numbers a count will be, at 90 %, where the one before it was ``seen``."""
    root, apart = math.sqrt(seen + ANSCOMBE), _NORMAL95 * math.sqrt(1 / 2)
    low = max(0.0, root - apart) ** 2 - ANSCOMBE
    return max(0.0, low), (root + apart) ** 2 - ANSCOMBE


def _blocks(parts: Sequence[Part]) -> list[float]:
    """The monthly rates of the blocks."""
    days = {part.start_s // DAY_S for part in parts}
    width = DAY_S if len(days) >= DAYS_FOR_BLOCKS else 3_600
    sums: dict[int, tuple[int, int]] = {}
    for part in parts:
        nano, length = sums.get(part.start_s // width, (0, 0))
        sums[part.start_s // width] = nano + (part.nano or 0), length + part.length_s
    return [nano * MONTH_S / length for nano, length in sums.values() if length]


def _half(rates: Sequence[float], mean: float) -> float:
    if len(rates) < 2:
        return mean
    freedom = len(rates) - 1
    t = _T95[freedom - 1] if freedom <= len(_T95) else _NORMAL95
    return t * statistics.stdev(rates) / math.sqrt(len(rates))
