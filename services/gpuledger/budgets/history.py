"""A budget's own history in buckets of two hours: what to expect next, and whether the newest is out of line.

Both look back over HISTORY_DAYS. The model of ``expected`` is (level + trend) x profile. The profile is the
median of each two hours of the day, of weekdays and of weekend days, as a share of the level; the level is
the mean of the last week; the trend, a day, the change of that week's mean against the week before, fading
by half each week ahead. The interval holds 8 of 10 where the errors of days are normal and independent: it
has the variance of the days ahead, of the level (a mean of 7 days) and of the trend (of two such means).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuledger.contract.columns import Doubles
from gpuledger.contract.windows import DAY_NS, HOUR_NS

BUCKET_NS = 2 * HOUR_NS
BUCKETS_A_DAY = DAY_NS // BUCKET_NS
HISTORY_DAYS = 21  # three weeks: as much as the buckets that are kept hold
WEEK_DAYS = 7
LEAST_DAYS = 7  # of history, without which nothing is said
LEAST_SAME = 5  # earlier buckets of the same time of day, without which none is out of line
MAD_TO_DEVIATION = 1.4826  # of a normal distribution
HALF_LIFE_DAYS = 7.0
EIGHT_OF_TEN = 1.2816  # standard deviations to either side, of a normal distribution
_THURSDAY = 3  # 1970-01-01


class Expected(NamedTuple):
    """What is expected to be spent, in the unit of the amount; ``low`` to ``high`` in 8 of 10."""

    low: float
    mean: float
    high: float


def expected(history: Doubles, first_ns: int, until_ns: int) -> Expected | None:
    """What follows a history, up to an instant.

    ``history`` has whole days of buckets (float64, oldest first), ``first_ns`` is the start of its first.
    None with less than LEAST_DAYS of them.
    """
    days = history.size // BUCKETS_A_DAY
    if days < LEAST_DAYS:
        return None
    by_day = history.reshape(days, BUCKETS_A_DAY)
    weekend = _is_weekend(first_ns, days)
    level, trend = _level(by_day), _trend(by_day)
    profile = _profile(by_day, weekend)
    start_ns = first_ns + days * DAY_NS
    ahead = max(0.0, (until_ns - start_ns) / BUCKET_NS)
    whole = int(ahead)
    numbers = np.arange(whole + 1)
    of_weekend = _is_weekend(start_ns, whole // BUCKETS_A_DAY + 1)[numbers // BUCKETS_A_DAY]
    share = profile[of_weekend.astype(int), numbers % BUCKETS_A_DAY]
    distance_days = numbers / BUCKETS_A_DAY
    faded_days = HALF_LIFE_DAYS / np.log(2) * (1 - 0.5 ** (distance_days / HALF_LIFE_DAYS))
    drift = trend * (WEEK_DAYS / 2 + faded_days)  # the level is that of the middle of the last week
    weights = np.ones(whole + 1)
    weights[-1] = ahead - whole
    mean = float((np.maximum(0.0, (level + drift) * share) * weights).sum())
    shares = float((share * weights).sum())
    lead_days = float((share * weights * (WEEK_DAYS / 2 + faded_days)).sum()) / shares if shares else 0.0
    lean = lead_days / WEEK_DAYS if days >= 2 * WEEK_DAYS else 0.0  # on the last week against the one before
    of_level = ((1 + lean) ** 2 + lean**2) / WEEK_DAYS * (shares / BUCKETS_A_DAY) ** 2
    of_days = shares**2 / BUCKETS_A_DAY / ahead if ahead else 0.0
    wide = EIGHT_OF_TEN * _day_error(by_day, profile, weekend) * float(np.sqrt(of_level + of_days))
    return Expected(max(0.0, mean - wide), mean, mean + wide)


def deviation(newest: float, same: Doubles) -> float | None:
    """How far a bucket lies from earlier ones of the same time of day, in robust standard deviations.

    (x - median) / (1.4826 MAD), Hampel's identifier; the MAD is taken as 5 % of the median at least, or any
    change of a history that never moved would be infinite. None with fewer than LEAST_SAME, or a median of 0.
    """
    if same.size < LEAST_SAME:
        return None
    median = float(np.median(same))
    if median <= 0:
        return None
    spread = max(float(np.median(np.abs(same - median))), 0.05 * median)
    return (newest - median) / (MAD_TO_DEVIATION * spread)


def _is_weekend(first_ns: int, days: int) -> npt.NDArray[np.bool_]:
    weekday = (first_ns // DAY_NS + np.arange(days) + _THURSDAY) % WEEK_DAYS
    found: npt.NDArray[np.bool_] = weekday >= WEEK_DAYS - 2
    return found


def _level(by_day: Doubles) -> float:
    return float(by_day[-WEEK_DAYS:].mean())


def _trend(by_day: Doubles) -> float:
    """Change of a bucket's level a day; 0 with less than two weeks."""
    if len(by_day) < 2 * WEEK_DAYS:
        return 0.0
    before = by_day[-2 * WEEK_DAYS : -WEEK_DAYS].mean()
    return float(by_day[-WEEK_DAYS:].mean() - before) / WEEK_DAYS


def _day_error(by_day: Doubles, profile: Doubles, weekend: npt.NDArray[np.bool_]) -> float:
    """Standard deviation of whole days about the level of their own week, over the last two weeks."""
    days = len(by_day) // WEEK_DAYS * WEEK_DAYS
    weeks = min(2, days // WEEK_DAYS)
    recent = by_day[-weeks * WEEK_DAYS :]
    levels = np.repeat(recent.reshape(weeks, -1).mean(axis=1), WEEK_DAYS)
    shape = profile[weekend[-weeks * WEEK_DAYS :].astype(int)].sum(axis=1)
    errors = recent.sum(axis=1) - levels * shape
    return float(np.sqrt((errors**2).sum() / (errors.size - weeks)))


def _profile(by_day: Doubles, weekend: npt.NDArray[np.bool_]) -> Doubles:
    """Share of the level, by (weekend, bucket of the day); scaled so that the last week sums to its level."""
    level = _level(by_day)
    profile = np.ones((2, BUCKETS_A_DAY))
    if level <= 0:
        return profile
    for kind in (0, 1):
        days = by_day[weekend == bool(kind)]
        if len(days):
            profile[kind] = np.median(days, axis=0)
    recent = profile[weekend[-WEEK_DAYS:].astype(int)].mean()
    if recent > 0:
        profile /= recent
    return profile
